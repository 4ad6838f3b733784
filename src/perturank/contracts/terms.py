"""What contracts are written in: small queries, a ranker before and after two lists, and how one is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank.core import Array, Interaction, Query, Ranking, with_room
from perturank.publishing import Published

N_FEATURES = 5
PLACES = 4
KEYS = jax.random.split(jax.random.key(21), 8)


class ContractBroken(AssertionError):
    """A ranker does not keep a contract: says what it did, and what it should do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")


class DoesNotApply(Exception):
    """A contract says nothing of this ranker, and why."""


def require(holds: object, what: str, remedy: str) -> None:
    """Refuse the ranker unless this holds."""
    if not holds:
        raise ContractBroken(what, remedy)


def require_close(one: Any, other: Any, what: str, remedy: str, *, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Refuse the ranker unless the arrays inside agree up to rounding."""
    for mine, theirs in zip(arrays(one), arrays(other), strict=True):
        require(mine.shape == theirs.shape and np.allclose(mine, theirs, rtol, atol, equal_nan=True), what, remedy)


def require_finite(ranker: Any, when: str) -> None:
    """Refuse a ranker with a NaN or an infinity in it."""
    require(is_finite(ranker), f"an array of the ranker is not finite {when}", "keep everything that is learned finite")


def require_list(ranking: Ranking, n: int) -> None:
    """Refuse a list that shows a document twice, or padding before the n documents have run out."""
    order, free, n_shown = np.asarray(ranking.order), np.asarray(ranking.free), min(n, len(ranking.order))
    shown, where = order[:n_shown], f"in a list of {len(order)} places over {n} documents"
    require(int(ranking.n) == n_shown, f"n is {int(ranking.n)} {where}", f"it must be {n_shown}")
    require(len(set(order.tolist())) == len(order), f"order is {order.tolist()} {where}", "no row may stand twice")
    behind = (shown < n).all() and (order[n_shown:] >= n).all()
    require(behind, f"order is {order.tolist()} {where}", "padding follows only when the documents run out")
    fits = (free[:n_shown] >= 1).all() and (free[:n_shown] <= n - np.arange(n_shown)).all() and not free[n_shown:].any()
    require(fits, f"free is {free.tolist()} {where}", "it counts the documents that could have stood at each place")
    if ranking.log_propensity is not None:
        p = float(ranking.log_propensity)
        require(-np.inf < p <= 1e-6, f"log_propensity is {p} {where}", "log_p holds log-probabilities, or is None")


@dataclass(frozen=True)
class Case:
    """A ranker before and after two lists were clicked."""

    fresh: Any
    interactions: tuple[Interaction, ...]
    learned: Any


@lru_cache(maxsize=8)
def case(published: Published) -> Case:
    """Return a new ranker, and what it becomes by two lists; it has room for many more."""
    ranker = fresh = with_room(start(published), 10, PLACES)
    interactions = []
    for t in range(2):
        shown = query(9, seed=t)
        ranking = ranker.rank(shown, KEYS[t], PLACES)
        interactions.append(Interaction.of(shown, ranking, ranking.documents[1:3]))
        ranker = ranker.learn(interactions[-1], KEYS[t])
    return Case(fresh, tuple(interactions), ranker)


def start(published: Published) -> Any:
    """Return a new ranker for documents of five features."""
    return published.make(N_FEATURES)


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Return n random documents; [n, 5]."""
    return np.random.default_rng(seed).uniform(-1, 1, (n, N_FEATURES)).astype(np.float32)


def query(n: int = 9, seed: int = 0, prior: Sequence[float] | np.ndarray | None = None) -> Query:
    """Return a query of n random documents in 16 rows."""
    return Query.of(rows(n, seed), prior=prior)


def arrays(value: Any) -> list[np.ndarray]:
    """Return copies of all arrays inside."""
    return [np.array(leaf) for leaf in jax.tree.leaves(eqx.filter(value, eqx.is_array)) if not _is_key(leaf)]


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def same_bits(one: Any, other: Any) -> bool:
    """Say whether all arrays inside agree to the last bit."""
    pairs = zip(arrays(one), arrays(other), strict=True)
    return all(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def is_finite(value: Any) -> bool:
    """Say whether no array inside holds a NaN or an infinity."""
    return all(bool(np.isfinite(array).all()) for array in arrays(value) if array.dtype.kind == "f")
