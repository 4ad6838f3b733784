"""Learning from lists that something else showed: a search engine's old lists with their clicks.

Such a list has no memo, which some rankers need back with the clicks: they refuse. What clicks mean is the same as
for lists that the ranker drew itself (`parts/preferences.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Self, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from perturank.core import (
    LEARNING,
    Interaction,
    Key,
    Query,
    Ranker,
    Rewards,
    TakesMissing,
    check_room,
    check_width,
    document_arrays,
    streams,
    with_room,
)
from perturank.errors import BadInput
from perturank.parts import batches

AT_ONCE = 64  # lists to a fit of `learn_from_lists`
PLACES = 10  # of each; shorter lists are padded, and where there is a longer one, all that follow are as long
SEED = 1  # of the random numbers, where no key is given

R = TypeVar("R", bound=Ranker)


class Memo(NamedTuple):
    """The shapes of a ranker's memo, which it needs back with the clicks."""

    leaves: list[Any]
    tree: Any

    @classmethod
    def of(cls, ranker: Ranker, places: int) -> Memo:
        """Return the shape of this ranker's memos."""
        kind = type(ranker), ranker.settings, ranker.n_features, places
        if kind not in _MEMOS:
            query = Query.of(np.zeros((places, ranker.n_features)))

            def memo(ranker: Ranker, query: Query, key: Key) -> Any:
                return ranker.rank(query, key, places).memo

            _MEMOS[kind] = cls(*jax.tree.flatten(eqx.filter_eval_shape(memo, ranker, query, jax.random.key(0))))
        return _MEMOS[kind]

    @property
    def is_needed(self) -> bool:
        """Whether there is one at all."""
        return bool(self.leaves)


_MEMOS: dict[Any, Memo] = {}  # found by tracing, which takes a while


@dataclass(frozen=True)
class PastList:
    """A list as it was shown, its first document first, and what somebody did with it.

    `features` [n, d] and `prior` [n] are those of then, `ids` [n] as in `Query.of`. `clicks` are places, counted from
    0, or a boolean for each place. In their stead, `rewards` [n] say what each document turned out to be worth. So
    many top places were `seen` (0: not known, and guessed from the clicks).
    """

    features: ArrayLike
    clicks: ArrayLike | None = None
    prior: ArrayLike | None = None
    ids: ArrayLike | None = None
    rewards: ArrayLike | None = None
    seen: int = 0

    def arrays(self, n_features: int, may_miss: bool, size: int | None = None) -> tuple[np.ndarray, ...]:
        """Return the arrays of a query (`core.document_arrays`), worth [V] and seen; refuse what cannot have been."""
        documents = document_arrays(self.features, self.prior, self.ids, may_miss=may_miss, size=size)
        check_width(documents[0].shape[1], n_features)
        n = int(documents[1].sum())
        if not 0 <= self.seen <= n:
            raise BadInput(f"{self.seen} places were seen, and {n} shown", f"give 1 to {n}; 0: it is not known")
        worth = np.zeros(len(documents[1]), np.float32)
        worth[:n] = self._worth(n)
        return *documents, worth, np.asarray(self.seen, np.int32)

    def __len__(self) -> int:
        try:
            return len(cast(Sequence[Any], self.features))
        except TypeError:  # one that `arrays` refuses
            return 0

    @property
    def has_rewards(self) -> bool:
        """Whether more is known than clicks."""
        return self.rewards is not None or self.seen != 0

    def _worth(self, n: int) -> np.ndarray:
        if (self.clicks is None) == (self.rewards is None):
            raise BadInput("a past list has clicks or rewards", "give one of them; clicks=[]: nothing was clicked")
        if self.rewards is not None:
            rewards = np.asarray(self.rewards, np.float32)
            if rewards.shape != (n,) or not np.isfinite(rewards).all():
                raise BadInput(
                    f"rewards has shape {rewards.shape} for {n} documents", "give a finite number for each place"
                )
            return rewards
        clicks = np.asarray(self.clicks)
        if clicks.dtype == bool:
            if clicks.shape != (n,):
                raise BadInput(f"clicks has shape {clicks.shape} for {n} documents", "give a boolean for each place")
            return clicks.astype(np.float32)
        return _clicked(clicks, n)


def _clicked(places: np.ndarray, n: int) -> np.ndarray:
    """Return 1 for each of these places, else 0; [n]."""
    worth = np.zeros(n, np.float32)
    if places.size == 0:
        return worth
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise BadInput(f"clicks has shape {places.shape} and type {places.dtype}", "give places, counted from 0")
    if places.min() < 0 or places.max() >= n:
        wrong = int(places[(places < 0) | (places >= n)][0])
        raise BadInput(f"place {wrong} was clicked, and {n} were shown", f"give places from 0 to {n - 1}")
    if len(set(places.tolist())) < places.size:
        raise BadInput("clicks names a place twice", "give each place once, or a boolean for each place")
    worth[places] = 1
    return worth


def learn_from(
    ranker: R,
    shown: ArrayLike,
    clicks: ArrayLike | None = None,
    *,
    rewards: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    seen: int = 0,
    key: Key | None = None,
) -> R:
    """Return the ranker that has learned from a list which something else showed; the old one is unchanged.

    `shown` [n, d] are the documents' features in the order in which they were shown; `PastList` explains the rest.
    The key of the random numbers follows from the list, unless it is given.
    """
    _check_memo(ranker)
    past = PastList(shown, clicks, prior, ids, rewards, seen)
    arrays = past.arrays(ranker.n_features, isinstance(ranker, TakesMissing))
    key = _key_of(arrays) if key is None else key
    return ranker.learn(_interaction(arrays, past.has_rewards), key)


def _interaction(arrays: Sequence[np.ndarray], with_rewards: bool) -> Interaction:
    *documents, worth, seen = arrays
    nothing = np.zeros_like(worth), np.zeros_like(seen)
    rewards = Rewards(*jax.device_put((worth, seen, *nothing))) if with_rewards else None
    return Interaction(Query(*jax.device_put(documents)), jax.device_put(worth > 0), None, rewards)


def learn_from_lists(ranker: R, lists: Iterable[PastList], *, key: Key | None = None) -> R:
    """Return the ranker that has learned from many past lists, in their order.

    One compiled program learns 64 lists; rankers with a history fit once for all of them. That is many times as quick
    as `learn_from` for each list, and not the same to the last bit.
    """
    _check_memo(ranker)
    key = streams(SEED)[LEARNING] if key is None else key
    learned, places, waiting = 0, PLACES, iter(lists)
    while some := list(islice(waiting, AT_ONCE)):
        places = max(places, *map(len, some))
        stacked = _stacked(ranker, some, learned, places)
        roomy = with_room(batches.remembered(ranker, key, learned), AT_ONCE, places)
        ranker = cast(R, _learn(roomy, stacked, key, np.int32(learned), np.int32(len(some))))
        check_room(ranker)
        learned += len(some)
    return ranker


def _stacked(ranker: Ranker, some: Sequence[PastList], first: int, size: int) -> Interaction:
    """Return the lists as one interaction [B, k, …], padded to B = AT_ONCE; `first` is the number of the first."""
    may_miss, lists = isinstance(ranker, TakesMissing), []
    for i, each in enumerate(some):
        try:
            lists.append(each.arrays(ranker.n_features, may_miss, size))
        except BadInput as refused:
            raise BadInput(f"list {first + i}: {refused}") from None
    padded = [*lists, *[lists[0]] * (AT_ONCE - len(lists))]
    stacked = [np.stack(leaves) for leaves in zip(*padded, strict=True)]
    return _interaction(stacked, any(each.has_rewards for each in some))


@eqx.filter_jit
def _learn(ranker: Ranker, seen: Interaction, key: Key, learned: np.int32, n: np.int32) -> Ranker:
    """Learn the first n of these interactions, with the keys that the service and a simulation would use."""
    keys = jax.vmap(lambda i: jax.random.fold_in(key, learned + i + 1))(jnp.arange(AT_ONCE))
    return batches.learned(ranker, seen, keys, jnp.asarray(n))


def _check_memo(ranker: Ranker) -> None:
    if Memo.of(ranker, 1).is_needed:
        raise cannot_learn_from_others(type(ranker).__name__)


def cannot_learn_from_others(name: str) -> BadInput:
    """Return the error for a ranker that learns only from lists which it drew itself."""
    what = f"{name} cannot learn from lists that it has not drawn itself: it needs to know how each was drawn"
    return BadInput(what, "use a ranker such as p2headrank, p2linrank or pairrank")


def _key_of(arrays: Sequence[np.ndarray]) -> Key:
    """Return a key that follows from the list, so that different lists get different random numbers."""
    content = b"".join(each.tobytes() for each in arrays)
    return jax.random.fold_in(streams(SEED)[LEARNING], np.uint32(zlib.crc32(content)))


class LearnsFromLists(eqx.Module):
    """What the rankers of this package inherit: the functions above as methods."""

    def learn_from(
        self,
        shown: ArrayLike,
        clicks: ArrayLike | None = None,
        *,
        rewards: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        seen: int = 0,
        key: Key | None = None,
    ) -> Self:
        """Return the ranker that has learned from a list which something else showed; see `learn_from`."""
        options: dict[str, Any] = {"rewards": rewards, "prior": prior, "ids": ids, "seen": seen, "key": key}
        return cast(Self, learn_from(cast(Ranker, self), shown, clicks, **options))

    def learn_from_lists(self, lists: Iterable[PastList], *, key: Key | None = None) -> Self:
        """Return the ranker that has learned from many past lists, in their order; see `learn_from_lists`."""
        return cast(Self, learn_from_lists(cast(Ranker, self), lists, key=key))
