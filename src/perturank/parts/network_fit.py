"""A few Adam steps on the history from a warm start: how every network with a history learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax

from perturank.core import Array, Key
from perturank.layers import Layers
from perturank.parts import fitting, scoring
from perturank.parts.history import History
from perturank.parts.objective import Loss

State = TypeVar("State")

MOST_ROUNDS = 16  # whose steps a fit takes, however many lists it learns from


def over_rounds(
    step: Callable[[Array, Array, State], State], n_steps: int, newest: Array, is_new: Array, start: State
) -> State:
    """Return the state after n_steps for each list that has a new pair; for a batch, no more than MOST_ROUNDS lists'.

    `step(i, newest, state)` takes the i-th step and sees the slots of one list's pairs; newest is [B, p], is_new [B].
    """
    if newest.shape[0] == 1:
        return lax.cond(is_new[0], lambda: _one_round(step, n_steps, newest[0], start), lambda: start)
    n, lists = jnp.sum(is_new), newest[jnp.argsort(~is_new)]
    rounds = jnp.minimum(n, MOST_ROUNDS)

    def one(i: Array, state: State) -> State:
        return step(i, lists[(i // n_steps) * n // jnp.maximum(rounds, 1)], state)

    return lax.fori_loop(0, rounds * n_steps, one, start)


def _one_round(step: Callable[[Array, Array, State], State], n_steps: int, newest: Array, start: State) -> State:
    # One step without a loop saves copying the parameters.
    if n_steps == 1:
        return step(jnp.asarray(0), newest, start)
    return lax.fori_loop(0, n_steps, lambda i, state: step(i, newest, state), start)


@dataclass(frozen=True)
class NetworkFit:
    """The fit of N networks: steps, budget, regulariser (mλ/2 ‖θ - θ₀‖²), loss and noise.

    `parameter_noise_std` perturbs the regulariser too (the appendix's variant of eq:obj).
    """

    learning_rate: Array | float
    n_steps: int
    budget: int | None
    strength: Array | float
    centred: bool
    loss: Loss = "cross-entropy"
    noise_std: Array | float = 0.0
    parameter_noise_std: Array | float = 0.0

    def optimiser(self, theta: scoring.Scorer) -> Any:
        """Return the optimiser's state at the start."""
        return optax.adam(self.learning_rate).init(eqx.filter(theta, eqx.is_array))

    def scores(self, theta: scoring.Scorer, theta_0: scoring.Scorer, features: Array) -> Array:
        """Return f(x; θ), less f(x; θ₀) where that is not 0 by construction; [V, d] -> [V, N]."""
        if self.centred:
            return scoring.centred_scores(theta, theta_0, features)
        return scoring.ensemble_scores(theta, features)

    def layers(self, theta: scoring.Scorer, theta_0: scoring.Scorer) -> Layers:
        """Return the mean of these scores as layers."""
        return scoring.ensemble_layers(theta, theta_0 if self.centred else None)

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

        is_new = jnp.any(newest < history.weight.shape[0], axis=1)
        trained, optimiser = over_rounds(step, self.n_steps, newest, is_new, (trained, optimiser))
        return eqx.combine(trained, fixed), optimiser

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
