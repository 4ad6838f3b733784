"""From the clicks on a list to pairs (clicked place, unclicked place); Ω_t of eq:loss, places from 0."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[int, int]


def examined_depth(clicks: Sequence[bool], n_after: int) -> int:
    """Return how many places count as examined: to the last click and l = n_after beyond; 0 without clicks."""
    clicked = [place for place, click in enumerate(clicks) if click]
    return min(len(clicks), clicked[-1] + 1 + n_after) if clicked else 0


def all_pairs(clicks: Sequence[bool], n_after: int) -> list[Pair]:
    """Return every clicked document with every unclicked examined one (eq:loss)."""
    places = range(examined_depth(clicks, n_after))
    return [(i, j) for i in places for j in places if clicks[i] and not clicks[j]]


def independent_pairs(
    clicks: Sequence[bool], n_after: int, clicked_order: Sequence[int], unclicked_order: Sequence[int]
) -> list[Pair]:
    """Return pairs that share no document (prop:pairwise): both lists shuffled as told, then zipped."""
    places = range(examined_depth(clicks, n_after))
    clicked = [place for place in places if clicks[place]]
    unclicked = [place for place in places if not clicks[place]]
    return list(zip((clicked[i] for i in clicked_order), (unclicked[j] for j in unclicked_order), strict=False))


def is_swap_symmetric(clicks: Sequence[bool], pair: Pair, n_after: int) -> bool:
    """Say whether the pair would also be inferred if its two documents had stood in each other's place."""
    i, j = pair
    exchanged = list(clicks)
    exchanged[i], exchanged[j] = clicks[j], clicks[i]
    return (j, i) in all_pairs(exchanged, n_after)


def symmetric_pairs(clicks: Sequence[bool], n_after: int) -> list[Pair]:
    """Return all pairs that are inferred whichever of the two documents was clicked."""
    return [pair for pair in all_pairs(clicks, n_after) if is_swap_symmetric(clicks, pair, n_after)]


def balanced_weight(clicks: Sequence[bool], n_after: int) -> float:
    """Return 1 / max(n⁺, n⁻) of the examined places, the weight of each of all pairs; 0 without a pair."""
    depth = examined_depth(clicks, n_after)
    n_clicked = sum(map(bool, clicks[:depth]))
    n_unclicked = depth - n_clicked
    return 1 / max(n_clicked, n_unclicked) if n_clicked and n_unclicked else 0.0


def trust(clicks: Sequence[bool], pair: Pair, kappa: float) -> float:
    """Return κ if the unclicked document stands just after the last click, else 1."""
    last = max(place for place, click in enumerate(clicks) if click)
    return kappa if pair[1] == last + 1 else 1.0


def worth_pairs(worth: Sequence[float], seen: int, n_after: int, *, symmetric: bool) -> dict[Pair, float]:
    """Return the pairs of documents of different worth that were both looked at, with the difference.

    seen = 0: what was looked at is guessed, as if everything that something was done with had been clicked.
    """
    acted = [value != 0 for value in worth]
    places = range(len(worth))
    if seen:
        looked_at = {(i, j) for i in places for j in places if all(acted[p] or p < seen for p in (i, j))}
    else:
        one_acted = set((symmetric_pairs if symmetric else all_pairs)(acted, n_after))
        both_acted = {(i, j) for i in places for j in places if acted[i] and acted[j]}
        looked_at = one_acted | {(j, i) for i, j in one_acted} | both_acted
    return {(i, j): worth[i] - worth[j] for i, j in looked_at if worth[i] > worth[j]}
