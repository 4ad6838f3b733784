"""What can go wrong between a client and the service: each error says what, where, and what to do."""

from __future__ import annotations

import httpx

from perturank.errors import BadInput

HERE = "is this the address of a perturank service?"


class ServiceProblem(BadInput):
    """The service refused: `status` and `kind` say how, `request` is the id that its log lines carry."""

    def __init__(self, status: int, kind: str, title: str, detail: str, *, where: str = "", request: str = "") -> None:
        place = f"{where} gave {status}" if where else ""
        if request and status >= 500:  # a fault of the service: its log says more
            place += f", request {request}"
        super().__init__(f"{title} ({place})" if place else title, detail)
        self.status, self.kind, self.title, self.detail, self.request = status, kind, title, detail, request


class NoAnswer(BadInput, httpx.TransportError):
    """No answer came, however often it was tried; the cause is httpx's own error."""

    def __init__(self, error: httpx.TransportError, where: str, attempts: int, seconds: float) -> None:
        tried = f"{attempts} attempts in {seconds:.1f} s" if attempts > 1 else "one attempt"
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        BadInput.__init__(self, f"{where} has no answer after {tried} ({why})", _remedy(error))
        self._request = error._request  # as httpx's own errors have it


def _remedy(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol):
        return "check the address, and that `perturank serve` runs there"
    if isinstance(error, httpx.TimeoutException):
        return "allow it more time with timeout=…: the first list of a new shape waits for its compilation"
    return "whether it was done is not known: look before you send it again"
