"""Known-item search: a person looks for one document by some words that they remember of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perturank.play.corpus import Document
from perturank.play.words import STOP_WORDS, pieces

SHORTEST = 3
LENGTHS = (2, 3, 4, 5)
P_LENGTHS = (0.3, 0.35, 0.25, 0.1)
P_SUMMARY, P_NAME, P_MODULE = 0.6, 0.25, 0.15  # where a remembered word comes from
P_OTHER_FORM = 0.25  # "paths" for "path": people remember a word, not its form
WANTED, ALIAS, NAMESAKE = 4, 2, 1  # grades; everything else has 0


EQUALLY_HARD = 200  # searches in a row
DEALT_AT_ONCE = 2000


@dataclass(frozen=True)
class Search:
    """What a person types, and the document they have in mind."""

    words: str
    wanted: int  # its row


def dealt(
    searches: Iterator[Search], hardness: Callable[[Search], float], chance: np.random.Generator
) -> Iterator[Search]:
    """Yield the same searches in another order, in which any EQUALLY_HARD in a row are about equally hard.

    They are sorted by hardness and dealt out like cards. Without that, two stretches of 200 searches differ in
    hardness by chance as much as a ranker learns.
    """
    n_hands = DEALT_AT_ONCE // EQUALLY_HARD
    while True:
        some = sorted(itertools.islice(searches, DEALT_AT_ONCE), key=hardness)
        rounds = [some[i : i + n_hands] for i in range(0, len(some), n_hands)]
        for each in rounds:
            chance.shuffle(each)
        for hand in zip(*rounds, strict=True):
            yield from [hand[i] for i in chance.permutation(len(hand))]


def content_words(text: str) -> list[str]:
    """Return the words of a text that a person may remember, each once."""
    return list(dict.fromkeys(word for word in pieces(text) if len(word) >= SHORTEST and word not in STOP_WORDS))


def other_form(word: str) -> str:
    """Return a word in singular for plural, and the other way round; verbs without their -s.

    >>> other_form("paths"), other_form("join"), other_form("class")
    ('path', 'joins', 'class')
    """
    if word.endswith("ss"):
        return word
    return word[:-1] if word.endswith("s") else f"{word}s"


class KnownItems:
    """Searches for documents of a library; the same seed gives the same searches.

    People look for what programs use: a document's chance grows with the number of modules that use it. The
    ranker is not told so, it has to find out from the clicks.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._remembered = [_remembered(each) for each in documents]
        self._findable = [row for row, (summary, *_) in enumerate(self._remembered) if len(summary) >= max(LENGTHS)]
        chances = np.array([1.0 + documents[row].uses for row in self._findable])
        self._up_to = np.cumsum(chances / chances.sum())
        self._names = [each.name.rpartition(".")[2] or each.path for each in documents]
        self._texts = [each.text for each in documents]

    def searches(self, seed: int) -> Iterator[Search]:
        """Yield searches without end."""
        chance = np.random.default_rng(seed)
        while True:
            at = int(np.searchsorted(self._up_to, chance.random(), side="right"))
            wanted = self._findable[min(at, len(self._findable) - 1)]
            yield Search(self._typed(wanted, chance), wanted)

    def _typed(self, wanted: int, chance: np.random.Generator) -> str:
        """Return some words of the document's first paragraph, of its name and of its module, each with its chance."""
        n, typed = chance.choice(LENGTHS, p=P_LENGTHS), dict[str, None]()
        sources = self._remembered[wanted]
        for source in chance.choice(3, size=n, p=(P_SUMMARY, P_NAME, P_MODULE)):
            words = sources[source] or sources[0]
            word = words[chance.integers(len(words))]
            typed[other_form(word) if chance.random() < P_OTHER_FORM else word] = None
        return " ".join(typed)

    def grades(self, wanted: int, rows: Sequence[int]) -> np.ndarray:
        """Return how well each document serves the one who looks for `wanted`; [n]."""
        return np.array([self._grade(wanted, row) for row in rows], np.int32)

    def _grade(self, wanted: int, row: int) -> int:
        if row == wanted:
            return WANTED
        if self._names[row] != self._names[wanted]:
            return 0
        return ALIAS if self._texts[row] == self._texts[wanted] else NAMESAKE


def _remembered(document: Document) -> tuple[list[str], list[str], list[str]]:
    name = document.name.rpartition(".")[2]
    return content_words(document.summary), content_words(name), content_words(document.module)
