"""Which parts of a text answer to the query: by stems, as the engine matches them."""

from __future__ import annotations

from collections.abc import Collection

from perturank.play.words import PIECE, STOP_WORDS, stem

Marked = list[tuple[str, bool]]


def marked(text: str, wanted: Collection[str]) -> Marked:
    """Return the text in parts, each with whether it is a match; together they are the text itself.

    >>> marked("Joins <b>paths</b>", {"path"})
    [('Joins <b>', False), ('paths', True), ('</b>', False)]
    """
    parts: Marked = []
    end = 0
    for found in PIECE.finditer(text):
        word = found.group().lower()
        if word not in STOP_WORDS and stem(word) in wanted:
            parts += [(text[end : found.start()], False)] if found.start() > end else []
            parts.append((found.group(), True))
            end = found.end()
    return [*parts, (text[end:], False)] if end < len(text) else parts
