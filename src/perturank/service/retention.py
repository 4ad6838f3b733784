"""How much of the past a log keeps record by record."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perturank.errors import BadInput

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Retention:
    """So many seconds before the newest record, or so many learned impressions."""

    seconds: float | None = None
    impressions: int | None = None

    @classmethod
    def of(cls, span: str | None, impressions: int | None) -> Retention | None:
        """Return what the user asks for: a span like 30d, 12h or 90s, or a number of impressions."""
        if span is not None and impressions is not None:
            raise BadInput("both a span and a number of impressions are to be kept", "name one of them")
        if span is None:
            return None if impressions is None else cls(impressions=impressions)
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd])", span)
        if found is None:
            raise BadInput(f"{span!r} is no span of time", "write it like 30d, 12h, 90m or 10s")
        return cls(seconds=float(found[1]) * SECONDS[found[2]])

    def lets_go(self, milliseconds: int, impressions: int) -> bool:
        """Return whether a state may be the base that has so much time and so many impressions after it."""
        if self.seconds is not None:
            return milliseconds >= 1000 * self.seconds
        return self.impressions is not None and impressions >= self.impressions
