"""Scoring functions f(x; θ). An ensemble is one module with a leading axis on every array.

A scorer is an Equinox module with `start(n_features, key)`, which makes one. A row-wise scorer scores each document by
its own features alone. Any other sees the whole list of candidates, with a mask that tells documents from padding.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from perturank import layers
from perturank.core import Array, Key, LayerWise, Query
from perturank.errors import BadInput
from perturank.layers import Layers

Scorer = Any  # a RowScorer or a ListScorer, or an ensemble of them
Start = Literal["zero", "centred"]

BLOCK = 512  # documents scored at a time
NETWORK = "network"  # the scorer of neural rankers, unless they are told another
SCORER = "network: fully connected, of these widths; module:NAME: a scorer of your own"


@runtime_checkable
class RowScorer(Protocol):
    """A scorer of single documents: what else is in the list changes nothing."""

    is_row_wise: ClassVar[Literal[True]]

    @classmethod
    def start(cls, n_features: int, key: Key) -> Self:
        """Return one that has learned nothing."""

    def __call__(self, features: Array) -> Array:
        """Return the scores; [V, d] -> [V]."""


@runtime_checkable
class ListScorer(Protocol):
    """A scorer of whole lists. Padding, where the mask is false, has features of 0; its scores are not read."""

    is_row_wise: ClassVar[Literal[False]]

    @classmethod
    def start(cls, n_features: int, key: Key) -> Self:
        """Return one that has learned nothing."""

    def __call__(self, features: Array, mask: Array) -> Array:
        """Return the scores; [V, d], [V] -> [V]."""


class Linear(eqx.Module):
    """f(x; θ) = xᵀθ."""

    is_row_wise: ClassVar[Literal[True]] = True
    weight: Array

    def __call__(self, features: Array) -> Array:
        """Return the scores; [V, d] -> [V]."""
        return features @ self.weight

    def layers(self) -> Layers:
        """Return the same as layers."""
        return layers.linear(np.asarray(self.weight))


class Network(eqx.Module):
    """f(x; θ) = scale · W_L φ(W_{L-1} … φ(W_1 x)), without biases; optionally plus a linear path.

    The paper's scale is √m. The linear path (`shortcut`) is ours.
    """

    is_row_wise: ClassVar[Literal[True]] = True
    hidden: tuple[Array, ...]
    output: Array
    shortcut: Array | None
    scale: float = eqx.field(static=True)

    def __call__(self, features: Array) -> Array:
        """Return the scores; [V, d] -> [V]."""
        return self.forward(features)[0]

    def layers(self) -> Layers:
        """Return the same as layers."""
        path = None if self.shortcut is None else np.asarray(self.shortcut)
        output = self.scale * np.asarray(self.output, np.float64)
        return layers.network([np.asarray(weight) for weight in self.hidden], output, path)

    def forward(self, features: Array) -> tuple[Array, tuple[Array, ...]]:
        """Return the scores [V] and what `backward` needs: the activity of every hidden layer, [V, m_l]."""
        activities = [features]
        for weight in self.hidden:
            activities.append(jax.nn.relu(activities[-1] @ weight))
        # The scale goes first: a product after the sum would be fused with `centred_scores` and leave a rest.
        scores = activities[-1] @ (self.scale * self.output)
        if self.shortcut is not None:
            scores = scores + features @ self.shortcut
        return scores, tuple(activities[1:])

    def backward(self, features: Array, kept: tuple[Array, ...], slopes: Array) -> Network:
        """Return Σ_v slope_v ∂f(x_v)/∂θ, of the shape of the network."""
        vectors = self.backward_vectors(kept, slopes)
        hidden = tuple(a.T @ back for a, back in zip((features, *kept[:-1]), vectors, strict=True))
        path = None if self.shortcut is None else slopes @ features
        return Network(hidden, self.scale * (slopes @ kept[-1]), path, self.scale)

    def backward_vectors(self, kept: tuple[Array, ...], slopes: Array) -> tuple[Array, ...]:
        """Return slope_v ∂f(x_v)/∂(W_l a) of every hidden layer, a being its input; [V, m_l] each."""
        vectors = [jnp.where(kept[-1] > 0, slopes[:, None] * (self.scale * self.output), 0.0)]
        for weight, activity in zip(self.hidden[:0:-1], kept[-2::-1], strict=True):
            vectors.insert(0, jnp.where(activity > 0, vectors[0] @ weight.T, 0.0))
        return tuple(vectors)


def linear(n_features: int) -> Linear:
    """Return the linear scorer that knows nothing: all scores are 0."""
    return Linear(jnp.zeros(n_features))


def network(
    n_features: int, widths: tuple[int, ...], key: Key, start: Start = "zero", shortcut: bool = False
) -> Network:
    """Return a network at θ₀.

    `zero` starts the last layer at 0, so that f(x; θ₀) = 0 to the bit. `centred` draws it too and
    scales f by √m as in the paper; whoever uses it subtracts f(x; θ₀) (see `centred_scores`).
    """
    keys = jax.random.split(key, len(widths) + 1)
    inputs = (n_features, *widths)
    hidden = tuple(
        jax.random.normal(k, (n, m)) * math.sqrt(2 / (n if start == "zero" else m))
        for k, n, m in zip(keys[:-1], inputs[:-1], widths, strict=True)
    )
    last = widths[-1]
    drawn = jax.random.normal(keys[-1], (last,)) / math.sqrt(last)
    path = jnp.zeros(n_features) if shortcut else None
    if start == "zero":
        return Network(hidden, jnp.zeros(last), path, 1.0)
    return Network(hidden, drawn, path, math.sqrt(last))


def scorer(name: str, n_features: int, key: Key, network: Callable[[Key], Network]) -> Scorer:
    """Return a new scorer: the network, or one of the class `module:NAME`.

    The module must have been imported before: a name that was read from a file loads no code.
    """
    if name == NETWORK:
        return network(key)
    module_name, _, wanted = name.partition(":")
    module = sys.modules.get(module_name)
    if module is None:
        raise BadInput(f"the scorer {name!r} lies in a module that is not imported", f"import {module_name!r} first")
    kind = getattr(module, wanted, None)
    if not isinstance(kind, type) or not isinstance(kind, RowScorer | ListScorer):
        raise BadInput(
            f"{name!r} is no scorer", "name a class with is_row_wise, start(n_features, key) and __call__: module:NAME"
        )
    try:
        made = kind.start(n_features, key)
        shape = jax.eval_shape(lambda: list_scores(made, jnp.zeros((3, n_features)), jnp.ones(3, bool))).shape
    except TypeError as error:
        remedy = "its methods are start(n_features, key) and __call__(features), or __call__(features, mask)"
        raise BadInput(f"the scorer {name!r} cannot be called: {error}", remedy) from error
    if shape != (3,):
        raise BadInput(f"the scorer {name!r} returns an array of shape {shape} for 3 documents", "return one of (3,)")
    return made


def row_scorer(name: str, n_features: int, key: Key, network: Callable[[Key], Network]) -> Scorer:
    """Return a new scorer for a ranker that learns from pairs of documents of many lists; others are refused.

    The history holds every document once, whatever list it stood in, and no candidates that were not shown.
    """
    made = scorer(name, n_features, key, network)
    if not made.is_row_wise:
        raise BadInput(
            f"the scorer {name!r} looks at whole lists, and this ranker remembers pairs without their lists",
            "use pdgd-neural, which takes it, or a row-wise scorer",
        )
    return made


def list_scores(scorer: Scorer, features: Array, mask: Array) -> Array:
    """Return the scores of the documents of one list; [V, d], [V] -> [V]. Padding changes nothing."""
    if scorer.is_row_wise:
        return scorer(features)
    return jnp.where(mask, scorer(jnp.where(mask[:, None], features, 0.0), mask), 0.0)


def map_arrays(function: Callable[[Array], Array], scorer: Scorer) -> Scorer:
    """Return the scorer with this function of each of its arrays."""
    return jax.tree.map(lambda leaf: function(leaf) if eqx.is_array(leaf) else leaf, scorer)


def ensemble(make: Callable[[Key], Scorer], n: int, key: Key) -> Scorer:
    """Return n scorers as one module: every array gets a leading axis of length n."""
    return eqx.filter_vmap(make)(jax.random.split(key, n))


def ensemble_scores(scorers: Scorer, features: Array) -> Array:
    """Return every scorer's scores; [V, d] -> [V, N]."""
    return eqx.filter_vmap(lambda scorer: scorer(features), in_axes=eqx.if_array(0), out_axes=1)(scorers)


def scorer_layers(scorer: Scorer) -> Layers:
    """Return a scorer as layers; one that cannot be written so is refused."""
    if not isinstance(scorer, LayerWise):
        name, remedy = type(scorer).__name__, "give it a method layers(), or use a linear scorer or the network"
        raise BadInput(f"the scorer {name} does not say how it is written as layers", remedy)
    return scorer.layers()


def ensemble_layers(scorers: Scorer, less: Scorer | None = None) -> Layers:
    """Return the mean of the N scorers as layers, less the mean of others."""
    n = jax.tree.leaves(eqx.filter(scorers, eqx.is_array))[0].shape[0]
    parts = [(scorers, 1 / n)] if less is None else [(scorers, 1 / n), (less, -1 / n)]
    each = [(_one_of(many, i), share) for many, share in parts for i in range(n)]
    return layers.total([scorer_layers(one) for one, _ in each], [share for _, share in each])


def _one_of(scorers: Scorer, i: int) -> Scorer:
    return map_arrays(lambda array: array[i], scorers)


def by_blocks(score: Callable[[Array], Array], features: Array, n_rows: Array) -> Array:
    """Return `score` of the first n_rows documents and 0 for the rest, in blocks that fit a cache; [V, d] -> [V, N]."""
    v = features.shape[0]
    if v <= 2 * BLOCK:
        return score(features)

    def block(i: Array, scores: Array) -> Array:
        start = jnp.minimum(i * BLOCK, v - BLOCK)  # the last one may overlap
        found = score(lax.dynamic_slice_in_dim(features, start, BLOCK))
        return lax.dynamic_update_slice_in_dim(scores, found, start, 0)

    shape = jax.eval_shape(score, features).shape
    return lax.fori_loop(0, (n_rows + BLOCK - 1) // BLOCK, block, jnp.zeros(shape))


def centred_scores(scorers: Scorer, start: Scorer, features: Array) -> Array:
    """Return every scorer's scores less those of its start, 0 to the bit while the two agree; [V, d] -> [V, N]."""
    return ensemble_scores(scorers, features) - ensemble_scores(start, features)


def forward(scorers: Scorer, features: Array) -> tuple[Array, Any]:
    """Return every scorer's scores, [V, d] -> [V, N], and what `backward` needs so as not to compute them again.

    A network keeps its activities; any other module keeps nothing and is evaluated again.
    """
    if isinstance(scorers, Network):
        return eqx.filter_vmap(lambda net: net.forward(features), in_axes=eqx.if_array(0), out_axes=(1, 0))(scorers)
    return ensemble_scores(scorers, features), ()


def backward(scorers: Scorer, features: Array, kept: Any, slopes: Array) -> Scorer:
    """Return Σ_v slope_v ∂f(x_v)/∂θ of every scorer; slopes [V, N]."""
    if isinstance(scorers, Network):
        return eqx.filter_vmap(
            lambda net, kept, slopes: net.backward(features, kept, slopes), in_axes=(eqx.if_array(0), 0, 1)
        )(scorers, kept, slopes)
    trained, fixed = eqx.partition(scorers, eqx.is_array)
    return jax.vjp(lambda p: ensemble_scores(eqx.combine(p, fixed), features), trained)[1](slopes)[0]


def ascend(scorer: Scorer, shown: Query, slopes: Array, rate: Array | float) -> Scorer:
    """Return the scorer after a step along Σ_v slope_v ∂f(x_v)/∂θ; slopes [V]."""
    trained, fixed = eqx.partition(scorer, eqx.is_array)
    _, back = jax.vjp(lambda t: list_scores(eqx.combine(t, fixed), shown.features, shown.mask), trained)
    return eqx.combine(jax.tree.map(lambda leaf, gradient: leaf + rate * gradient, trained, back(slopes)[0]), fixed)


def document_gradients(scorer: Scorer, features: Array) -> Array:
    """Return g(x; θ), the gradient of each document's score in all parameters; [V, d] -> [V, p]."""
    trained, fixed = eqx.partition(scorer, eqx.is_array)

    def one(row: Array) -> Array:
        gradient = jax.grad(lambda t: eqx.combine(t, fixed)(row[None])[0])(trained)
        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(gradient)])

    return jax.vmap(one)(features)


def n_parameters(scorer: Scorer) -> int:
    """Return p, the number of parameters of one scorer."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(scorer, eqx.is_array)))
