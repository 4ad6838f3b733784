"""A small library that the tests of the game share."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from perturank.play.corpus import LibraryDocument

COMMAND = [sys.executable, "-c", "from perturank.cli import main; main()", "play"]
SMALL = [f"--set={each}" for each in ("widths=8", "budget=32", "n_steps=16", "learning_rate=0.03", "l2=0.001")]


def document(path: str, text: str, kind: str = "function", signature: str = "()", **about: int) -> LibraryDocument:
    """Return a document; its module is everything before the last dot."""
    module, _, name = path.rpartition(".")
    known = {"uses": 0, "importers": 0} | about
    return LibraryDocument(module, name, kind, signature, text, True, **known)


DOCUMENTS = [
    document("os.path.join", "Join two or more pathname components, inserting '/' as needed.", uses=40, importers=90),
    document("os.path.split", "Split a pathname. Return tuple (head, tail) where tail is everything after the slash."),
    document("ntpath.join", "Join two or more pathname components, inserting '/' as needed."),
    document("threading.Thread.join", "Wait until the thread terminates. This blocks the calling thread.", "method"),
    document("random.shuffle", "Shuffle list x in place, and return None as the result.", uses=3),
    document("json.dumps", "Serialize an object to a JSON formatted string with given separators and default."),
    document("html.escape", "Replace special characters <script> & in string with safe HTML sequences, quotes too."),
    document("heapq.heappush", "Push item onto heap, maintaining the heap invariant of every parent and child."),
]


class Played:
    """A real `perturank play` in a process tree of its own."""

    def __init__(self, folder: Path) -> None:
        self._errors = (folder / "err.txt").open("w+")
        command = [*COMMAND, "--port", "0", "--folder", str(folder), *SMALL]
        self._process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=self._errors, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        found = re.search(r"http://[^/\s]+", self._process.stdout.readline())
        assert found is not None, self.errors()
        self.url = found.group()
        self._http = httpx.Client(base_url=self.url, verify=False, timeout=60)

    def errors(self) -> str:
        """Return what it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read()

    def get(self, path: str) -> dict[str, Any]:
        """Return an answer."""
        answer: dict[str, Any] = self._http.get(path).raise_for_status().json()
        return answer

    def send(self, path: str, body: dict[str, Any], method: str = "POST") -> dict[str, Any]:
        """Return the answer to what is sent, whatever its status."""
        answer: dict[str, Any] = self._http.request(method, path, json=body).json()
        return answer

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the state once something holds of it."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            state = self.get("/play/state")
            if holds(state):
                return state
            time.sleep(0.1)
        raise AssertionError(f"it took too long: {state} {self.errors()}")

    def stop(self) -> int:
        """Ask it to stop and return its exit code; what does not stop is killed."""
        self._http.close()
        self._process.terminate()
        try:
            return self._process.wait(60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._errors.close()
