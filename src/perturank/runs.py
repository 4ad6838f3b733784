"""A run's outcome, and its state on disk while it is under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from perturank import metrics, storage
from perturank.core import Ranker
from perturank.errors import BadInput
from perturank.orders import Orders


@dataclass(frozen=True)
class Checkpoint:
    """What is known after so many rounds; cumulative_ndcg and regret are sums over all rounds so far.

    `uncertain` is the share of uncertain pairs, `width` the mean of ‖x_i - x_j‖² in A⁻¹, `certain_wrong` the share of
    certain orders of held-out documents that the grades contradict, where the ranker has them.
    """

    round: int
    ndcg: float
    cumulative_ndcg: float
    regret: float
    uncertain: float | None
    seconds: float
    width: float | None = None
    certain_wrong: float | None = None


@dataclass(frozen=True)
class Run:
    """A finished simulation; `seconds` are of rank, click and learn: compilation and evaluation apart.

    `random_ndcg` is what a random ranker is expected to reach on the evaluated queries. `orders` are of every
    evaluation, where the plan keeps them.
    """

    seed: int
    rounds: int
    checkpoints: tuple[Checkpoint, ...]
    seconds: float
    ndcgs: np.ndarray = field(repr=False)
    ranker: Ranker = field(repr=False)
    random_ndcg: float = float("nan")
    orders: tuple[Orders, ...] = field(default=(), repr=False)

    @property
    def rounds_per_second(self) -> float:
        """Rounds of rank, click and learn in a second."""
        return self.rounds / self.seconds if self.seconds > 0 else float("nan")

    def as_dict(self, top: int = 10) -> dict[str, Any]:
        """Return plain values, for JSON."""
        rows = [{(f"ndcg@{top}" if k == "ndcg" else k): v for k, v in asdict(c).items()} for c in self.checkpoints]
        return {
            "seed": self.seed,
            "rounds": self.rounds,
            "checkpoints": rows,
            "random_ndcg": self.random_ndcg,
            "rounds_per_second": self.rounds_per_second,
        }


@dataclass
class Progress:
    """A simulation under way: the ranker, and what has been seen of it."""

    identity: Mapping[str, Any]
    ranker: Ranker
    ndcgs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    regret: float = 0.0
    seconds: float = 0.0
    checkpoints: list[Checkpoint] = field(default_factory=list)
    orders: list[Orders] = field(default_factory=list)

    @property
    def round(self) -> int:
        """The number of rounds done."""
        return len(self.ndcgs)

    def advance(self, ranker: Ranker, ndcgs: np.ndarray, regrets: np.ndarray, seconds: float) -> None:
        """Take in a chunk of rounds."""
        self.ranker = ranker
        self.ndcgs = np.concatenate([self.ndcgs, ndcgs])
        self.regret += float(np.sum(regrets, dtype=np.float64))
        self.seconds += seconds

    def record(
        self, ndcg: float, uncertain: float | None, width: float | None, orders: Orders, *, keeps_orders: bool = False
    ) -> None:
        """Take in an evaluation of the ranker as it is now."""
        self.checkpoints.append(
            Checkpoint(
                round=self.round,
                ndcg=ndcg,
                cumulative_ndcg=float(metrics.cumulative_ndcg(self.ndcgs)[-1]),
                regret=self.regret,
                uncertain=uncertain,
                seconds=self.seconds,
                width=width,
                certain_wrong=orders.certain_wrong,
            )
        )
        if keeps_orders:
            self.orders.append(orders)

    def run(self, seed: int, rounds: int, random_ndcg: float) -> Run:
        """Return the finished run."""
        return Run(
            seed=seed,
            rounds=rounds,
            checkpoints=tuple(self.checkpoints),
            seconds=self.seconds,
            ndcgs=self.ndcgs,
            ranker=self.ranker,
            random_ndcg=random_ndcg,
            orders=tuple(self.orders),
        )

    def save(self, path: Path) -> None:
        """Write everything needed to go on; the file appears whole or not at all."""
        header = {
            **storage.header_of(self.ranker),
            "identity": dict(self.identity),
            "regret": self.regret,
            "seconds": self.seconds,
            "checkpoints": [asdict(c) for c in self.checkpoints],
        }
        seen = {f"orders {i} {name}": a for i, each in enumerate(self.orders) for name, a in each.arrays.items()}
        storage.write(path, {"ndcgs": self.ndcgs, **seen, **storage.arrays_of(self.ranker)}, header)

    @classmethod
    def opened(cls, path: Path | None, identity: Mapping[str, Any], start: Ranker) -> Progress:
        """Return the state saved at this path, or a fresh start where there is none.

        A file of another run is refused: going on from it would mix two experiments.
        """
        if path is None or not path.exists():
            return cls(identity, start)
        arrays, header = storage.read(path)
        theirs = header.get("identity") or {}
        for name, value in identity.items():
            if theirs.get(name) != value:
                raise BadInput(
                    f"{path} is of another run: its {name} is {theirs.get(name)!r}, not {value!r}",
                    "name another checkpoint file, or delete this one",
                )
        ranker = storage.restored(arrays, header, path)
        checkpoints = [Checkpoint(**row) for row in header["checkpoints"]]
        return cls(
            identity, ranker, arrays["ndcgs"], header["regret"], header["seconds"], checkpoints, _orders_in(arrays)
        )


def _orders_in(arrays: Mapping[str, np.ndarray]) -> list[Orders]:
    """Return the orders that a state on disk holds."""
    found: dict[int, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        if name.startswith("orders "):
            _, i, part = name.split(" ")
            found.setdefault(int(i), {})[part] = array
    return [Orders.from_arrays(found[i]) for i in sorted(found)]
