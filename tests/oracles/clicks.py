"""Click models by enumeration of everything a user can do with a short list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

Clicks = tuple[bool, ...]


def dcm(grades: Sequence[int], p_click: Sequence[float], p_stop: Sequence[float], stop: str) -> dict[Clicks, float]:
    """Return the probability of every click pattern of the dependent click model (table:click)."""
    patterns: dict[Clicks, float] = {}
    for clicks, p in _readings(list(grades), p_click, p_stop, stop):
        patterns[clicks] = patterns.get(clicks, 0.0) + p
    return patterns


def _readings(
    grades: list[int], p_click: Sequence[float], p_stop: Sequence[float], stop: str
) -> Iterator[tuple[Clicks, float]]:
    """Yield clicks and probability of every way to read a list: click or not, stop or read on."""
    if not grades:
        yield (), 1.0
        return
    top, rest = grades[0], grades[1:]
    for clicked in (False, True):
        p_this = p_click[top] if clicked else 1 - p_click[top]
        p_end = p_stop[top] if clicked or stop == "examined" else 0.0
        yield (clicked, *[False] * len(rest)), p_this * p_end
        for clicks, p in _readings(rest, p_click, p_stop, stop):
            yield (clicked, *clicks), p_this * (1 - p_end) * p


def pbm(grades: Sequence[int], p_click: Sequence[float], p_examine: Sequence[float]) -> dict[Clicks, float]:
    """Return the probability of every click pattern of the position-based model: places are independent."""
    patterns = {}
    for clicks in product((False, True), repeat=len(grades)):
        p = 1.0
        for place, clicked in enumerate(clicks):
            p_here = p_examine[place] * p_click[grades[place]]
            p *= p_here if clicked else 1 - p_here
        patterns[clicks] = p
    return patterns
