"""The two clients: one that blocks, one for asyncio. What can be asked is in `operations`, for both."""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import replace
from typing import Any, Self, TypeVar

import httpx

from ..errors import BadInput
from .calls import Call
from .operations import Operations
from .retries import Attempts, Outcome, RetryLimits

T = TypeVar("T")


class _Connected(Operations):
    """What both clients know: where the service is, and how long to wait for it."""

    def __init__(self, url: str, key: str | None, limits: RetryLimits) -> None:
        self._url, self._limits = url.rstrip("/"), limits
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._shown = _without_password(self._url)

    def limited(
        self, *, timeout: float | None = None, patience: float | None = None, retries: int | None = None
    ) -> Self:
        """Return this client with other limits for what is asked through it, over the same connections.

        `client.limited(timeout=0.2, patience=0).rank(…)`: a list at once, or none.
        """
        other = copy.copy(self)
        given: dict[str, Any] = {"timeout": timeout, "patience": patience, "retries": retries}
        other._limits = replace(self._limits, **{name: value for name, value in given.items() if value is not None})
        return other

    def _attempts(self, call: Call[T]) -> Attempts[T]:
        return Attempts(call, self._limits, f"{call.method} {self._shown}{call.path}")


class Client(_Connected):
    """Talks to a service; `with Client(url) as client` closes its connections.

    An attempt may take `timeout` seconds; none is begun later than `patience` seconds after the first, and there are at
    most `retries` of them beside it, if that is given.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = RetryLimits.timeout,
        patience: float = RetryLimits.patience,
        retries: int | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, key, RetryLimits(timeout, patience, retries))
        self._http = httpx.Client(base_url=self._url, headers=self._headers, transport=transport)

    def send(self, call: Call[T]) -> T:
        """Return the answer to a call, which may take several attempts."""
        attempts, arguments = self._attempts(call), call.arguments() | {"timeout": self._limits.timeout}
        while True:
            outcome = self._sent(call, arguments)
            pause = attempts.pause(outcome)
            if pause is None:
                return attempts.answer(outcome)
            time.sleep(pause)

    def _sent(self, call: Call[Any], arguments: dict[str, Any]) -> Outcome:
        try:
            return self._http.request(call.method, call.path, **arguments)
        except httpx.TransportError as error:
            return error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(_Connected):
    """The same for asyncio: every operation is awaited; `async with AsyncClient(url) as client` closes connections."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = RetryLimits.timeout,
        patience: float = RetryLimits.patience,
        retries: int | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, key, RetryLimits(timeout, patience, retries))
        self._http = httpx.AsyncClient(base_url=self._url, headers=self._headers, transport=transport)

    async def send(self, call: Call[T]) -> T:
        """Return the answer to a call, which may take several attempts."""
        attempts, arguments = self._attempts(call), call.arguments() | {"timeout": self._limits.timeout}
        while True:
            outcome = await self._sent(call, arguments)
            pause = attempts.pause(outcome)
            if pause is None:
                return attempts.answer(outcome)
            await asyncio.sleep(pause)

    async def _sent(self, call: Call[Any], arguments: dict[str, Any]) -> Outcome:
        try:
            return await self._http.request(call.method, call.path, **arguments)
        except httpx.TransportError as error:
            return error

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _without_password(url: str) -> str:
    """Return an address as it may be shown; what is none is refused."""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme not in ("http", "https") or not address.host:
        raise BadInput(f"{url!r} is no address of a service", "write it like http://127.0.0.1:8765")
    return f"{address.scheme}://{address.netloc.decode()}{address.path.rstrip('/')}"
