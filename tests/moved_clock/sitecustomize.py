"""Read by every Python process whose path has this folder: its clock is wrong by as much as a file says at the time."""

from __future__ import annotations

import os
import time
from pathlib import Path

FILE = "MOVED_CLOCK"  # in the environment; without it nothing is moved, as in a test run that only looks for doctests


def move(file: Path) -> None:
    """Move the clock of this process by so many seconds as the file says, whenever it is asked."""
    now, now_ns = time.time, time.time_ns

    def moved() -> float:
        true = now()  # first: no true time can then be later than the moment at which the file was changed
        return true + int(file.read_text())

    def moved_ns() -> int:
        true = now_ns()
        return true + int(file.read_text()) * 10**9

    for name, function in (("time", moved), ("time_ns", moved_ns)):
        setattr(time, name, function)


if FILE in os.environ:
    move(Path(os.environ[FILE]))
