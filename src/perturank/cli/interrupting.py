"""Ctrl-C at a safe moment: between chunks of rounds, when the checkpoint file is whole."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Generator[Callable[[], None], None, None]:
    """Yield a function that raises KeyboardInterrupt if Ctrl-C was pressed since; a second one raises at once.

    An exception raised wherever the program happens to be was seen to get lost on its way out of
    library code, and the run went on.
    """
    pressed = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
