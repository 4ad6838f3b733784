"""A real `perturank serve` in a process tree of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx

from perturank import Client

SPEC: dict[str, Any] = {"n_features": 5, "ranker": "p2linrank", "places": 4, "scaling": "none"}
SECONDS = 120.0
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ (-|[A-Za-z0-9._-]{1,64}) .*")

STARTED: list[Serving] = []


class Serving:
    """Started in a folder, where its log is; stopped gently, or with kill -9 for the whole tree."""

    def __init__(self, folder: Path, log: str = "sqlite:///perturank.db", **environment: str) -> None:
        self.folder, self.log = folder, log
        program = [sys.executable, "-c", "from perturank.cli import main; main()"]
        command = [*program, "serve", "--port", "0", "--log", log]
        with (folder / "err.txt").open("a") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=os.environ | {"PERTURANK_MAX_DOCUMENTS": "16"} | environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        STARTED.append(self)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found is not None, (folder / "err.txt").read_text()
        self.url = found.group()

    def ready(self) -> Self:
        """Wait until it answers, and nothing is left to compile."""
        with httpx.Client(verify=False, timeout=SECONDS) as http:  # certificates take longer to load than an answer
            self.until(lambda: http.get(f"{self.url}/readyz").json()["status"] == "ready")
        return self

    def until(self, holds: Any, seconds: float = SECONDS) -> None:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if holds():
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError("it took too long: " + (self.folder / "err.txt").read_text()[-2000:])

    def client(self, **options: Any) -> Client:
        """Return a client of it, as patient as all that waits here."""
        return Client(self.url, **{"timeout": SECONDS, "patience": SECONDS} | options)

    def requests_logged(self) -> set[str]:
        """Return the ids in its log lines: each names its request, or none, and none tells of a fault of ours."""
        lines = (self.folder / "err.txt").read_text().splitlines()
        assert [line for line in lines if not LINE.fullmatch(line)] == []
        assert [line for line in lines if " ERROR " in line] == []
        return {match.group(1) for line in lines if (match := LINE.fullmatch(line))}

    def kill(self) -> None:
        """End every process of the tree at once, as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._forget()

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        self._forget()
        return code

    def _forget(self) -> None:
        """Leave its process number to others: what is still listed may be killed in the end."""
        with contextlib.suppress(ValueError):
            STARTED.remove(self)


@contextlib.contextmanager
def all_ended() -> Iterator[None]:
    """Kill what was started beside the block and is still there; what others started before it is theirs."""
    before = list(STARTED)
    yield
    for started in [each for each in STARTED if each not in before]:
        started.kill()


def children(parent: int) -> list[int]:
    """Return the processes that this one has started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(word) for word in listed.stdout.split()]


def rebuilding(parent: int) -> int:
    """Wait for the child of this process that rebuilds a version, and return it."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for child in children(parent):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if b"replay" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return child
        time.sleep(0.01)
    raise AssertionError("nobody rebuilds")


def is_running(process: int) -> bool:
    """Return whether this process is there, and not only its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of perturank."""
    command = [sys.executable, "-c", "from perturank.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)
