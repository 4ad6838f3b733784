"""Child processes, where all learning is done: started afresh, not forked, since JAX has threads; they end with us."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading

from perturank.service.log.refusals import NotReady, retold
from perturank.service.telemetry.logger import logger

SECONDS_TO_END = 10
SECONDS_BETWEEN_LOOKS = 0.1
NICENESS = 5
REFUSED = 4  # exit code of a child whose stdout says why it refuses
PROGRAM = (sys.executable, "-c", "from perturank.cli import main; main()")


def start(*words: str, log: str, pipes: int | None = None) -> subprocess.Popen[bytes]:
    """Start a command of perturank that works on this log for us; `pipes`: where its stdout and stderr go."""
    # Others may read a command line, and the address may hold a password.
    environment = os.environ | {"PERTURANK_LOG": log}
    command = [*PROGRAM, *words, "--with-parent"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=pipes, stderr=pipes, env=environment)


def output(child: subprocess.Popen[bytes], stopping: threading.Event) -> tuple[bytes, bytes] | None:
    """Return what a child writes to stdout and stderr until it ends; None: it was ended, since it is time to stop."""
    held, child.stdin = child.stdin, None  # `communicate` would close it, and with that end the child
    assert held is not None
    with child, held:
        try:
            while not stopping.is_set():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return child.communicate(timeout=SECONDS_BETWEEN_LOOKS)
            return None
        finally:
            end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child, gently if it lets us."""
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(SECONDS_TO_END)
    child.kill()
    child.wait()


def stay_with_parent() -> None:
    """Be a child: step back behind those who answer requests, and end when the parent does."""
    _step_back()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _step_back() -> None:
    """Keep to one core, and leave it to whoever answers requests: learning, and compiling above all, can wait."""
    os.nice(NICENESS)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _end_with_parent() -> None:
    """Wait for the end of stdin, which the parent holds open: it ends however the parent does."""
    while os.read(sys.stdin.fileno(), 4096):  # not by its buffer, whose lock would be held when the process ends
        pass
    os._exit(1)  # the log is whole at any moment: nothing need be finished


class VersionFiles:
    """Versions with their history as files, each rebuilt by a child process until it is time to stop.

    One is made at a time, so that neither memory nor threads run out.
    """

    def __init__(self, log: str, stopping: threading.Event) -> None:
        self._log, self._stopping = log, stopping
        self._lock = threading.Lock()

    def make(self, model: str, version: int) -> bytes:
        """Return the file of a version with all that learning needs."""
        if not self._lock.acquire(blocking=False):
            raise NotReady("the file of a model is being made", "ask again when that is done")
        try:
            return self._rebuild(f"--model={model}", f"--version={version}")
        finally:
            self._lock.release()

    def _rebuild(self, *which: str) -> bytes:
        """Return what `perturank replay` writes, or raise what it refuses; on its way it is in no file to be left."""
        try:
            child = start("replay", *which, "--out=-", log=self._log, pipes=subprocess.PIPE)
        except OSError as error:  # too many files or processes, too little memory: it may pass
            raise _failure(f"no process can be started ({error})") from None
        written = output(child, self._stopping)
        if written is None:
            raise NotReady("the service is about to stop", "ask again when it is back")
        content, errors = written
        if child.returncode == REFUSED:
            raise retold(**json.loads(content))
        if child.returncode != 0:
            raise _failure(f"its process ended with code {child.returncode}\n{errors.decode(errors='replace')}".strip())
        return content


def _failure(why: str) -> NotReady:
    """Return the refusal of a file that could not be made; the reason is for those who run the service."""
    logger.error("a model's file could not be made: %s", why)
    return NotReady("the model's file could not be made", "the log line with this id says why; ask again")
