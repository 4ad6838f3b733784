"""Child processes, where all learning is done: started afresh, not forked, since JAX has threads; they end with us."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

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
