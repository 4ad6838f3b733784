"""Learning before the first click: from relevance labels, or from the scores of a teacher.

A labelled query is shown in random lists. Every document of a list is looked at, and is worth what its label says. So a
label teaches as clicks do: each pair of documents of different worth is a preference, as heavy as the difference. All
rankers that can learn from lists of others learn in this way, and clicks can overrule it later.

A ranker that is `Teachable` forgets a teacher's lists, and keeps the weights that they led to. It is pulled towards
these as far as clicks confirm them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from perturank.core import (
    Array,
    Interaction,
    Key,
    OffPolicy,
    Query,
    Ranker,
    Rewards,
    Teachable,
    check_room,
    identities,
    with_room,
)
from perturank.errors import BadInput
from perturank.parts import batches

R = TypeVar("R", bound=Ranker)
Teacher = Callable[[np.ndarray], np.ndarray]  # rows [n, d] to scores [n]

PLACES = 10
TOGETHER = 16  # lists, with one call of a compiled program
GROWTH = 1024  # lists for which room is made at once: another size of a history is another program
LISTS = 100  # that a teacher shows
PASSES = 10
WEIGHT = 30.0  # lists of clicks that a teacher's lists count as, all in all


def learn_labels(
    ranker: R,
    features: ArrayLike,
    labels: ArrayLike,
    group: ArrayLike,
    *,
    prior: ArrayLike | None = None,
    n_lists: int | None = None,
    trust: float | None = None,
    places: int = PLACES,
    seed: int = 0,
) -> R:
    """Return the ranker that has learned from relevance labels: features [n, d], labels [n], sizes of queries [q].

    The highest label is worth 1, as a click is, and the lowest 0. Queries are shown again until `n_lists` were
    (by default once, and at least LISTS); all of them together count as `trust` lists of clicks (by default as many as
    show every document once).
    """
    grades, lengths = np.asarray(labels, np.float64), np.asarray(group, np.int64)
    rows = _checked(ranker, features, grades, lengths)
    if not np.isfinite(grades).all():
        raise BadInput("a label is not a finite number", "leave out documents without a label")
    once = int(np.sum(-(-lengths // places)))
    low, high = grades.min(), grades.max()
    worth = (grades - low) / (high - low) if high > low else np.zeros(len(grades))
    n = max(once, LISTS) if n_lists is None else n_lists
    weight = (once if trust is None else trust) / n
    return _shown(ranker, rows, worth * weight, lengths, prior, n, 1, places, seed)


def distil(
    ranker: R,
    features: ArrayLike,
    scores: ArrayLike | Teacher,
    group: ArrayLike,
    *,
    prior: ArrayLike | None = None,
    n_lists: int = LISTS,
    passes: int = PASSES,
    trust: float | None = None,
    places: int = PLACES,
    seed: int = 0,
) -> R:
    """Return the ranker that has learned a teacher's scores [n], or those that a function gives to the rows [n, d].

    A document is worth the share of all documents that the teacher scores lower: units of its scores do not matter.
    `trust` says how hard the teacher is to overrule. For a ranker that is `Teachable`, as p2headrank is, it is a
    setting of the ranker, `l2_taught`. For others it is the number of lists of clicks that all lists of the teacher
    count as, by default WEIGHT.
    """
    pupil = _pupil(ranker, trust)
    rows = np.asarray(features, np.float32)
    given = np.asarray(scores(rows) if callable(scores) else scores, np.float64)
    lengths = np.asarray(group, np.int64)
    rows = _checked(ranker, rows, given, lengths)
    if not np.isfinite(given).all():
        raise BadInput("a score of the teacher is not a finite number", "check the teacher")
    ordered = np.sort(given)
    below, upto = np.searchsorted(ordered, given, "left"), np.searchsorted(ordered, given, "right")
    worth = (below + upto) / (2 * len(given))  # ties stand at the middle of their places
    weight = (WEIGHT if trust is None or isinstance(ranker, Teachable) else trust) / (n_lists * passes)
    learned: R = _shown(pupil, rows, worth * weight, lengths, prior, n_lists, passes, places, seed)
    return ranker.taught(learned, trust) if isinstance(ranker, Teachable) else learned


def _pupil(ranker: Any, trust: float | None) -> Any:
    """Return the ranker that is shown the lists; refuse a bad trust before that work, not after it."""
    if not isinstance(ranker, Teachable):
        return ranker
    pupil = ranker.pupil()
    ranker.taught(pupil, trust)
    return pupil


def _checked(ranker: Ranker, features: ArrayLike, worth: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the features; refuse arrays that do not belong together, and rankers that learn from their own lists."""
    rows = np.asarray(features, np.float32)
    if rows.ndim != 2 or rows.shape[1] != ranker.n_features:
        raise BadInput(f"features have shape {rows.shape}", f"the ranker has {ranker.n_features} features")
    if worth.shape != (len(rows),):
        raise BadInput(f"there are {worth.size} labels or scores for {len(rows)} documents", "give one per document")
    if lengths.ndim != 1 or (lengths < 1).any() or lengths.sum() != len(rows):
        raise BadInput(f"group adds up to {lengths.sum()} for {len(rows)} documents", "give the size of every query")
    if needs_memo(ranker) and not isinstance(ranker, OffPolicy):
        raise BadInput(
            f"{type(ranker).__name__} learns only from lists that it drew itself", "use another ranker, such as P²"
        )
    return rows


def needs_memo(ranker: Ranker) -> bool:
    """Return whether the ranker needs its memo to learn."""
    query = Query.of(np.zeros((1, ranker.n_features)))
    memo = eqx.filter_eval_shape(lambda r, q, k: r.rank(q, k, 1).memo, ranker, query, jax.random.key(0))
    return bool(jax.tree.leaves(memo))


def _shown(
    ranker: R,
    rows: np.ndarray,
    worth: np.ndarray,
    lengths: np.ndarray,
    prior: ArrayLike | None,
    n_lists: int,
    passes: int,
    places: int,
    seed: int,
) -> R:
    """Return the ranker that has learned from so many lists of these documents."""
    priors = np.zeros(len(rows), np.float32) if prior is None else np.asarray(prior, np.float32)
    ids = identities(rows, priors)
    rng = np.random.default_rng(seed)
    lists = _lists(worth, lengths, n_lists, places, rng)
    drawn = np.concatenate([lists[rng.permutation(len(lists))] for _ in range(passes)])
    for turn, start in enumerate(range(0, len(drawn), TOGETHER)):
        batch = drawn[start : start + TOGETHER]
        n, batch = len(batch), np.pad(batch, ((0, TOGETHER - len(batch)), (0, 0)), constant_values=-1)
        mask = batch >= 0
        shown = Query(*jax.device_put((np.where(mask[..., None], rows[batch], 0), mask, ids[batch], priors[batch])))
        values = np.where(mask, worth[batch], 0).astype(np.float32)
        blank = np.full(TOGETHER, places, np.int32), np.zeros_like(values), np.zeros(TOGETHER, np.int32)
        rewards = Rewards(*jax.device_put((values, *blank)))
        seen = Interaction(shown, jax.device_put(values > 0), None, rewards)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), turn), TOGETHER)
        if start % GROWTH == 0:
            ranker = with_room(ranker, min(GROWTH, len(drawn) - start) + TOGETHER, places)
        ranker = _learned(ranker, seen, keys, jnp.asarray(n))
        check_room(ranker)
    return ranker


def _lists(worth: np.ndarray, lengths: np.ndarray, n_lists: int, places: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of random lists that have something to teach, each query in turn; [n, places], -1: no document."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    if not any(np.ptp(worth[a:b]) > 0 for a, b in pairwise(starts)):
        return np.zeros((0, places), np.int64)

    def every() -> Iterator[np.ndarray]:
        while True:
            for q in rng.permutation(len(lengths)):
                shuffled = starts[q] + rng.permutation(lengths[q])
                for first in range(0, lengths[q], places):
                    rows = shuffled[first : first + places]
                    if np.ptp(worth[rows]) > 0:
                        yield np.pad(rows, (0, places - len(rows)), constant_values=-1)

    source = every()
    return np.stack([next(source) for _ in range(n_lists)])


@eqx.filter_jit
def _learned(ranker: R, seen: Interaction, keys: Key, n: Array) -> R:
    """Return the ranker that has learned from the first n of these lists; a memo is made up where it is needed."""
    learner: Any = ranker
    if not isinstance(learner, OffPolicy):
        taught: R = batches.learned(learner, seen, keys, n)  # type: ignore[assignment]
        return taught
    arrays, fixed = eqx.partition(ranker, eqx.is_array)

    def one(i: Array, arrays: Any) -> Any:
        learning, each = eqx.combine(arrays, fixed), batches.at(seen, i)
        each = Interaction(each.shown, each.clicks, learning.memo_of(each.shown), each.rewards)
        return eqx.filter(learning.learn(each, keys[i]), eqx.is_array)

    learned: R = eqx.combine(batches.folded(one, TOGETHER, n, arrays), fixed)
    return learned
