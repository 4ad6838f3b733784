"""A client of the ranking service, with retries that can do no harm. Needs `perturank[service]`.

Feedback counts once however often it is sent, so it is sent again after any failure. A list is asked
for again only where the first request cannot have been answered: otherwise two would be logged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import httpx
import msgspec
import numpy as np

from perturank.errors import BadInput

NOT_NOW = (429, 503, 507)
BINARY = {"content-type": "application/msgpack"}
Documents = Sequence[Mapping[str, Any]]


class ServiceProblem(BadInput):
    """The service refused: `status` and `kind` say how."""

    def __init__(self, status: int, kind: str, title: str, detail: str) -> None:
        super().__init__(title, detail)
        self.status, self.kind = status, kind


@dataclass(frozen=True)
class ShownList:
    """A list to show, best first; send `impression` back with the clicks."""

    impression: str
    ids: list[str]
    certain: list[bool]
    propensity: float | None
    version: int


@dataclass(frozen=True)
class Call:
    """One request in words; harmless: sending it twice is the same as once."""

    method: str
    path: str
    body: Any = None
    binary: bool = False
    harmless: bool = True

    def arguments(self) -> dict[str, Any]:
        """Return what httpx needs."""
        if self.body is None:
            return {}
        if self.binary:
            return {"content": msgspec.msgpack.encode(self.body), "headers": BINARY}
        return {"content": msgspec.json.encode(self.body), "headers": {"content-type": "application/json"}}


class _Calls:
    """What both clients share: the words of each request, and the meaning of each answer."""

    def __init__(self, url: str, key: str | None, retries: int) -> None:
        self._url, self._retries = url.rstrip("/"), retries
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}

    def _rank(self, model: str, documents: Documents, options: Mapping[str, Any]) -> Call:
        return Call("POST", f"/v1/models/{model}/rank", {"documents": documents, **options}, harmless=False)

    def _rank_arrays(
        self, model: str, ids: Sequence[str], features: np.ndarray, prior: np.ndarray | None, options: Mapping[str, Any]
    ) -> Call:
        raw = None if prior is None else np.ascontiguousarray(prior, "<f4").tobytes()
        rows = np.ascontiguousarray(features, "<f4").tobytes()
        body = {"ids": list(ids), "features": rows, "prior": raw, **options}
        return Call("POST", f"/v1/models/{model}/rank", body, binary=True, harmless=False)

    def _feedback(self, model: str, impression: str, clicks: Sequence[str], final: bool) -> Call:
        body = {"impression": impression, "clicks": list(clicks), "final": final}
        return Call("POST", f"/v1/models/{model}/feedback", body)

    def _explain(self, model: str, documents: Documents) -> Call:
        return Call("POST", f"/v1/models/{model}/explain", {"documents": documents})

    def _pause(self, call: Call, attempt: int, failure: httpx.Response | Exception) -> float | None:
        """Return how long to wait before the next attempt; None: there is none."""
        if attempt >= self._retries:
            return None
        if isinstance(failure, httpx.Response):
            return 0.1 * 2**attempt if failure.status_code in NOT_NOW else None
        unsent = isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        return 0.1 * 2**attempt if call.harmless or unsent else None


def _read(response: httpx.Response) -> Any:
    if response.is_success:
        kind = response.headers.get("content-type", "")
        if kind.startswith("application/msgpack"):
            return msgspec.msgpack.decode(response.content)
        if not kind.startswith("application/json"):
            return response.content
        return msgspec.json.decode(response.content) if response.content else None
    try:
        said = msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.MsgspecError:
        said = {"title": f"the server answered {response.status_code}"}
    kind = str(said.get("type", "")).rpartition(":")[2]
    raise ServiceProblem(response.status_code, kind, str(said.get("title", "")), str(said.get("detail", "")))


def _shown(answer: Any) -> ShownList:
    ranking = answer["ranking"]
    return ShownList(
        answer["impression"],
        [each["id"] for each in ranking],
        [each["certain"] for each in ranking],
        answer["propensity"],
        answer["version"],
    )


class Client(_Calls):
    """Talks to a service; `with Client(url) as client` closes its connections."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 10.0, retries: int = 4) -> None:
        super().__init__(url, key, retries)
        self._http = httpx.Client(base_url=self._url, headers=self._headers, timeout=timeout)

    def rank(self, documents: Documents, *, model: str = "default", **options: Any) -> ShownList:
        """Return the list to show; options are query, top, mode and source."""
        return _shown(self._answer(self._rank(model, documents, options)))

    def rank_arrays(
        self,
        ids: Sequence[str],
        features: np.ndarray,
        prior: np.ndarray | None = None,
        *,
        model: str = "default",
        **options: Any,
    ) -> ShownList:
        """Return the list to show of documents [n, d], sent in the binary form."""
        return _shown(self._answer(self._rank_arrays(model, ids, features, prior, options)))

    def feedback(self, impression: str, clicks: Sequence[str], *, final: bool = True, model: str = "default") -> str:
        """Return what these clicks did: recorded, known, early or late."""
        return str(self._answer(self._feedback(model, impression, clicks, final))["status"])

    def explain(self, documents: Documents, *, model: str = "default") -> dict[str, Any]:
        """Return the best estimate's list with every score, and what is certain about it; nothing is logged."""
        return dict(self._answer(self._explain(model, documents)))

    def put_model(self, model: str, **spec: Any) -> dict[str, Any]:
        """Make or change a model."""
        return dict(self._answer(Call("PUT", f"/v1/models/{model}", spec)))

    def model(self, model: str = "default") -> dict[str, Any]:
        """Return what is served under this name."""
        return dict(self._answer(Call("GET", f"/v1/models/{model}")))

    def versions(self, model: str = "default") -> dict[str, Any]:
        """Return the versions of a model, newest first."""
        return dict(self._answer(Call("GET", f"/v1/models/{model}/versions")))

    def file(self, model: str = "default", *, history: bool = True) -> bytes:
        """Return the served version as a file for `perturank.load`; without its history it can rank, but not learn."""
        return bytes(self._answer(Call("GET", f"/v1/models/{model}/file?history={str(history).lower()}")))

    def _answer(self, call: Call) -> Any:
        attempt = 0
        while True:
            failure: httpx.Response | Exception
            try:
                failure = self._http.request(call.method, call.path, **call.arguments())
            except httpx.TransportError as error:
                failure = error
            pause = self._pause(call, attempt, failure)
            if pause is None:
                if isinstance(failure, Exception):
                    raise failure
                return _read(failure)
            time.sleep(pause)
            attempt += 1

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(_Calls):
    """The same for asyncio; `async with AsyncClient(url) as client` closes its connections."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, key, retries)
        self._http = httpx.AsyncClient(base_url=self._url, headers=self._headers, timeout=timeout, transport=transport)

    async def rank(self, documents: Documents, *, model: str = "default", **options: Any) -> ShownList:
        """Return the list to show; options are query, top, mode and source."""
        return _shown(await self._answer(self._rank(model, documents, options)))

    async def rank_arrays(
        self,
        ids: Sequence[str],
        features: np.ndarray,
        prior: np.ndarray | None = None,
        *,
        model: str = "default",
        **options: Any,
    ) -> ShownList:
        """Return the list to show of documents [n, d], sent in the binary form."""
        return _shown(await self._answer(self._rank_arrays(model, ids, features, prior, options)))

    async def feedback(
        self, impression: str, clicks: Sequence[str], *, final: bool = True, model: str = "default"
    ) -> str:
        """Return what these clicks did: recorded, known, early or late."""
        return str((await self._answer(self._feedback(model, impression, clicks, final)))["status"])

    async def explain(self, documents: Documents, *, model: str = "default") -> dict[str, Any]:
        """Return the best estimate's list with every score, and what is certain about it; nothing is logged."""
        return dict(await self._answer(self._explain(model, documents)))

    async def put_model(self, model: str, **spec: Any) -> dict[str, Any]:
        """Make or change a model."""
        return dict(await self._answer(Call("PUT", f"/v1/models/{model}", spec)))

    async def model(self, model: str = "default") -> dict[str, Any]:
        """Return what is served under this name."""
        return dict(await self._answer(Call("GET", f"/v1/models/{model}")))

    async def versions(self, model: str = "default") -> dict[str, Any]:
        """Return the versions of a model, newest first."""
        return dict(await self._answer(Call("GET", f"/v1/models/{model}/versions")))

    async def _answer(self, call: Call) -> Any:
        attempt = 0
        while True:
            failure: httpx.Response | Exception
            try:
                failure = await self._http.request(call.method, call.path, **call.arguments())
            except httpx.TransportError as error:
                failure = error
            pause = self._pause(call, attempt, failure)
            if pause is None:
                if isinstance(failure, Exception):
                    raise failure
                return _read(failure)
            await asyncio.sleep(pause)
            attempt += 1

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
