"""How much is measured, and how long: what trades accuracy for time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Sizes and seconds; the names of rows and columns follow from the sizes, so that equal names compare."""

    seconds: float = 0.25  # for each number
    rounds: int = 500  # of each ranker
    rankers: tuple[str, ...] = ()  # none: all
    queries: tuple[int, ...] = (300, 6000)
    at: tuple[int, ...] = (100, 1000, 5000)
    at_with_budget: tuple[int, ...] = (50_000,)
    documents: tuple[int, ...] = (10, 100, 1000, 5000)
    dimensions: tuple[int, ...] = (1000, 10_000)
    fit_documents: tuple[int, ...] = (1000, 50_000)
    fit_rankers: tuple[int, ...] = (2, 10)
    widths: tuple[int, ...] = (100, 100)
    memory_of: tuple[str, ...] = ("pdgd-linear", "p2linrank", "p2headrank", "p2neurrank", "olranknet")
    text_bytes: int = 12_000_000
    patience: float = 60.0  # seconds after which a child process is given up


STANDARD = Effort()
QUICK = Effort(
    seconds=0.1,  # and as many rounds as ever: other room would be another program to compile
    queries=(300,),
    at=(100, 1000),
    at_with_budget=(),
    documents=(10, 100),
    dimensions=(1000,),
    fit_documents=(1000,),
    memory_of=("pdgd-linear", "p2headrank", "p2neurrank"),
    text_bytes=4_000_000,
)
FULL = Effort(
    seconds=2.0,
    at=(100, 200, 500, 1000, 2000, 5000),
    dimensions=(1000, 3000, 10_000),
    memory_of=(
        "pdgd-linear",
        "p2linrank",
        "p2headrank",
        "p2neurrank",
        "p2neurrank-paper",
        "pairrank",
        "olranknet",
        "olranknet-diag",
    ),
    text_bytes=100_000_000,
    patience=300.0,
)
