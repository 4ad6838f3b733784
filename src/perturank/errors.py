"""The one error that people are meant to see."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BadInput(ValueError):
    """Something given from outside is wrong: says what, and what to do about it, in one line."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)


def unknown(kind: str, name: str, known: Iterable[str]) -> BadInput:
    """Return the error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    remedy = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    return BadInput(f"unknown {kind} {name!r}", remedy)
