"""Two reports side by side: how many times slower each number is, both machines taken at their own speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.section import ORACLE, TAIL

SLOWER = 1.25
Verdict = Literal["slower", "faster", "same", "missing", "new"]
Number = tuple[str, str, str]  # section, row, column


@dataclass(frozen=True)
class Change:
    """One number then and now; `ratio` is above 1 where it got worse, calibration taken out."""

    section: str
    row: str
    column: str
    before: float | None
    now: float | None
    ratio: float | None
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """Every number that can be compared, and those that only one of the two reports has."""

    changes: tuple[Change, ...]

    def of(self, *verdicts: Verdict) -> tuple[Change, ...]:
        """Return the changes with one of these verdicts, the worst first."""
        chosen = [change for change in self.changes if change.verdict in verdicts]
        return tuple(sorted(chosen, key=lambda change: -(change.ratio or 0)))

    @property
    def n_compared(self) -> int:
        """How many numbers both reports have."""
        return sum(change.ratio is not None for change in self.changes)

    def as_list(self) -> list[dict[str, Any]]:
        """Return plain values, for JSON."""
        return [asdict(change) for change in self.changes]


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> Comparison:
    """Return the comparison of two reports; only sections measured now are looked at."""
    then_numbers = {key: value for key, value in _numbers(before) if key[0] in now["sections"]}
    now_numbers = dict(_numbers(now))
    changes = []
    for key in dict.fromkeys([*now_numbers, *then_numbers]):
        then, this = then_numbers.get(key), now_numbers.get(key)
        if then is None and this is None:
            continue
        speed = _peak(now, key[0]) / _peak(before, key[0])
        kinds = now["kinds"] if this is not None else before["kinds"]
        ratio = None if then is None or this is None else worse(then, this, kinds[key[0]][key[2]], speed)
        changes.append(Change(*key, then, this, ratio, _verdict(then, this, ratio)))
    return Comparison(tuple(changes))


def worse(before: float, now: float, kind: str, speed: float) -> float | None:
    """Return how many times worse it is now, on a machine `speed` times as fast as before.

    >>> worse(10.0, 10.0, "time", 2.0), worse(100.0, 200.0, "rate", 2.0), worse(50.0, 100.0, "size", 2.0)
    (2.0, 1.0, 2.0)
    """
    if min(before, now) <= 0:
        return None
    if kind in ("time", "size"):
        return now / before * (speed if kind == "time" else 1.0)
    return before / now * (speed if kind == "rate" else 1.0)


def _peak(report: Mapping[str, Any], section: str) -> float:
    """Return the machine's speed when the section began: it changes within a run."""
    calibration = report["calibration"]
    return float(calibration.get("sections", {}).get(section) or calibration["gflops"])


def _numbers(report: Mapping[str, Any]) -> Iterator[tuple[Number, float | None]]:
    """Yield the numbers that can be compared; not the oracle, nor tails of latencies: too few calls."""
    for section, rows in report["sections"].items():
        kinds = report["kinds"].get(section, {})
        for row, values in rows.items():
            for column, value in values.items():
                is_number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
                if (
                    kinds.get(column, "fact") != "fact"
                    and is_number
                    and not row.startswith(ORACLE)
                    and not row.endswith(TAIL)
                ):
                    yield (section, row, column), value


def _verdict(before: float | None, now: float | None, ratio: float | None) -> Verdict:
    if now is None:
        return "missing"
    if before is None:
        return "new"
    if ratio is None:
        return "same"
    return "slower" if ratio > SLOWER else "faster" if ratio < 1 / SLOWER else "same"
