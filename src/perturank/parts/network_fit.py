"""A few Adam steps on the history from a warm start: how every network with a history learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax

from perturank.core import Array, Key
from perturank.parts import fitting, scoring
from perturank.parts.history import History
from perturank.parts.objective import Loss

MOST_ROUNDS = 16  # whose steps a fit takes, however many lists it learns from


@dataclass(frozen=True)
class NetworkFit:
    """The fit of N networks: steps, budget, regulariser (mλ/2 ‖θ - θ₀‖²), loss and noise.

    `parameter_noise_std` perturbs the regulariser too (the appendix's variant of eq:obj).
    """

    learning_rate: float
    n_steps: int
    budget: int | None
    strength: float
    centred: bool
    loss: Loss = "cross-entropy"
    noise_std: float = 0.0
    parameter_noise_std: float = 0.0

    def optimiser(self, theta: scoring.Scorer) -> Any:
        """Return the optimiser's state at the start."""
        return optax.adam(self.learning_rate).init(eqx.filter(theta, eqx.is_array))

    def scores(self, theta: scoring.Scorer, theta_0: scoring.Scorer, features: Array) -> Array:
        """Return f(x; θ), less f(x; θ₀) where that is not 0 by construction; [V, d] -> [V, N]."""
        if self.centred:
            return scoring.centred_scores(theta, theta_0, features)
        return scoring.ensemble_scores(theta, features)

    def fitted(
        self,
        theta: scoring.Scorer,
        theta_0: scoring.Scorer,
        optimiser: Any,
        history: History,
        newest: Array,
        key: Key,
        kept: Key,
    ) -> tuple[scoring.Scorer, Any]:
        """Return the networks and the optimiser after one fit; nothing moves where no pair is new.

        `newest` [B, p] are the slots of each new list's pairs; `kept` is the key of noise that is drawn once.
        """
        trained, fixed = eqx.partition(theta, eqx.is_array)

        def step(i: Array, newest: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
            arrays, optimiser = state
            # A sample is drawn anew each step; the noise on a whole history is drawn once a fit.
            lots = key if self.budget is None else jax.random.fold_in(key, i)
            gradient = self.gradient(eqx.combine(arrays, fixed), theta_0, history, newest, lots, kept)
            updates, optimiser = optax.adam(self.learning_rate).update(gradient, optimiser)
            return optax.apply_updates(arrays, updates), optimiser

        taught = jnp.any(newest < history.weight.shape[0], axis=1)
        start = trained, optimiser
        if newest.shape[0] == 1:
            one = partial(step, newest=newest[0])
            trained, optimiser = lax.cond(taught[0], lambda: self._round(one, start), lambda: start)
        else:
            trained, optimiser = self._batch(step, newest[jnp.argsort(~taught)], jnp.sum(taught), start)
        return eqx.combine(trained, fixed), optimiser

    def _round(self, step: Callable[..., Any], start: tuple[Any, Any]) -> tuple[Any, Any]:
        # One step without a loop saves copying the parameters.
        if self.n_steps == 1:
            return step(jnp.asarray(0), state=start)
        return lax.fori_loop(0, self.n_steps, lambda i, state: step(i, state=state), start)

    def _batch(self, step: Callable[..., Any], newest: Array, n: Array, start: tuple[Any, Any]) -> tuple[Any, Any]:
        """Take the steps of n rounds, but no more than those of MOST_ROUNDS; each sees one list's pairs first."""
        rounds = jnp.minimum(n, MOST_ROUNDS)

        def one(i: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
            return step(i, newest[(i // self.n_steps) * n // jnp.maximum(rounds, 1)], state)

        return lax.fori_loop(0, rounds * self.n_steps, one, start)

    def gradient(
        self, theta: scoring.Scorer, theta_0: scoring.Scorer, history: History, newest: Array, key: Key, kept: Key
    ) -> Any:
        """Return the gradient of eq:obj, or an unbiased estimate of it within the budget."""
        lots, parameter_lots = jax.random.split(key)

        less = theta_0 if self.centred else None
        if self.budget is None:
            n = jax.tree.leaves(eqx.filter(theta, eqx.is_array))[0].shape[0]
            targets = history.targets(self.noise_std, n, lots)
            gradient = fitting.full_gradient(history, theta, less, targets, self.loss)
        else:
            gradient = fitting.sampled_gradient(
                history, newest, self.budget, theta, less, self.noise_std, lots, self.loss
            )
        now, start = eqx.filter(theta, eqx.is_array), eqx.filter(theta_0, eqx.is_array)
        parameter_key = parameter_lots if history.frozen is None else kept
        pull = fitting.pull_to_start(now, start, self.strength, self.parameter_noise_std, parameter_key)
        return jax.tree.map(jnp.add, gradient, pull)
