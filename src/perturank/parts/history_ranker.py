"""What all rankers share that learn from a history of clicks and know which of their orders are certain."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from perturank.core import Array, Interaction, Key, Query, check_room
from perturank.hyperparameters import AT_LEAST_ONE, NOT_NEGATIVE, Settings, hyper
from perturank.parts import batches, certainty
from perturank.parts.history import History
from perturank.parts.past_lists import LearnsFromLists
from perturank.parts.preferences import Inclusion, PairSet, n_pairs_at_most


@dataclass(frozen=True)
class HistorySettings(Settings):
    """How clicks become the pairs of a history."""

    examined_beyond: int = hyper(
        1, "unclicked documents after the last click that count as examined", "l", NOT_NEGATIVE
    )
    pairs: PairSet = hyper("independent", "independent pairs as in the paper, or all, each weighted 1/max(n⁺, n⁻)")
    inclusion: Inclusion = hyper("paper", "symmetric: only pairs that would be inferred either way round")


@dataclass(frozen=True)
class MemorySettings(HistorySettings):
    """Settings of rankers that can forget."""

    memory: int | None = hyper(
        None, "most pairs kept; when full, the least recently seen half is dropped (none: unlimited)", "", AT_LEAST_ONE
    )


class HistoryRanker(LearnsFromLists):
    """A ranker that is fitted to all clicks it remembers."""

    keeps_limits: ClassVar[Literal[True]] = True
    is_row_wise: ClassVar[Literal[True]] = True
    learning_only: ClassVar[tuple[str, ...]] = ("history",)

    settings: HistorySettings
    history: History

    @property
    def n_features(self) -> int:
        """The number of features of a document."""
        return self.history.documents.shape[1]

    @property
    def is_bounded(self) -> bool:
        """Whether it forgets."""
        return self.history.recency is not None

    @abstractmethod
    def certain(self, query: Query) -> Array:
        """Return C[i, j]: document i certainly precedes j; [V, V]."""

    def precedes(self, query: Query) -> Array:
        """Return which orders of two documents every list keeps; [V, V]."""
        return self.certain(query)

    @eqx.filter_jit
    def uncertain(self, query: Query) -> Array:
        """Return the share of pairs without a certain order."""
        return certainty.uncertain_share(self.certain(query), query.mask)

    def with_room(self, n_rounds: int, k: int) -> Self:
        """Return the same ranker with room for so many more rounds."""
        history = self.history.with_room(n_rounds * k, n_rounds * n_pairs_at_most(k, self.settings.pairs))
        return self if history is self.history else eqx.tree_at(lambda r: r.history, self, history)

    def has_overflowed(self) -> Array:
        """Return whether more was learned in a compiled program than there was room for."""
        return self.history.has_overflowed

    def may_be_full(self) -> bool:
        """Return whether it forgets before the next list; inside a compiled program, whether it ever forgets."""
        n, recency = self.history.n_pairs, self.history.recency
        return recency is not None and (isinstance(n, jax.core.Tracer) or int(n) >= recency.memory)

    def remembered(self, key: Key) -> Self:
        """Return the ranker as it meets the next list, whose key this is: a full memory has lost its older half."""
        return self._remembered(key) if self.may_be_full() else self

    @eqx.filter_jit
    def _remembered(self, key: Key) -> Self:
        kept = lax.cond(self.history.is_full, lambda: self.newer_half(key), lambda: self.memory)
        return eqx.tree_at(lambda each: each.memory, self, kept, is_leaf=lambda leaf: leaf is None)

    @property
    def memory(self) -> tuple[Any, ...]:
        """What changes when the ranker forgets."""
        return (self.history,)

    def newer_half(self, key: Key) -> tuple[Any, ...]:
        """Return what `memory` is when a full history has forgotten its older half."""
        return (self.history.newer_half(),)

    def learn(self, interaction: Interaction, key: Key) -> Self:
        """Return the ranker fitted to all clicks so far, these among them."""
        learned = self.with_room(1, interaction.clicks.shape[0]).remembered(key)._learn(interaction, key)
        check_room(learned)
        return learned

    @eqx.filter_jit
    def _learn(self, interaction: Interaction, key: Key) -> Self:
        return self.learn_batch(batches.of_one(interaction), key[None], jnp.asarray(1))

    @abstractmethod
    def learn_batch(self, seen: Interaction, keys: Key, n: Array) -> Self:
        """Return the ranker after one fit to all clicks, the first n of these interactions [B, …] among them."""
