"""What a search engineer would tell a ranker about a document and a query: about thirty numbers near [0, 1]."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perturank.play.corpus import LibraryDocument
from perturank.play.search_engine import Candidates, pieces, terms, trigrams

BY_FIELD = ("whole", "name", "module", "summary", "text", "verbatim", "letters")
HIGH_SCORE = 30.0  # of BM25: few queries reach it
KINDS = ("module", "class", "function", "method")

OF_MATCH = (
    "query terms in the name",
    "query terms in the module",
    "query terms in the summary",
    "query terms in the text",
    "name terms in the query",
    "module terms in the query",
    "summary terms in the query",
    "name is a query word",
    "name is the query",
    "a name term begins with a query word",
    "letters shared with the name",
    "letters shared with the last query word",
    "neighbours in the query are neighbours in the text",
    "early in the text",
)
OF_DOCUMENT = (
    *(f"is a {kind}" for kind in KINDS),
    "length of the name",
    "length of the text",
    "length of the summary",
    "depth",
    "parameters",
    "exported",
    "uses",
    "importers",
    "namesakes",
    "size of the module",
)
NAMES = (
    *(f"BM25 of {field}" for field in BY_FIELD),
    *(f"BM25 of {field} relative to the best" for field in BY_FIELD),
    *OF_MATCH,
    *OF_DOCUMENT,
    "query terms",
)


@dataclass(frozen=True)
class DocumentTerms:
    """What is computed once of a document."""

    name: frozenset[str]
    module: frozenset[str]
    summary: frozenset[str]
    places: dict[str, int]  # of each term's first occurrence in the text
    neighbours: frozenset[tuple[str, str]]
    words: tuple[str, ...]  # of the name, as they are written
    last: str  # the name alone, in lower case
    letters: frozenset[str]


def document_terms(document: LibraryDocument) -> DocumentTerms:
    """Return the terms of a document."""
    last = document.name.rpartition(".")[2] or document.module.rpartition(".")[2]
    text = tuple(terms(document.text))
    return DocumentTerms(
        frozenset(terms(last)),
        frozenset(terms(document.module)),
        frozenset(terms(document.summary)),
        {term: place for place, term in reversed(list(enumerate(text)))},
        frozenset(itertools.pairwise(text)),
        tuple(pieces(last)),
        last.lower(),
        frozenset(trigrams(last)),
    )


class Features:
    """The features of a library's documents."""

    def __init__(self, documents: Sequence[LibraryDocument]) -> None:
        self._terms = [document_terms(document) for document in documents]
        self._fixed = of_documents(documents)

    def of(self, candidates: Candidates) -> np.ndarray:
        """Return the candidates' features; [n, len(NAMES)]."""
        scores = np.stack([candidates.scores[field] for field in BY_FIELD], 1)
        relative = scores / np.maximum(scores.max(0, initial=0), 1e-6)
        query = QueryTerms.of(candidates.query)
        matches = np.array([match(query, self._terms[row]) for row in candidates.rows], np.float32)
        length = np.full((len(candidates), 1), min(len(query.terms), 8) / 8, np.float32)
        matches = matches.reshape(len(candidates), len(OF_MATCH))
        absolute = np.log1p(scores) / math.log1p(HIGH_SCORE)
        return np.hstack([absolute, relative, matches, self._fixed[candidates.rows], length]).astype(np.float32)


@dataclass(frozen=True)
class QueryTerms:
    """What is computed once of a query."""

    terms: tuple[str, ...]
    words: tuple[str, ...]
    typed: frozenset[str]  # between spaces and dots: a name may be one of them
    text: str
    letters: frozenset[str]
    last: frozenset[str]

    @classmethod
    def of(cls, query: str) -> QueryTerms:
        """Return the terms of a query."""
        words = tuple(dict.fromkeys(pieces(query)))
        letters = frozenset(trigrams(query))
        last = frozenset(trigrams(words[-1])) if words else frozenset()
        typed = frozenset(query.lower().replace(".", " ").split())
        return cls(tuple(dict.fromkeys(terms(query))), words, typed, "".join(words), letters, last)


def match(query: QueryTerms, document: DocumentTerms) -> list[float]:
    """Return how one document matches the query, in the order of OF_MATCH."""
    wanted, n = set(query.terms), max(len(query.terms), 1)
    pairs = list(itertools.pairwise(query.terms))
    first = min((document.places[term] for term in query.terms if term in document.places), default=None)
    return [
        len(wanted & document.name) / n,
        len(wanted & document.module) / n,
        len(wanted & document.summary) / n,
        sum(term in document.places for term in query.terms) / n,
        len(wanted & document.name) / max(len(document.name), 1),
        len(wanted & document.module) / max(len(document.module), 1),
        len(wanted & document.summary) / max(len(document.summary), 1),
        float(document.last in query.typed),
        float("".join(document.words) == query.text),
        _prefix(query.words, document.words),
        _shared(query.letters, document.letters),
        _shared(query.last, document.letters),
        sum(pair in document.neighbours for pair in pairs) / max(len(pairs), 1),
        0.0 if first is None else 1 / (1 + first / 4),
    ]


def _prefix(words: Sequence[str], parts: Sequence[str]) -> float:
    """Return the largest share of a part of the name that a query word begins."""
    shares = [len(word) / len(part) for word in words for part in parts if part.startswith(word)]
    return max(shares, default=0.0)


def _shared(some: frozenset[str], others: frozenset[str]) -> float:
    """Return Dice's coefficient of two sets of trigrams."""
    return 2 * len(some & others) / max(len(some) + len(others), 1)


def of_documents(documents: Sequence[LibraryDocument]) -> np.ndarray:
    """Return what does not depend on the query, in the order of OF_DOCUMENT; [n, len(OF_DOCUMENT)]."""
    namesakes = Counter(document.name.rpartition(".")[2] for document in documents)
    sizes = Counter(document.module for document in documents)

    def row(document: LibraryDocument) -> list[float]:
        last = document.name.rpartition(".")[2]
        return [
            *(float(document.kind == kind) for kind in KINDS),
            _logarithmic(len(last or document.module), 40),
            _logarithmic(len(document.text), 4000),
            _logarithmic(len(document.summary), 400),
            document.path.count(".") / 4,
            min(document.signature.count(",") + (len(document.signature) > 2), 8) / 8,
            float(document.exported),
            _logarithmic(document.uses, 250),
            _logarithmic(document.importers, 250),
            _logarithmic(namesakes[last] - 1 if last else 0, 50),
            _logarithmic(sizes[document.module], 600),
        ]

    return np.array([row(document) for document in documents], np.float32)


def _logarithmic(value: float, high: float) -> float:
    return math.log1p(value) / math.log1p(high)
