"""What somebody should look at now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

LONGEST_LAG = 30.0  # seconds
LEAST_ROOM = 200_000_000  # bytes
FULL_SINCE = 30.0  # seconds for which a full log is told of


class Alarm(NamedTuple):
    """One thing that is wrong: its name for programs, what it is, and what to do."""

    name: str
    says: str
    remedy: str
    model: str | None = None


def alarms(
    *,
    is_led: bool | None,  # None: the log could not be asked
    room: int | None,
    seconds_since_full: float | None,
    n_failed: int,
    failing: Iterable[str],  # beside the answers, as /readyz says
    lags: Mapping[str, float],
    faults: Mapping[str, str],
) -> Iterator[Alarm]:
    """Yield everything that is wrong."""
    if is_led is None:
        yield Alarm("log away", "The log cannot be read.", "Check that the database runs and can be reached.")
    if is_led is False:
        says = "No learner is at work: clicks are kept and not learned."
        yield Alarm("no learner", says, "See the service's log lines, or run `perturank learn`.")
    if seconds_since_full is not None and seconds_since_full < FULL_SINCE:
        yield Alarm("log full", "The log cannot be written.", "Make room on its disk.")
    if room is not None and room < LEAST_ROOM:
        says = f"{room // 1_000_000} MB are left on the log's disk."
        yield Alarm("little room", says, "Make room, or shorten what the log keeps.")
    for each in failing:
        yield Alarm("failing", _sentence(each), "It is tried again; the log lines say more.")
    if n_failed:
        says = f"{n_failed} requests of the last minute could not be answered."
        yield Alarm("failures", says, "The service's log lines say why.")
    for model, lag in lags.items():
        if lag > LONGEST_LAG:
            says = f"Clicks have waited for {lag:.0f} s to be learned."
            yield Alarm("lag", says, "See whether the learner works.", model)
    for model, fault in faults.items():
        yield Alarm("damaged version", _sentence(fault), "An older version serves meanwhile.", model)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
