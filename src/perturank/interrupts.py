"""Ctrl-C: it ends a command with one line and exit code 130, wherever the command is.

A KeyboardInterrupt that is raised wherever the program happens to be gets lost on its way out of library code, such as
JAX's callback of the garbage collector, and the command goes on. So the signal ends the process, except where
`interruptible` lets a command finish what it is at.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # exit code
MESSAGE = "interrupted; the same command may be given again"
SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


def end_at_interrupt() -> None:
    """Let Ctrl-C end the process from now on. Call it before JAX is imported; where Ctrl-C is ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"{SHOW_CURSOR if sys.stderr.isatty() else ''}{MESSAGE}\n".encode())
    os._exit(INTERRUPTED)


@contextmanager
def interruptible(at_once: bool = False) -> Generator[Callable[[], None], None, None]:
    """Yield a function that raises KeyboardInterrupt if Ctrl-C was pressed since; a second press raises at once.

    It is called at safe moments: between chunks of rounds, when the checkpoint file is whole. The end is one of them.
    `at_once`: the first press raises too, for a command that waits for other processes.
    """
    pressed = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if at_once:
            raise KeyboardInterrupt

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield check
        check()
    finally:
        signal.signal(signal.SIGINT, before)
