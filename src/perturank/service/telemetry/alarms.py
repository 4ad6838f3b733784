"""What somebody should look at now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

LONGEST_LAG = 30.0  # seconds
LEAST_ROOM = 200_000_000  # bytes
FULL_SINCE = 30.0  # seconds for which a full log is told of


class Alarm(msgspec.Struct, frozen=True):
    """One thing that is wrong: its name for programs, what it is, and what to do."""

    name: str
    says: str
    remedy: str
    model: str | None = None


@dataclass(frozen=True)
class Facts:
    """What alarms are judged by."""

    is_led: bool | None  # None: the log could not be asked
    room: int | None
    seconds_since_full: float | None
    failed: int
    lags: Mapping[str, float]
    faults: Mapping[str, str]
    failing: Sequence[str] = ()  # beside the answers, as /readyz says


def alarms(facts: Facts) -> Iterator[Alarm]:
    """Yield everything that is wrong."""
    if facts.is_led is None:
        yield Alarm("log away", "The log cannot be read.", "Check that the database runs and can be reached.")
    if facts.is_led is False:
        says = "No learner is at work: clicks are kept and not learned."
        yield Alarm("no learner", says, "See the service's log lines, or run `perturank learn`.")
    if facts.seconds_since_full is not None and facts.seconds_since_full < FULL_SINCE:
        yield Alarm("log full", "The log cannot be written.", "Make room on its disk.")
    if facts.room is not None and facts.room < LEAST_ROOM:
        says = f"{facts.room // 1_000_000} MB are left on the log's disk."
        yield Alarm("little room", says, "Make room, or shorten what the log keeps.")
    for each in facts.failing:
        yield Alarm("failing", _sentence(each), "It is tried again; the log lines say more.")
    if facts.failed:
        says = f"{facts.failed} requests of the last minute could not be answered."
        yield Alarm("failures", says, "The service's log lines say why.")
    for model, lag in facts.lags.items():
        if lag > LONGEST_LAG:
            says = f"Clicks have waited for {lag:.0f} s to be learned."
            yield Alarm("lag", says, "See whether the learner works.", model)
    for model, fault in facts.faults.items():
        yield Alarm("damaged version", _sentence(fault), "An older version serves meanwhile.", model)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
