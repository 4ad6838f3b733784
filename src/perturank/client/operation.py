"""A request that is written once and asked through either client."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from perturank.client.calls import Call

P = ParamSpec("P")
T = TypeVar("T")


class Sends(Protocol):
    """A client that blocks."""

    def send(self, call: Call[T]) -> T:
        """Return the answer."""

    def close(self) -> None:
        """Close the connections."""


class SendsLater(Protocol):
    """A client whose answers are awaited."""

    async def send(self, call: Call[T]) -> T:
        """Return the answer."""

    async def close(self) -> None:
        """Close the connections."""


class Operation(Generic[P, T]):
    """A method that says its request, as a `Call[T]`; asked through a client it is the answer T, or one to await."""

    def __init__(self, words: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._words = words

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Call[T]]: ...

    @overload
    def __get__(self, client: SendsLater, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: Sends, owner: type) -> Callable[P, T]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._words
        words = functools.partial(self._words, client)

        def asked(*given: P.args, **named: P.kwargs) -> Any:
            return client.send(words(*given, **named))

        return functools.update_wrapper(asked, self._words.__get__(client, owner))
