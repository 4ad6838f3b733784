"""The vocabulary: queries, rankings, interactions, and what a ranker and a user are.

A ranker is a value. Its methods are pure, so one object is compiled into a simulation,
served over HTTP, replayed from a log and stored in a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, cast, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from perturank.errors import BadInput
from perturank.hyperparameters import Settings
from perturank.layers import Layers

Array = jax.Array
Key = jax.Array
Judgement = Literal["grades", "scores"]

SMALLEST_BUCKET = 16
BEHIND_ALL = 2**31 - 1
QUERIES, USERS, LISTS, LEARNING, START = range(5)  # concerns, each with a stream of keys of its own


@jax.jit
def streams(seed: int | Array) -> Key:
    """Return one key per concern: queries, users, lists, learning, start; [5]."""
    return jax.vmap(lambda i: jax.random.fold_in(jax.random.key(seed), i))(jnp.arange(5))


def bucket(n: int) -> int:
    """Return the padded length for n rows: a power of two, so that few shapes are ever compiled."""
    return max(SMALLEST_BUCKET, 1 << (n - 1).bit_length())


def identities(rows: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return 64-bit hashes of the documents' content, features [n, d] and prior [n], as words [n, 2]."""
    content = np.ascontiguousarray(np.column_stack([rows, prior]) + np.float32(0))  # -0.0 is 0.0
    digests = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in content)
    return np.frombuffer(digests, np.uint32).reshape(-1, 2)


class Limits(eqx.Module):
    """How far a list may stray from the best estimate; standing [V] is each document's place there, from 0.

    So many top places are protected; elsewhere no document moves more than `displacement` places.
    Where `explores` is false the list is the best estimate itself, with the probabilities of one that explores.
    With `given` [V], each document's place in some list, that list is drawn whatever its probability, which may be 0.
    """

    standing: Array
    protected: Array
    displacement: Array
    explores: Array
    given: Array | None = None

    @classmethod
    def of(
        cls,
        scores: Array,
        mask: Array,
        protected: Array,
        displacement: Array,
        explores: Array,
        given: Array | None = None,
    ) -> Limits:
        """Return the limits around the order of these scores [V]; ties stand as the documents were given.

        `given` [k] are the rows of a list whose probability is asked for.
        """
        order = jnp.argsort(jnp.where(mask, -scores, jnp.inf), stable=True)
        standing = jnp.zeros(order.shape, jnp.int32).at[order].set(jnp.arange(order.shape[0], dtype=jnp.int32))
        if given is not None:
            given = jnp.full(order.shape, BEHIND_ALL, jnp.int32).at[given].set(jnp.arange(given.shape[0]))
        return cls(standing, protected, displacement, explores, given)

    def within(self, candidates: Array, left: Array, r: Array) -> Array:
        """Return which candidates [V] may stand at place r when these documents [V] are left.

        A document no more than D places behind the best one left can end no more than D places from its own.
        """
        best = jnp.min(jnp.where(left, self.standing, BEHIND_ALL))
        reach = jnp.where(r < self.protected, 0, self.displacement)
        near = candidates & (self.standing - best <= reach)
        # Rounding can put a document before one that certainly precedes it; then the best candidate stands there.
        least = jnp.min(jnp.where(candidates, self.standing, BEHIND_ALL))
        return jnp.where(jnp.any(near), near, candidates & (self.standing == least))

    def pick(self, candidates: Array, left: Array, explored: Array) -> Array:
        """Return the explored pick, or the best of the candidates [V]; of a given list, the first of those left [V]."""
        if self.given is not None:
            return jnp.argmin(jnp.where(left, jnp.minimum(self.given, BEHIND_ALL - 1), BEHIND_ALL))
        best = jnp.argmin(jnp.where(candidates, self.standing, BEHIND_ALL))
        return jnp.where(self.explores, explored, best)

    def log_p(self, candidates: Array, pick: Array, log_p: Array) -> Array:
        """Return the log-probability of a pick among the candidates [V]; a given list may have one that is none."""
        return log_p if self.given is None else jnp.where(candidates[pick], log_p, -jnp.inf)


def document_arrays(
    features: ArrayLike,
    prior: ArrayLike | None,
    ids: ArrayLike | None,
    *,
    may_miss: bool = False,
    size: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays of a query: features [V, d], mask [V], ids [V, 2], prior [V]; V is `size`, or a bucket."""
    rows = _finite(features, "features", 2, may_miss)
    n, d = rows.shape
    if n == 0 or d == 0:
        raise BadInput("a query needs at least one document and one feature", f"features has shape {rows.shape}")
    scores = np.zeros(n, np.float32) if prior is None else _finite(prior, "prior", 1)
    if scores.shape != (n,):
        raise BadInput(f"prior has {scores.size} scores for {n} documents", "give one score per document")
    names = identities(rows, scores) if ids is None else _as_ids(ids, n)
    given = rows, np.ones(n, bool), names, scores
    padded = tuple(np.zeros((size or bucket(n), *array.shape[1:]), array.dtype) for array in given)
    for whole, array in zip(padded, given, strict=True):
        whole[:n] = array
    return cast(tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], padded)


class Query(eqx.Module):
    """Candidate documents of one query, padded: features [V, d], mask [V], ids [V, 2], prior [V].

    Rows with equal ids must have equal features and prior: repeated pairs are learned as one
    weighted pair. `prior` holds the scores of the order in use today (zeros: none). `limits` hold
    exploration back.
    """

    features: Array
    mask: Array
    ids: Array
    prior: Array
    limits: Limits | None = None

    @classmethod
    def of(
        cls,
        features: ArrayLike,
        *,
        prior: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        may_miss: bool = False,
    ) -> Query:
        """Return a query of these documents [V, d], padded to a bucket; ids default to the content.

        For rankers that standardise their features, NaN is a missing one (`may_miss`).

        >>> query = Query.of([[0.1, 2.0], [0.3, 1.0]])
        >>> query.features.shape, int(query.mask.sum())
        ((16, 2), 2)
        """
        rows, mask, names, scores = map(jnp.asarray, document_arrays(features, prior, ids, may_miss=may_miss))
        return cls(rows, mask, names, scores)

    def places(self, n_features: int, k: int) -> int:
        """Return how many places a list of at most k has; a query that does not fit the ranker is refused."""
        check_width(self.features.shape[1], n_features)
        if k < 1:
            raise BadInput(f"k is {k}", "a list has 1 place or more")
        return min(k, self.mask.shape[0])

    @property
    def n_rows(self) -> Array:
        """The number of rows up to the last document; only padding follows."""
        return jnp.max(jnp.where(self.mask, jnp.arange(1, self.mask.shape[0] + 1), 0))

    def take(self, order: Array) -> Query:
        """Return the documents at these rows."""
        return Query(self.features[order], self.mask[order], self.ids[order], self.prior[order])


def check_width(n: int, n_features: int) -> None:
    """Refuse documents of n features for a ranker of another number."""
    if n != n_features:
        raise BadInput(f"the query's documents have {n} features", f"this ranker was made for {n_features}")


class Ranking(eqx.Module):
    """A shown list: order [k] of row numbers, of which the first n are real.

    free[r] says how many documents no certain order keeps from place r (1: certain; a floor of
    exploration may still put another one there); log_p [k] is the exact
    log-probability of each place given those above it, None where the algorithm defines none; memo
    is what `learn` needs back when the clicks come.
    """

    order: Array
    free: Array
    n: Array
    log_p: Array | None
    memo: Any

    @property
    def log_propensity(self) -> Array | None:
        """The log-probability of the whole list."""
        return None if self.log_p is None else jnp.sum(self.log_p, axis=-1)

    @property
    def documents(self) -> np.ndarray:
        """The rows shown, best first, without padding."""
        return np.asarray(self.order)[: int(self.n)]


class Rewards(eqx.Module):
    """What a person did with the shown documents, where more is known than clicks.

    worth [k] is 0 for a document that nothing was done with, and below 0 for one that was turned down. So many top
    places were `seen` (0: not known, so that it is guessed from the clicks). `learned` and `learned_seen` are what
    was learned of the same list before: only preferences that are new since then count.
    """

    worth: Array
    seen: Array
    learned: Array
    learned_seen: Array

    @classmethod
    def of(cls, worth: ArrayLike, seen: int = 0) -> Rewards:
        """Return the rewards of a list that nothing was learned of yet."""
        values = _finite(worth, "worth", 1)
        return cls(jnp.asarray(values), jnp.asarray(seen, jnp.int32), jnp.zeros(len(values)), jnp.zeros((), jnp.int32))

    @property
    def gain(self) -> Array:
        """How much more the documents turned out to be worth than was learned before; [k]."""
        return self.worth - self.learned


class Interaction(eqx.Module):
    """What `learn` needs of one impression: the shown documents [k], their clicks [k], the memo.

    `rewards` say more than clicks, where that is known; a document of positive worth is a clicked one.
    """

    shown: Query
    clicks: Array
    memo: Any
    rewards: Rewards | None = None

    @classmethod
    def of(cls, query: Query, ranking: Ranking, clicked: Sequence[int] | np.ndarray) -> Interaction:
        """Return the interaction in which these rows of the query were clicked.

        Rows that were not shown are refused: nobody can have clicked them.
        """
        _check_shown(clicked, ranking)
        clicks = jnp.asarray(np.isin(np.asarray(ranking.order), np.asarray(clicked, np.int64)))
        return cls.observed(query, ranking, clicks)

    @classmethod
    def rewarded(cls, query: Query, ranking: Ranking, worth: Mapping[int, float], seen: int = 0) -> Interaction:
        """Return the interaction in which these rows of the query turned out to be worth so much.

        So many top places were seen (0: not known).
        """
        _check_shown(list(worth), ranking)
        order = np.asarray(ranking.order)
        rewards = Rewards.of([worth.get(int(row), 0.0) for row in order], seen)
        seen_now = cls.observed(query, ranking, rewards.worth > 0)
        return cls(seen_now.shown, seen_now.clicks, seen_now.memo, rewards)

    @classmethod
    def observed(cls, query: Query, ranking: Ranking, clicks: Array) -> Interaction:
        """Return the interaction with clicks [k] by place."""
        shown = query.take(ranking.order)
        return cls(shown, clicks & shown.mask, ranking.memo)


def _check_shown(rows: Sequence[int] | np.ndarray, ranking: Ranking) -> None:
    shown = ranking.documents
    strangers = sorted(set(map(int, rows)) - set(shown.tolist()))
    if strangers:
        raise BadInput(f"document {strangers[0]} was clicked but not shown", f"shown were {shown.tolist()}")


@runtime_checkable
class Ranker(Protocol):
    """What every ranker of the catalogue does. What only some can do has protocols of its own, below."""

    @classmethod
    def start(cls, settings: Any, n_features: int, key: Key) -> Self:
        """Return a ranker that has learned nothing."""

    @property
    def settings(self) -> Settings:
        """The hyper-parameters."""

    @property
    def n_features(self) -> int:
        """The number of features of a document."""

    def score(self, query: Query) -> Array:
        """Return the best estimate of each document's score, without exploration; [V]."""

    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return the list to show: it explores where the ranker is uncertain."""

    def learn(self, interaction: Interaction, key: Key) -> Self:
        """Return the ranker that has learned from these clicks; the old one is unchanged."""


@runtime_checkable
class RowWise(Protocol):
    """A ranker that can say whether a document's score depends on its own features and prior alone.

    Rows of many queries are then scored together. A ranker that does not say so is given one query at a time.
    """

    @property
    def is_row_wise(self) -> bool:
        """Whether what else is in the list changes no score."""


@runtime_checkable
class CertainOrders(Protocol):
    """A ranker that can say which of its orders are certain."""

    def certain(self, query: Query) -> Array:
        """Return C[i, j]: document i certainly precedes j; [V, V]."""

    def precedes(self, query: Query) -> Array:
        """Return P[i, j]: no list shows document j before i, unless a floor of exploration puts it there; [V, V]."""

    def uncertain(self, query: Query) -> Array:
        """Return the share of this query's pairs without a certain order."""


@runtime_checkable
class Ensemble(Protocol):
    """A ranker that is made of several."""

    def scores(self, query: Query) -> Array:
        """Return the scores of each of the N rankers; [V, N]."""


@runtime_checkable
class KeepsLimits(Protocol):
    """A ranker whose lists keep to `Query.limits`, and that knows the probability of its lists under them."""

    keeps_limits: ClassVar[Literal[True]]


@runtime_checkable
class TakesMissing(Protocol):
    """A ranker to which NaN is a missing feature."""

    takes_missing: ClassVar[Literal[True]]


@runtime_checkable
class Remembers(Protocol):
    """A ranker that keeps what it has seen. Its memory cannot grow inside a compiled program: it needs room before."""

    learning_only: ClassVar[tuple[str, ...]]  # fields that `rank` and `score` never read: serving does without them

    @property
    def is_bounded(self) -> bool:
        """Whether it forgets, so that it never needs more room than it has from the start."""

    def with_room(self, n_rounds: int, k: int) -> Self:
        """Return the same ranker with room for so many more rounds of k shown documents."""

    def has_overflowed(self) -> Array:
        """Return whether more was learned in a compiled program than there was room for."""


@runtime_checkable
class Forgets(Protocol):
    """A ranker whose memory may be bounded. Few batches fill it, so forgetting is apart from `learn_batch`."""

    def may_be_full(self) -> bool:
        """Return whether it forgets before the next list; inside a compiled program, whether it ever forgets."""

    def remembered(self, key: Key) -> Self:
        """Return the ranker as it meets the next list, whose key this is: a full one has forgotten something."""


@runtime_checkable
class Fades(Protocol):
    """A ranker that can give less weight to all that it has seen: what comes next then counts for more."""

    def faded(self, share: float) -> Self:
        """Return the same ranker whose memory weighs this share of what it did."""


@runtime_checkable
class FitsBatches(Protocol):
    """A ranker that learns from several interactions with one fit."""

    def learn_batch(self, seen: Interaction, keys: Key, n: Array) -> Self:
        """Return the ranker that has learned from the first n of these interactions [B, …], keys [B].

        One that `Forgets` has done so before: see `batches.remembered`.
        """


@runtime_checkable
class OffPolicy(Protocol):
    """A ranker that needs its memo to learn, and can make up that of a list which another ranker showed."""

    def memo_of(self, shown: Query) -> Any:
        """Return the memo of this list [k]."""


@runtime_checkable
class Teachable(Protocol):
    """A ranker that can begin with what a teacher taught, and lets clicks decide how far to follow it."""

    def pupil(self) -> Self:
        """Return the ranker that is taught."""

    def taught(self, pupil: Self, trust: float | None) -> Self:
        """Return this ranker with what its pupil has learned as its start; `trust` says how hard it is to overrule."""


@runtime_checkable
class Recomputes(Protocol):
    """A ranker that keeps what follows from its other arrays, which is computed again when features were added."""

    def recomputed(self) -> Self:
        """Return the same ranker with these arrays computed again."""


@runtime_checkable
class LayerWise(Protocol):
    """A ranker, or a scorer, whose score of a document can be written as ReLU layers of its features."""

    def layers(self) -> Layers:
        """Return the best estimate's score, less the prior."""


@runtime_checkable
class LinearWidths(Protocol):
    """A ranker that keeps A, whose inverse gives the confidence widths of linear scores."""

    @property
    def feature_covariance(self) -> Array | None:
        """A of lemma:cb, [d, d]; None where there are too many features to keep it."""


R = TypeVar("R", bound=Ranker)


@cache
def register_settings(kind: type) -> None:
    """Make a class of settings part of its rankers' pytrees: its arrays are leaves, all else is static."""
    assert issubclass(kind, Settings)
    names = [field.name for field in dataclasses.fields(kind)]

    def flatten(settings: Settings) -> tuple[list[tuple[Any, Any]], tuple[tuple[str, ...], tuple[Any, ...]]]:
        arrays = settings.arrays
        leaves = [(jax.tree_util.GetAttrKey(name), getattr(settings, name)) for name in arrays]
        return leaves, (arrays, tuple(getattr(settings, name) for name in names if name not in arrays))

    def unflatten(static: tuple[tuple[str, ...], tuple[Any, ...]], leaves: Iterable[Any]) -> Settings:
        arrays, others = static
        rest = [name for name in names if name not in arrays]
        return kind.with_arrays(dict(zip((*rest, *arrays), (*others, *leaves), strict=True)), arrays)

    jax.tree_util.register_pytree_with_keys(kind, flatten, unflatten)


def traces_settings(kind: Any) -> bool:
    """Return whether a ranker's numbers may be arrays: its field `settings` is not static."""
    if not dataclasses.is_dataclass(kind):
        return False
    return any(field.name == "settings" and not field.metadata.get("static") for field in dataclasses.fields(kind))


def traced_settings(settings: Settings) -> Settings:
    """Return the settings with an array for every number but 0."""
    return settings.traced(lambda number: jnp.asarray(number, jnp.float32))


def traced(ranker: R) -> R:
    """Return the ranker with arrays for the numbers of its settings: programs compiled for it serve all their values.

    Settings in a static field stay compiled in.
    """
    return with_settings(ranker, traced_settings(ranker.settings)) if traces_settings(type(ranker)) else ranker


def with_settings(ranker: R, settings: Settings) -> R:
    """Return the ranker with these settings in place of its own, unless they are static."""

    def is_settings(node: Any) -> bool:
        return isinstance(node, Settings)

    return jax.tree.map(lambda node: settings if is_settings(node) else node, ranker, is_leaf=is_settings)


def with_room(ranker: R, n_rounds: int, k: int) -> R:
    """Return the ranker with room for so many more rounds of k shown documents, if it needs any."""
    return ranker.with_room(n_rounds, k) if isinstance(ranker, Remembers) else ranker


def check_room(ranker: object) -> None:
    """Refuse a ranker that learned more in a compiled program than it had room for: some of it is lost.

    Inside the program nobody can be told; whoever runs one asks afterwards.
    """
    if isinstance(ranker, Remembers):
        overflowed = ranker.has_overflowed()
        if not isinstance(overflowed, jax.core.Tracer) and overflowed:
            raise BadInput(
                "a compiled program has learned more than the ranker had room for, and its memory is damaged",
                "give it room first: with_room(rounds, k)",
            )


@runtime_checkable
class ClickModel(Protocol):
    """A simulated user: sees the documents' grades or their true scores, never features."""

    @property
    def judges_by(self) -> Judgement:
        """What the user sees of a document: its grade, or its true score f* where the data have one."""

    @property
    def spec(self) -> str:
        """The user in one line, from which it can be made again."""

    def check(self, judged: ArrayLike) -> None:
        """Refuse grades that the user does not know, or scores that are none."""

    def click(self, judged: Array, mask: Array, key: Key) -> Array:
        """Return the clicks on a list of grades or scores [k], top first; masked places get none; [k]."""


def _finite(values: ArrayLike, name: str, ndim: int, may_miss: bool = False) -> np.ndarray:
    try:
        array = np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name} must be numbers in rows of equal length", str(error)) from None
    if array.ndim != ndim:
        raise BadInput(f"{name} has {array.ndim} axes", f"it must have {ndim}")
    is_fine = np.isfinite(array) | (may_miss & np.isnan(array))
    if not is_fine.all():
        where = tuple(int(i) for i in np.argwhere(~is_fine)[0])
        raise BadInput(f"{name}{list(where)} is {array[where]}", "replace it by a finite number")
    return array


def _as_ids(ids: ArrayLike, n: int) -> np.ndarray:
    numbers = np.asarray(ids)
    if numbers.shape != (n,) or numbers.dtype.kind not in "iu":
        raise BadInput(f"ids has shape {numbers.shape} and type {numbers.dtype}", f"give {n} integers")
    wide = numbers.astype(np.uint64)
    return np.stack([wide & 0xFFFFFFFF, wide >> np.uint64(32)], axis=1).astype(np.uint32)
