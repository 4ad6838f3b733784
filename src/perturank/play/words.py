"""Text → terms: words in lower case, names taken apart at underscores, dots and capitals, and cut to their stems."""

from __future__ import annotations

import functools
import re

import Stemmer

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
