"""What the service says no to: each refusal has an HTTP status and a name that programs can rely on."""

from __future__ import annotations

from perturank.errors import BadInput


class Refused(BadInput):
    """A request that cannot be done: what is wrong, what to do, and its HTTP status."""

    status = 422
    kind = "bad-input"

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.what, self.remedy = what, remedy

    def told(self) -> dict[str, str]:
        """Return it in words that another process can make it of again."""
        return {"kind": self.kind, "what": self.what, "remedy": self.remedy}


class Unauthorised(Refused):
    """No key, or a key that nobody knows."""

    status, kind = 401, "unauthorised"


class Forbidden(Refused):
    """A key that may not do this."""

    status, kind = 403, "forbidden"


class NotKnown(Refused):
    """A model, an impression or a version that is not there."""

    status, kind = 404, "unknown"


class TooSlow(Refused):
    """A request whose rest did not come."""

    status, kind = 408, "too-slow"


class Contradiction(Refused):
    """It contradicts what is already in the log."""

    status, kind = 409, "contradiction"


class TooLarge(Refused):
    """More than the limits allow."""

    status, kind = 413, "too-large"


class TooMany(Refused):
    """More requests than a key may send."""

    status, kind = 429, "too-many-requests"


class NotReady(Refused):
    """It will work in a moment."""

    status, kind = 503, "not-ready"


class Missing(NotReady):
    """Records were taken out of the log while they were read: what was made of the others is worth nothing."""


class LogFull(Refused):
    """The log could not be written; nothing of the request was kept."""

    status, kind = 507, "log-full"


def retold(kind: str, what: str, remedy: str) -> Refused:
    """Return a refusal that was told by another process."""
    kinds: list[type[Refused]] = [Refused, *Refused.__subclasses__()]
    return next(each for each in kinds if each.kind == kind)(what, remedy)
