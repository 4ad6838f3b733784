"""Which lists a source may teach from, counted anew for every list from all that was learned before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def left_out(
    sources: Sequence[str | None], documents: Sequence[set[str]], cap: int | None, votes: int | None, among: int
) -> list[int]:
    """Return the numbers of the lists that are left out; each list has a source and the documents clicked in it."""
    learned: list[int] = []
    said: list[tuple[str, str]] = []
    for i, (source, clicked) in enumerate(zip(sources, documents, strict=True)):
        last = np.array([sources[j] or "" for j in learned[-among:]])
        pairs = np.array(said[-among:]).reshape(-1, 2)
        n_lists = np.sum(last == source)
        n_votes = [np.sum((pairs == (source, document)).all(axis=1)) for document in clicked]
        is_over = (cap is not None and n_lists >= cap) or (votes is not None and max(n_votes, default=0) >= votes)
        if source is None or not is_over:
            learned.append(i)
            said += [(source, document) for document in sorted(clicked) if source is not None]
    return sorted(set(range(len(sources))) - set(learned))
