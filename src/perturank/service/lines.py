"""Log lines: each says which request it belongs to; a dash stands for none."""

from __future__ import annotations

import logging
import os
import time
from contextvars import ContextVar

OF_NO_REQUEST = "-"

request_id: ContextVar[str] = ContextVar("request_id", default=OF_NO_REQUEST)
lines = logging.getLogger("perturank.service")


class Naming(logging.Filter):
    """Gives a line the id of the request that is being answered, unless it has one."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every line pass."""
        if not hasattr(record, "request"):
            record.request = request_id.get()
        return True


class Lines(logging.Formatter):
    """Repeats time and id before every line of a text with several, as a traceback is."""

    def __init__(self) -> None:
        super().__init__("%(message)s")
        self._second, self._text = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the time as logging does, but make its text once a second."""
        second = int(record.created)
        if second != self._second:
            self._second, self._text = second, time.strftime(self.default_time_format, self.converter(second))
        return f"{self._text},{int(record.msecs):03d}"

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line or several."""
        head = f"{self.formatTime(record)} {record.levelname} {getattr(record, 'request', OF_NO_REQUEST)} "
        return "\n".join(head + line for line in super().format(record).splitlines() or [""])


def write_lines() -> None:
    """Send all lines of this process to stderr."""
    logging._srcfile = None  # as its documentation advises: no line says where in the code it was made
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler()
    handler.addFilter(Naming())
    handler.setFormatter(Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if "JAX_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("jax").setLevel(logging.WARNING)  # it tells of every kind of machine that this one is not


lines.addFilter(Naming())
