"""How much is run: the paper's protocol, and smaller ones. Every number can be set by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from perturank.errors import BadInput, unknown

GridName = Literal["none", "paper", "wide"]
USERS = ("perfect", "navigational", "informational")


@dataclass(frozen=True)
class Protocol:
    """What is asked of a reproduction.

    `folds` and `experiments` of none mean all; arms in `without` are left out; `rankers` replace all arms, and
    `evaluations` the rounds to evaluate after. Hyper-parameters are searched on the validation queries with
    `tuning_seeds` seeds; `staged` first tries all of a grid for a tenth of the rounds.
    """

    scale: str = "paper"
    data: tuple[str, ...] = ("synthetic",)
    experiments: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    folds: int | None = None
    users: tuple[str, ...] = USERS
    seeds: int = 10
    rounds: int = 5000
    grid: GridName = "wide"
    tuning_seeds: int = 1
    staged: bool = False
    top: int = 10
    threads: int = 1
    rankers: tuple[str, ...] = ()
    evaluations: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("folds", "seeds", "rounds", "tuning_seeds", "top", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadInput(f"{name} is {value}", "it must be 1 or more")
        if self.grid not in ("none", "paper", "wide"):
            raise unknown("grid", self.grid, ("none", "paper", "wide"))
        if self.rankers and self.grid != "none":
            raise BadInput(f"grid is {self.grid!r}", "rankers by name have no grid: publish a variant for each setting")
        if any(t < 1 or t > self.rounds for t in self.evaluations):
            raise BadInput(f"evaluate_at is {list(self.evaluations)}", f"rounds go from 1 to {self.rounds}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for the manifest."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Protocol:
        """Return the protocol of a manifest."""
        known = {field.name for field in fields(cls)}
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**{key: value for key, value in plain.items() if key in known})

    @property
    def evaluate_at(self) -> tuple[int, ...]:
        """The rounds after which rankers are evaluated, among them the last.

        Unless others are asked for they are 1, 2, 3, 5, 7 times powers of ten, from 10 on.

        >>> Protocol(rounds=60).evaluate_at
        (10, 20, 30, 50, 60)
        """
        series = (step * 10**power for power in range(1, 9) for step in (1, 2, 3, 5, 7))
        return (*(t for t in sorted(set(self.evaluations)) or series if t < self.rounds), self.rounds)


SCALES = {
    "demo": Protocol(
        scale="demo",
        experiments=("linear-rankers", "neural-rankers"),
        # Every ranker once: compiling is most of a demo's time.
        without=(
            *("P²LinRank N=5", "P²NeurRank N=5"),
            *("P²LinRank, greedy", "P²NeurRank, greedy", "P²HeadRank, greedy"),
        ),
        folds=1,
        seeds=1,
        rounds=200,
        grid="none",
    ),
    "quick": Protocol(scale="quick", folds=1, seeds=3, rounds=500, grid="none"),
    "paper": Protocol(),
}


def protocol(scale: str, **changes: Any) -> Protocol:
    """Return the protocol of a scale, with some numbers set by hand."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    if changes.get("rankers"):  # only what is asked for by name
        changes = {"experiments": (), "grid": "none", **changes}
    return replace(SCALES[scale], **changes)
