"""Refusals: each has an HTTP status and a name that programs can rely on."""

from __future__ import annotations

from perturank.errors import BadInput


class Refused(BadInput):
    """A refused request: what is wrong, what to do, and its HTTP status."""

    status = 422
    kind = "bad-input"

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.what, self.remedy = what, remedy

    def told(self) -> dict[str, str]:
        """Return the refusal as values from which `retold` makes it again in another process."""
        return {"kind": self.kind, "what": self.what, "remedy": self.remedy}


class Unauthorised(Refused):
    """No key, or an unknown key."""

    status, kind = 401, "unauthorised"


class Forbidden(Refused):
    """A key without permission."""

    status, kind = 403, "forbidden"


class NotKnown(Refused):
    """A model, an impression or a version that does not exist."""

    status, kind = 404, "unknown"


class TooSlow(Refused):
    """A request whose body did not arrive in time."""

    status, kind = 408, "too-slow"


class Contradiction(Refused):
    """A request that contradicts the log."""

    status, kind = 409, "contradiction"


class BeginsAnew(Refused):
    """A change under which what a model has learned could not be kept."""

    status, kind = 409, "begins-anew"


class TooLarge(Refused):
    """A request beyond the limits on size."""

    status, kind = 413, "too-large"


class TooMany(Refused):
    """More requests than a key or an address may send."""

    status, kind = 429, "too-many-requests"


class NotReady(Refused):
    """A request that may succeed in a moment."""

    status, kind = 503, "not-ready"


class Missing(NotReady):
    """Records were deleted while they were read, so the state made of the others is wrong."""


class LogFull(Refused):
    """The log could not be written, and nothing of the request was stored."""

    status, kind = 507, "log-full"


def retold(kind: str, what: str, remedy: str) -> Refused:
    """Return the refusal that another process reported by `told`."""
    kinds: list[type[Refused]] = [Refused, *Refused.__subclasses__()]
    return next(each for each in kinds if each.kind == kind)(what, remedy)
