"""Learning a batch in one compiled call: the only module of the service that calls `ranker.learn`.

Live learning and replay both use it, with the same padded shapes. So they agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from perturank import machine
from perturank.core import (
    LEARNING,
    Array,
    Interaction,
    Key,
    OffPolicy,
    Query,
    Ranker,
    Remembers,
    Rewards,
    check_room,
    identities,
    streams,
)
from perturank.errors import BadInput
from perturank.parts import batches
from perturank.parts.past_lists import Memo
from perturank.service.log import snapshots
from perturank.service.log.records import Impression, rearranged, unpacked
from perturank.service.telemetry.logger import logger
from perturank.wire.specification import MOST_IN_A_BATCH

AT_ONCE = MOST_IN_A_BATCH  # impressions to a compiled call, and to a fit; fewer are padded
LEAST_ROOM = 1000  # impressions


class Rewarded(NamedTuple):
    """A list as it was shown, and what its documents turned out to be worth; others are worth nothing.

    `learned` is what they were taken to be worth when the list was learned before.
    """

    since: int  # position of the first record about it
    shown: Impression
    worth: Mapping[str, float]
    seen: int = 0  # so many top places; 0: not known
    learned: Mapping[str, float] = MappingProxyType({})
    learned_seen: int = 0
    columns: Sequence[int] | None = None  # where the features of now stand among those shown; None: as they are

    @property
    def is_plain(self) -> bool:
        """Whether clicks say all of it, each worth 1."""
        return not (self.seen or self.learned or self.learned_seen) and all(each == 1 for each in self.worth.values())


Lesson = Callable[[Ranker, Sequence[Rewarded], int], Ranker]


def learn_from(
    ranker: Ranker, rewarded: Sequence[Rewarded], *, seed: int, learned: int, places: int, own: bool = True
) -> Ranker:
    """Return the ranker that has learned from these impressions; `learned` says how many came before.

    `own`: the ranker drew these lists itself, and they have its memo.
    """
    memo = Memo.of(ranker, places)
    recalls = not own and memo.is_needed
    if recalls and not isinstance(ranker, OffPolicy):
        name = type(ranker).__name__
        raise BadInput(f"{name} cannot learn from lists that it has not drawn itself", "replay under another ranker")
    key = streams(seed)[LEARNING]

    def learn(ranker: Ranker, chunk: Sequence[Rewarded], learned: int) -> Ranker:
        is_plain = all(each.is_plain for each in chunk)
        lists = _stacked(chunk, memo if own else None, ranker.n_features, places, with_rewards=not is_plain)
        ranker = batches.remembered(ranker, key, learned)
        return _loop(ranker, lists, key, np.int32(learned), np.int32(len(chunk)), recalls)

    for start in range(0, len(rewarded), AT_ONCE):
        chunk = rewarded[start : start + AT_ONCE]
        ranker = learn_soundly(with_room(ranker, len(chunk), learned + start, places), chunk, learned + start, learn)
        check_room(ranker)
    return ranker


def learn_soundly(ranker: Ranker, chunk: Sequence[Rewarded], learned: int, learn: Lesson) -> Ranker:
    """Return the ranker after these impressions, without those that would make its arrays infinite or NaN.

    Features of very different sizes can do that to some fits, and everything learned would be lost.
    """
    after = learn(ranker, chunk, learned)
    if is_sound(after):
        return after
    for i, each in enumerate(chunk):
        after = learn(ranker, [each], learned + i)
        if is_sound(after):
            ranker = after
        else:
            logger.warning(
                "the impression at position %d is skipped: the model would become infinite or NaN",
                each.since,
            )
    return ranker


def is_sound(ranker: Ranker) -> bool:
    """Return whether all learned arrays are finite; the history holds requests, which were checked."""
    served = snapshots.served_arrays(ranker).values()
    return all(np.isfinite(array).all() for array in served if array.dtype.kind == "f")


def with_room(ranker: Ranker, n: int, learned: int, places: int) -> Ranker:
    """Return the ranker with room for n more impressions; arrays double when they grow, since each size is compiled.

    The room depends on the log alone, since it is part of a state. It follows the distinct documents and pairs, since
    every batch copies all of them. A ranker with a bounded memory has all its room from the start.
    """
    if not isinstance(ranker, Remembers):
        return ranker
    if ranker.is_bounded:
        return ranker.with_room(AT_ONCE, places)
    return ranker.with_room(n if learned > 0 else max(n, LEAST_ROOM), places)


def n_ahead(learned: int) -> int:
    """Return for how many impressions room is prepared ahead."""
    return max(4 * AT_ONCE, learned // 128)


def with_room_ahead(ranker: Ranker, learned: int, places: int) -> Ranker:
    """Return the ranker in the shape that it needs soon if all documents of the next impressions are new."""
    return with_room(ranker, n_ahead(learned), learned, places)


def prepare(ranker: Ranker, seed: int, places: int, *, with_rewards: bool = False) -> None:
    """Compile the learning of a ranker of this shape, by learning nothing."""
    lists = _stacked([], Memo.of(ranker, places), ranker.n_features, places, with_rewards=with_rewards)
    _loop(ranker, lists, streams(seed)[LEARNING], np.int32(0), np.int32(0), False)


def shapes(ranker: Ranker) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of all arrays inside: they decide which program learns."""
    return tuple(leaf.shape for leaf in jax.tree.leaves(eqx.filter(ranker, eqx.is_array)))


def _learn(ranker: Ranker, all_of: Interaction, key: Key, learned: np.int32, n: np.int32, recalls: bool) -> Ranker:
    """Learn the first n of the stacked interactions with one fit, with the keys of a simulation's rounds."""
    keys = jax.vmap(lambda i: jax.random.fold_in(key, learned + i + 1))(jnp.arange(AT_ONCE))
    if not recalls:
        return batches.learned(ranker, all_of, keys, jnp.asarray(n))
    arrays, fixed = eqx.partition(ranker, eqx.is_array)

    def one(i: Array, arrays: Any) -> Any:
        ranker = eqx.combine(arrays, fixed)
        each = batches.at(all_of, i)
        each = Interaction(each.shown, each.clicks, ranker.memo_of(each.shown), each.rewards)
        return eqx.filter(ranker.learn(each, keys[i]), eqx.is_array)

    return eqx.combine(lax.fori_loop(0, n, one, arrays), fixed)


# XLA's newer code generator takes nearly twice as long for it, and the program is no faster.
_loop: Callable[..., Ranker] = cast(Any, eqx.filter_jit)(_learn, compiler_options=machine.older_generator())


def _stacked(
    chunk: Sequence[Rewarded], memo: Memo | None, n_features: int, places: int, *, with_rewards: bool
) -> Interaction:
    """Return shown documents [B, k, d], clicks or rewards [B, k] and the memo's leaves [B, …], padded to B = AT_ONCE.

    Clicks alone have a program of their own. With rewards of 0 and 1 some rankers learn other last bits, and logs in
    which there are only clicks are to be replayed to the same ones.
    """
    features = np.zeros((AT_ONCE, places, n_features), np.float32)
    mask = np.zeros((AT_ONCE, places), bool)
    ids = np.zeros((AT_ONCE, places, 2), np.uint32)
    prior = np.zeros((AT_ONCE, places), np.float32)
    worth, learned = np.zeros((2, AT_ONCE, places), np.float32)
    seen, learned_seen = np.zeros((2, AT_ONCE), np.int32)
    likes = None if memo is None else memo.leaves
    leaves = [np.zeros((AT_ONCE, *like.shape), like.dtype) for like in likes or ()]
    for i, each in enumerate(chunk):
        rows, scores, recalled = unpacked(each.shown.packed, likes)
        if each.columns is not None:
            rows = rearranged(rows, each.columns)
        n = len(rows)
        features[i, :n], mask[i, :n], prior[i, :n] = rows, True, scores
        ids[i, :n] = identities(rows, scores)
        worth[i, :n] = [each.worth.get(document, 0.0) for document in each.shown.ids]
        learned[i, :n] = [each.learned.get(document, 0.0) for document in each.shown.ids]
        seen[i], learned_seen[i] = each.seen, each.learned_seen
        for leaf, value in zip(leaves, recalled, strict=True):
            leaf[i] = value
    # Put on the device as they are: jnp.asarray would compile a program for every shape.
    shown = Query(*jax.device_put((features, mask, ids, prior)))
    memos = None if memo is None else jax.tree.unflatten(memo.tree, jax.device_put(leaves))
    rewards = Rewards(*jax.device_put((worth, seen, learned, learned_seen))) if with_rewards else None
    return Interaction(shown, jax.device_put(worth > 0), memos, rewards)
