"""Candidates by BM25 over stemmed words, and over the trigrams of names for what is misspelt; highlighted matches."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import bm25s
import numpy as np
import Stemmer

from perturank.play.corpus import LibraryDocument

PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
COMMON = """
a about after all also an and any are as at be been before but by can could do does each either for from had has have
how if in into is it its may more must no nor not of off on one only or other otherwise out over own same should so
some such than that the their them then there these they this those to too under up use used uses using very was we
were what when where whether which while who will with within without would you your
"""
STOP_WORDS = frozenset(COMMON.split())
_stems = Stemmer.Stemmer("english")


def pieces(text: str) -> list[str]:
    """Return the words of a text in lower case.

    >>> pieces("os.path.splitext, HTTPServer and read_text2")
    ['os', 'path', 'splitext', 'http', 'server', 'and', 'read', 'text', '2']
    """
    return [piece.lower() for piece in PIECE.findall(text)]


@functools.lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return a word's stem.

    >>> stem("returning")
    'return'
    """
    return str(_stems.stemWord(word))


def terms(text: str) -> list[str]:
    """Return the stems of a text's words but for those that every text has.

    >>> terms("Joins the paths of a file")
    ['join', 'path', 'file']
    """
    return [stem(word) for word in pieces(text) if word not in STOP_WORDS]


MOST = 50
FIELDS: dict[str, Callable[[LibraryDocument], str]] = {
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
    words = [f"^{word}$" for word in pieces(text)]
    return [word[i : i + 3] for word in words for i in range(len(word) - 2)]


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


class SearchEngine:
    """The documents behind their indexes."""

    def __init__(self, documents: Sequence[LibraryDocument]) -> None:
        self.documents = list(documents)
        self._fields = {name: Index([terms(text(document)) for document in documents]) for name, text in FIELDS.items()}
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


Highlighted = list[tuple[str, bool]]


def highlight(text: str, wanted: Collection[str]) -> Highlighted:
    """Return the text in parts, each with whether its stem is a wanted one; together they are the text itself.

    >>> highlight("Joins <b>paths</b>", {"path"})
    [('Joins <b>', False), ('paths', True), ('</b>', False)]
    """
    parts: Highlighted = []
    end = 0
    for found in PIECE.finditer(text):
        word = found.group().lower()
        if word not in STOP_WORDS and stem(word) in wanted:
            parts += [(text[end : found.start()], False)] if found.start() > end else []
            parts.append((found.group(), True))
            end = found.end()
    return [*parts, (text[end:], False)] if end < len(text) else parts
