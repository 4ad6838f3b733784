"""Child processes that learn and replay: spawned, not forked, since JAX has threads; they end with their parent."""

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
# Ctrl-C in a terminal reaches children too: it is for their parent to end them, and to say so.
CODE = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from perturank.cli import main; main()"
PROGRAM = (sys.executable, "-c", CODE)


def start(*words: str, log: str, pipes: int | None = None) -> subprocess.Popen[bytes]:
    """Start a command of perturank on this log; `pipes`: where its stdout and stderr go."""
    # Not on the command line, which others may read: the address may contain a password.
    environment = os.environ | {"PERTURANK_LOG": log}
    command = [*PROGRAM, *words, "--with-parent"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=pipes, stderr=pipes, env=environment)


def admit(child: subprocess.Popen[bytes]) -> None:
    """Let a learner go on, now that the log is there: it has loaded what it needs, and waits."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended, which its keeper sees
        child.stdin.write(b".")
        child.stdin.flush()


def wait_for_parent() -> None:
    """Wait until the parent admits this process; end if it has ended itself."""
    if not os.read(sys.stdin.fileno(), 1):
        sys.exit(1)


def output(child: subprocess.Popen[bytes], stopping: threading.Event) -> tuple[bytes, bytes] | None:
    """Return the stdout and stderr of a child when it has ended; None: the service stops, and has ended it."""
    stdin, child.stdin = child.stdin, None  # `communicate` would close it, which ends the child
    assert stdin is not None
    with child, stdin:
        try:
            while not stopping.is_set():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return child.communicate(timeout=SECONDS_BETWEEN_LOOKS)
            return None
        finally:
            end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """Terminate a child; kill it if it does not end in time."""
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(SECONDS_TO_END)
    child.kill()
    child.wait()


def stay_with_parent() -> None:
    """Lower the priority of this process, and end it when its parent ends."""
    _step_back()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _step_back() -> None:
    """Use one core at a low priority: the process that answers requests comes first."""
    os.nice(NICENESS)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _end_with_parent() -> None:
    """Wait for the end of stdin, which the parent holds open: it is closed however the parent ends."""
    while os.read(sys.stdin.fileno(), 4096):  # not through the buffer, whose lock would be held at exit
        pass
    os._exit(1)  # the log is consistent at any moment: nothing need be finished
