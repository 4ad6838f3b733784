"""What somebody should look at now."""

from __future__ import annotations

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
    lags: dict[str, float]
    faults: dict[str, str]
    failing: tuple[str, ...] = ()  # beside the answers, as /readyz says


def alarms(facts: Facts) -> list[Alarm]:
    """Return everything that is wrong."""
    return [*_of_log(facts), *_of_models(facts)]


def _of_log(facts: Facts) -> list[Alarm]:
    found = []
    if facts.is_led is None:
        found.append(Alarm("log away", "The log cannot be read.", "Check that the database runs and can be reached."))
    if facts.is_led is False:
        says = "No learner is at work: clicks are kept and not learned."
        found.append(Alarm("no learner", says, "See the service's log lines, or run `perturank learn`."))
    if facts.seconds_since_full is not None and facts.seconds_since_full < FULL_SINCE:
        found.append(Alarm("log full", "The log cannot be written.", "Make room on its disk."))
    if facts.room is not None and facts.room < LEAST_ROOM:
        says = f"{facts.room // 1_000_000} MB are left on the log's disk."
        found.append(Alarm("little room", says, "Make room, or shorten what the log keeps."))
    found += [Alarm("failing", _sentence(each), "It is tried again; the log lines say more.") for each in facts.failing]
    if facts.failed:
        says = f"{facts.failed} requests of the last minute could not be answered."
        found.append(Alarm("failures", says, "The service's log lines say why."))
    return found


def _of_models(facts: Facts) -> list[Alarm]:
    late = [
        Alarm("lag", f"Clicks have waited for {lag:.0f} s to be learned.", "See whether the learner works.", model)
        for model, lag in facts.lags.items()
        if lag > LONGEST_LAG
    ]
    damaged = [
        Alarm("damaged version", _sentence(fault), "An older version serves meanwhile.", model)
        for model, fault in facts.faults.items()
    ]
    return late + damaged


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
