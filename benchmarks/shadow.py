"""What shadow mode says of a ranker beside the truth: simulated visitors of whom everything is known.

`python -m benchmarks.shadow` prints the table of docs/service/operations.md. A list has ten places of 20 or 50
candidates. The caller's order and the ranker's each see what documents are worth through noise. The truth is what
visitors click who see the same documents in the ranker's order; `whole` is the gain of the ranker's own list, with the
documents that nobody has seen.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from perturank.service.log import shadow
from perturank.service.log.counters import Amounts, merge
from perturank.service.log.records import Impression
from perturank.service.log.shadow import ShadowStanding

PLACES = 10
ATTRACTION = np.array([0.03, 0.07, 0.15, 0.3, 0.6])
GRADES = [0.13, 0.67, 1.17, 1.75]  # of standard normal worths
VISITORS = ("position-based", "cascade", "tiring", "perfect")
# How much of the worth the caller's order sees, and the ranker's, against noise of variance 1.
SIGNALS = {
    "far better": (0.3, 4.0),
    "better": (0.5, 1.5),
    "alike": (0.5, 0.5),
    "worse": (1.0, 0.4),
    "noise": (1.0, 0.0),
}
CLICKED = {"click": 1.0}
N_TRUTH = 100_000


def clicks(visitor: str, attraction: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the clicks of visitors on documents of this attraction [n, k].

    Position-based ones read place r with probability 1/r, cascading ones until they have clicked once, tiring ones go
    on to the next place in 85 % and leave after 70 % of their clicks, and perfect ones read everything.
    """
    n, k = attraction.shape
    drawn = rng.random((n, k)) < attraction
    match visitor:
        case "position-based":
            return drawn & (rng.random((n, k)) < 1 / np.arange(1, k + 1))
        case "cascade":
            return drawn & (np.cumsum(drawn, axis=1) == 1)
        case "tiring":
            leaves = (rng.random((n, k)) > 0.85) | (drawn & (rng.random((n, k)) < 0.7))
            return drawn & (np.cumsum(leaves, axis=1) - leaves == 0)
        case _:
            return drawn


class Searches(NamedTuple):
    """Searches: what attracts, the caller's list and the ranker's; [n, V], [n, k], [n, k]."""

    attraction: np.ndarray
    own: np.ndarray
    ours: np.ndarray

    @classmethod
    def drawn(cls, case: str, n: int, n_candidates: int, rng: np.random.Generator) -> Searches:
        """Return so many searches of a case."""
        worth = rng.normal(size=(n, n_candidates))
        seen = [signal * worth + rng.normal(size=worth.shape) for signal in SIGNALS[case]]
        own, ours = (np.argsort(-score, axis=1)[:, :PLACES] for score in seen)
        return cls(ATTRACTION[np.digitize(worth, GRADES)], own, ours)

    def clicked(self, visitor: str, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the clicks on lists in this order; [n, k]."""
        return clicks(visitor, np.take_along_axis(self.attraction, order, axis=1), rng)

    def reranked(self) -> np.ndarray:
        """Return what was shown in the ranker's order; [n, k]."""
        place = np.where(self.own[:, :, None] == self.ours[:, None, :], np.arange(PLACES), PLACES).min(axis=2)
        return np.take_along_axis(self.own, np.argsort(place, axis=1, kind="stable"), axis=1)


class Truth(NamedTuple):
    """The gain in the reciprocal rank of the first click: of the shown documents, and of the ranker's whole list."""

    gain: float
    whole: float


def truth(case: str, visitor: str, n_candidates: int, rng: np.random.Generator, n: int = N_TRUTH) -> Truth:
    """Return what visitors do who see another order, measured on n searches."""
    searches = Searches.drawn(case, n, n_candidates, rng)
    orders = (searches.own, searches.reranked(), searches.ours)
    own, gained, whole = (_reciprocal_rank(searches.clicked(visitor, order, rng)) for order in orders)
    return Truth(gained - own, whole - own)


def _reciprocal_rank(clicked: np.ndarray) -> float:
    return float(np.where(clicked.any(axis=1), 1 / (clicked.argmax(axis=1) + 1), 0).mean())


def told(
    case: str, visitor: str, n: int, n_candidates: int, rng: np.random.Generator, looks: int
) -> list[ShadowStanding]:
    """Return what the counters say of n lists in shadow mode, at so many looks."""
    searches = Searches.drawn(case, n, n_candidates, rng)
    clicked = searches.clicked(visitor, searches.own, rng)
    amounts: Amounts = {}
    found = []
    ids, ours = searches.own.astype(str).tolist(), searches.ours.astype(str).tolist()
    for i in range(n):
        shown = Impression(1, 0, "shadow", ids[i], 0.0, b"", ours=ours[i])
        merge(amounts, shadow.list_amounts(shown))
        events = [(ids[i][place], "click") for place in np.flatnonzero(clicked[i])]
        merge(amounts, shadow.event_amounts(shown, [], events, CLICKED))
        if (i + 1) % (n // looks) == 0:
            standing = shadow.summary(amounts)
            assert standing is not None
            found.append(standing)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=2000)
    parser.add_argument("--looks", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    rng = np.random.default_rng(said.seed)
    print("| visitors | ranker | gain | of the whole list | least … most | bias of the middle | held | verdicts |")
    print("|---|---|---|---|---|---|---|---|")
    for visitor in VISITORS:
        for case in SIGNALS:
            true = truth(case, visitor, said.candidates, rng)
            runs = [told(case, visitor, said.lists, said.candidates, rng, said.looks) for _ in range(said.repetitions)]
            held = np.mean([all(each["low"] <= true.gain <= each["high"] for each in run) for run in runs])
            least, most = (float(np.mean([run[-1][end] for run in runs])) for end in ("least", "most"))
            verdicts = [run[-1]["verdict"] for run in runs]
            counts = ", ".join(f"{verdicts.count(word)} {word}" for word in sorted(set(verdicts)))
            print(
                f"| {visitor} | {case} | {true.gain:+.3f} | {true.whole:+.3f} | {least:+.3f} … {most:+.3f} | "
                f"{(least + most) / 2 - true.gain:+.3f} | {held:.0%} | {counts} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
