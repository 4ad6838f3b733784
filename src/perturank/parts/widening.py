"""A ranker with more features than it began with: what it has learned stays, and new features have weight zero.

New features are the last ones. Axes that belong to features are found by comparing two rankers that have learned
nothing, one of each width; every array is extended at the end of these axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from perturank.core import Array, Query, Ranker, Recomputes
from perturank.errors import BadInput

FEW, MORE = 2, 3  # features with which a kind of ranker is tried
CLOSE = 1e-4  # of two scores that are computed in another order

Start = Callable[[int, int], Ranker]  # a ranker that has learned nothing, of so many features, by this seed


def widened(ranker: Ranker, n_features: int, start: Start) -> Ranker:
    """Return the ranker with so many features, of which the last are new; `start` makes those that it began as.

    What a start draws by chance, the weights, is zero for new features; all else is as a start of that width has it.
    """
    narrow, wide, other = start(ranker.n_features, 0), start(n_features, 0), start(n_features, 1)
    if not are_alike(narrow, wide):
        raise BadInput(f"{type(ranker).__name__} cannot take more features", "begin it anew")
    arrays, static = eqx.partition(wide, eqx.is_array)
    of_each = (jax.tree.leaves(eqx.filter(each, eqx.is_array)) for each in (ranker, narrow, wide, other))
    longer = [_extended(*leaves) for leaves in zip(*of_each, strict=True)]
    result: Ranker = eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), longer), static)
    return result.recomputed() if isinstance(result, Recomputes) else result


def are_alike(narrow: Ranker, wide: Ranker) -> bool:
    """Return whether two rankers have the same arrays, which differ in their shapes alone.

    Where a part knows its number of parameters, its arrays are packed in a way that depends on it.
    """

    def parts(ranker: Any) -> list[Any]:
        fields = [field.name for field in dataclasses.fields(ranker) if field.name != "n_features"]
        return [jax.tree.structure(eqx.filter(getattr(ranker, name), eqx.is_array)) for name in fields]

    return parts(narrow) == parts(wide)


def can_widen(start: Start) -> bool:
    """Return whether rankers of this kind keep their scores when a feature is added.

    A ranker with random numbers in all its arrays is tried: somebody's own scorer may have its features elsewhere
    than at the end of its axes.
    """
    try:
        before = _random(start(FEW, 0))
        after = widened(before, MORE, start)
    except BadInput:
        return False
    rows = np.random.default_rng(0).normal(size=(4, FEW))
    more = np.column_stack([rows, np.ones((4, MORE - FEW))])
    ids = np.arange(len(rows))  # documents stay the same
    one, other = (np.asarray(each.score(Query.of(x, ids=ids))) for each, x in ((before, rows), (after, more)))
    return bool(np.allclose(one, other, CLOSE, CLOSE))


def _extended(array: Array, narrow: Array, wide: Array, other: Array) -> Array:
    """Return an array with room for new features; other axes, as that of a history, may have grown since the start."""
    news = [more - few for few, more in zip(narrow.shape, wide.shape, strict=True)]
    if not any(news):
        return array
    shape = tuple(n + new for n, new in zip(array.shape, news, strict=True))
    is_drawn = not np.array_equal(np.asarray(wide), np.asarray(other))
    longer = np.zeros(shape, array.dtype) if is_drawn or shape != wide.shape else np.array(wide)
    longer[tuple(slice(n) for n in array.shape)] = np.asarray(array)
    return jax.device_put(longer)


def _random(ranker: Ranker) -> Ranker:
    lots = np.random.default_rng(1)

    def drawn(leaf: Any) -> Any:
        is_number = eqx.is_inexact_array(leaf)
        return jax.device_put(lots.normal(size=leaf.shape).astype(leaf.dtype)) if is_number else leaf

    result: Ranker = jax.tree.map(drawn, ranker)
    return result
