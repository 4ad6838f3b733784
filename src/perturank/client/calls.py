"""One request, the meaning of its answer, and the errors in its place: what both clients share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable
from urllib.parse import quote

import httpx
import msgspec

from ..errors import BadInput

T = TypeVar("T")
Form = Literal["json", "msgpack", "file"]
NOT_NOW = (429, 503, 507)  # said by the service itself
STRANGE = (LookupError, TypeError, ValueError, msgspec.MsgspecError)  # what an answer of something else gives
HERE = "is this the address of a perturank service?"
JSON, BINARY, FILE = "application/json", "application/msgpack", "application/vnd.safetensors"


@runtime_checkable
class Listable(Protocol):
    """An array, such as those of NumPy, which need not be installed."""

    def tolist(self) -> Any:
        """Return its numbers."""


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


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request and how its answer is read; harmless: sending it twice is the same as once."""

    method: str
    path: str
    read: Callable[[Any], T] = lambda value: value
    body: Any = None
    form: Form = "json"
    query: Mapping[str, str] = field(default_factory=dict)
    harmless: bool = True
    answers: tuple[int, ...] = ()  # statuses that are answers as well
    is_partial: Callable[[Any], bool] = lambda value: False  # an answer that says: not all of it now

    def arguments(self) -> dict[str, Any]:
        """Return what httpx needs."""
        named: dict[str, Any] = {"params": dict(self.query)} if self.query else {}
        if self.body is None:
            return named
        match self.form:
            case "json":
                content, kind = msgspec.json.encode(self.body, enc_hook=_plain), JSON
            case "msgpack":
                content, kind = msgspec.msgpack.encode(self.body), BINARY
            case "file":
                content, kind = self.body, FILE
        return named | {"content": content, "headers": {"content-type": kind}}

    def is_answer(self, response: httpx.Response) -> bool:
        """Return whether this is what was asked for, and no refusal."""
        return response.is_success or response.status_code in self.answers

    def answer(self, response: httpx.Response, where: str) -> T:
        """Return what the service has answered; a refusal is raised."""
        if not self.is_answer(response):
            raise _refusal(response, where)
        try:
            return self.read(decoded(response))
        except STRANGE as error:
            title = f"the answer is not understood ({type(error).__name__}: {error})"
            raise ServiceProblem(response.status_code, "strange", title, HERE, where=where) from None


def of_model(model: str, rest: str = "") -> str:
    """Return the path of a model; a name that would lead elsewhere is refused.

    >>> of_model("shoes/red", "/rank")
    '/v1/models/shoes%2Fred/rank'
    """
    return _path("model", model, rest)


def of_test(test: str, rest: str = "") -> str:
    """Return the path of a live test; a name that would lead elsewhere is refused."""
    return _path("test", test, rest)


def _path(kind: str, name: str, rest: str) -> str:
    if name in ("", ".", ".."):
        raise BadInput(f"{name!r} is no name of a {kind}", "use letters, digits, dot, dash and underscore")
    return f"/v1/{kind}s/{quote(name, safe='')}{rest}"


def decoded(response: httpx.Response) -> Any:
    """Return the value of an answer: of JSON and MessagePack what they hold, of a file its bytes, and text."""
    if not response.content:
        return None
    match response.headers.get("content-type", "").partition(";")[0]:
        case "application/json":
            return msgspec.json.decode(response.content)
        case "application/msgpack":
            return msgspec.msgpack.decode(response.content)
        case "application/vnd.safetensors" | "application/octet-stream":
            return response.content
        case "text/plain":
            return response.text
        case other:
            raise ValueError(f"it is {other or 'of no kind'}")


def _plain(value: Any) -> Any:
    """Return what JSON knows of a value that it does not know: features are often NumPy's."""
    if isinstance(value, Listable):
        return value.tolist()
    raise BadInput(f"{value!r} cannot be sent", "send text, numbers, lists and dictionaries")


def _refusal(response: httpx.Response, where: str) -> ServiceProblem:
    try:
        said = msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.MsgspecError:  # of something on the way
        said = {"title": "it was refused", "detail": HERE}
    kind = str(said.get("type", "")).rpartition(":")[2]
    title, detail = str(said.get("title", "")), str(said.get("detail", ""))
    request = str(said.get("instance", ""))
    return ServiceProblem(response.status_code, kind, title, detail, where=where, request=request)
