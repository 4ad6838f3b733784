"""Plain Python readings of SVMrank text and of min-max scaling, to check the fast ones against; small texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Write = Callable[[str, str], Path]
Document = tuple[int, str, dict[int, float]]


def documents(text: str) -> list[Document]:
    """Return (label, query id, features by index) of every line that is not blank or a comment."""
    found: list[Document] = []
    for line in text.split("\n"):
        words = line.split("#")[0].split()
        if words:
            pairs = [word.split(":") for word in words[2:]]
            found.append((int(float(words[0])), words[1][4:], {int(index): float(value) for index, value in pairs}))
    return found


def by_query(rows: list[Document]) -> dict[str, list[Document]]:
    """Return the documents of each query, queries in order of first sight."""
    queries: dict[str, list[Document]] = {}
    for row in rows:
        queries.setdefault(row[1], []).append(row)
    return queries


def dense(rows: list[Document], width: int) -> list[list[float]]:
    """Return rows of features 1 to width, 0 where absent."""
    return [[features.get(j, 0.0) for j in range(1, width + 1)] for _, _, features in rows]


def min_max(rows: list[list[float]]) -> list[list[float]]:
    """Return one query's rows with every feature scaled to [0, 1]; 0 where it is constant."""
    scaled = [list(row) for row in rows]
    for j in range(len(rows[0])):
        column = [row[j] for row in rows]
        low, high = min(column), max(column)
        for i, value in enumerate(column):
            scaled[i][j] = 0.0 if high == low else (value - low) / (high - low)
    return scaled


def letor(qids: list[int], width: int, shift: float = 0.0) -> str:
    """Return dense text: two documents a query, labels 0 and 1, all features mentioned."""
    lines = [
        f"{label} qid:{qid} " + " ".join(f"{j}:{(qid * j) % 7 + label + shift}" for j in range(1, width + 1))
        for qid in qids
        for label in (0, 1)
    ]
    return "\n".join(lines) + "\n"
