"""A way to a service that can fall silent without a word, as a connection does whose other end has gone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Relay:
    """Passes bytes on while `passes` is set, and holds them back while it is not."""

    def __init__(self, url: str) -> None:
        self._there: tuple[str, int] | None = None
        self.lead_to(url)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        self.passes = threading.Event()
        self.passes.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, url: str | None) -> None:
        """Take whoever comes from now on to this address; None: to nobody, so that they are turned away."""
        there = None if url is None else urlsplit(url)
        self._there = None if there is None else (there.hostname or "", there.port or 80)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._join(self._door.accept()[0])

    def _join(self, near: socket.socket) -> None:
        try:
            far = None if self._there is None else socket.create_connection(self._there)
        except OSError:
            far = None
        if far is None:
            near.close()
            return
        for ends in ((near, far), (far, near)):
            threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                self.passes.wait()
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let nobody in any more, and nobody wait."""
        self.passes.set()
        self._door.close()


@contextmanager
def relayed(url: str) -> Iterator[Relay]:
    """Open a way to this address beside the block."""
    relay = Relay(url)
    yield relay
    relay.close()
