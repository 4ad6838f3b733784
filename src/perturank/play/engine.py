"""Candidates: BM25 over the fields of the documents, and over the trigrams of their names for what is misspelt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import bm25s
import numpy as np

from perturank.play.corpus import Document
from perturank.play.words import pieces, terms

MOST = 50
FIELDS: dict[str, Callable[[Document], str]] = {
    "whole": lambda document: f"{document.path} {document.signature} {document.text}",
    "name": lambda document: document.name or document.path,
    "module": lambda document: document.module,
    "summary": lambda document: document.summary,
    "text": lambda document: document.text,
}


def trigrams(text: str) -> list[str]:
    """Return the runs of three characters of every word, with its ends marked.

    >>> trigrams("join it")
    ['^jo', 'joi', 'oin', 'in$', '^it', 'it$']
    """
    marked = [f"^{word}$" for word in pieces(text)]
    return [word[i : i + 3] for word in marked for i in range(len(word) - 2)]


class Index:
    """BM25 of one field, with Lucene's formula."""

    def __init__(self, tokens: Sequence[list[str]]) -> None:
        self._engine = bm25s.BM25(method="lucene")
        self._engine.index(tokens, show_progress=False)
        self._n = len(tokens)

    def scores(self, tokens: Sequence[str]) -> np.ndarray:
        """Return every document's score; words that no document has count nothing; [n]."""
        known = [token for token in dict.fromkeys(tokens) if token in self._engine.vocab_dict]
        if not known:
            return np.zeros(self._n, np.float32)
        return np.asarray(self._engine.get_scores(known), np.float32)


@dataclass(frozen=True)
class Candidates:
    """The documents that a query may mean, in BM25's order: rows [n], and each field's scores [n]."""

    query: str
    rows: np.ndarray
    scores: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.rows)


class Engine:
    """The documents behind their indexes."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = list(documents)
        self._fields = {name: Index([terms(said(document)) for document in documents]) for name, said in FIELDS.items()}
        self._verbatim = Index([pieces(FIELDS["whole"](document)) for document in documents])
        self._letters = Index([trigrams(FIELDS["name"](document)) for document in documents])

    def best(self, query: str, most: int = MOST) -> np.ndarray:
        """Return the rows of the best documents by BM25 of the whole text, best first."""
        return _best(self._fields["whole"].scores(terms(query)), most)

    def candidates(self, query: str, most: int = MOST) -> Candidates:
        """Return the best documents by BM25 of the whole text; where too few match, names that look alike follow."""
        words = terms(query)
        scores = {name: index.scores(words) for name, index in self._fields.items()}
        scores["verbatim"] = self._verbatim.scores(pieces(query))
        scores["letters"] = self._letters.scores(trigrams(query))
        rows = _best(scores["whole"], most)
        if len(rows) < most:
            alike = _best(scores["letters"], most)
            rows = np.concatenate([rows, alike[~np.isin(alike, rows)]])[:most]
        return Candidates(query, rows, {name: values[rows] for name, values in scores.items()})


def _best(scores: np.ndarray, most: int) -> np.ndarray:
    """Return the rows of the highest positive scores, best first; ties stand as the documents do."""
    rows = np.argpartition(-scores, most)[:most] if len(scores) > most else np.arange(len(scores))
    rows = rows[np.lexsort((rows, -scores[rows]))]
    return np.asarray(rows[scores[rows] > 0])
