"""A connection for each thread that asks: who reads does not wait for who writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What both kinds of connections have in common."""

    def close(self) -> None:
        """Give back what it holds."""


C = TypeVar("C", bound=Closable)


class Connections(Generic[C]):
    """Holds the connections of a log; those of threads that have ended close when the next one is made.

    One that belongs to another living thread is never closed, only let go: closing it in use would end the process.
    """

    def __init__(self, connect: Callable[[], C], is_broken: Callable[[C], bool] = lambda connection: False) -> None:
        self._connect, self._is_broken = connect, is_broken
        self._held: dict[threading.Thread, C] = {}
        self._lock = threading.Lock()

    def mine(self) -> C:
        """Return this thread's own connection; a broken one is replaced."""
        me = threading.current_thread()
        found = self._held.get(me)
        if found is None or self._is_broken(found):
            self._close_ended()
            found = self._held[me] = self._connect()
        return found

    def drop(self) -> None:
        """Close this thread's connection, if it has one: the next is a new one."""
        mine = self._held.pop(threading.current_thread(), None)
        if mine is not None:
            mine.close()

    def close(self) -> None:
        """Close this thread's connection and those of ended threads, and let the others go."""
        self._close_ended()
        with self._lock:
            mine = self._held.pop(threading.current_thread(), None)
            self._held.clear()
        if mine is not None:
            mine.close()

    def _close_ended(self) -> None:
        with self._lock:
            ended = [self._held.pop(thread) for thread in list(self._held) if not thread.is_alive()]
        for connection in ended:
            connection.close()
