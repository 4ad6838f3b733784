"""The searchable library: documents, their engine, their features, and the people who look for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perturank.play.corpus import Document
from perturank.play.engine import MOST, Candidates, Engine
from perturank.play.features import Features
from perturank.play.known_items import KnownItems, Search, dealt

PRIOR = 12.0  # how far the first of BM25's list is above a document that does not match


@dataclass(frozen=True)
class Question:
    """A query with everything the ranker is told of it, in BM25's order: features [n, d] and prior [n]."""

    candidates: Candidates
    features: np.ndarray
    prior: np.ndarray
    ids: list[str]


class Library:
    """Everything that is known before the first click."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = list(documents)
        self.items = KnownItems(documents)
        self._engine, self._features = Engine(documents), Features(documents)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each document by its path."""
        return {document.path: row for row, document in enumerate(self.documents)}

    def searches(self, seed: int) -> Iterator[Search]:
        """Yield known-item searches without end; any 200 in a row are about equally hard for BM25."""
        return dealt(self.items.searches(seed), self._bm25_place, np.random.default_rng([seed, 1]))

    def _bm25_place(self, search: Search) -> float:
        """Return where BM25 has the wanted document; one that is not a candidate stands last."""
        found = np.flatnonzero(self._engine.best(search.words) == search.wanted)
        return float(found[0]) if found.size else float(MOST)

    def question(self, query: str) -> Question:
        """Return the candidates for this query, best first by BM25, as the ranker is told of them."""
        found = self._engine.candidates(query)
        ids = [self.documents[row].path for row in found.rows]
        return Question(found, self._features.of(found), prior(found), ids)


def prior(candidates: Candidates) -> np.ndarray:
    """Return BM25 of the whole text as scores for the ranker to begin with: 0 to PRIOR, in BM25's order; [n]."""
    scores = candidates.scores["whole"]
    return np.asarray(PRIOR * scores / max(float(scores.max(initial=0)), 1e-6), np.float32)
