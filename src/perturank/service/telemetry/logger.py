"""Log lines, as text or as JSON: each names the request that it belongs to; a dash stands for none."""

from __future__ import annotations

import json
import logging
import os
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache

from perturank.service.settings import LineFormat

request_id: ContextVar[str] = ContextVar("request_id", default="-")
logger = logging.getLogger("perturank.service")


def name_request(record: logging.LogRecord) -> bool:
    """Give a line the id of the request that is being answered, unless it has one; let every line pass."""
    if not hasattr(record, "request"):
        record.request = request_id.get()
    return True


class Formatter(logging.Formatter):
    """Repeats time and id before every line of a text with several, such as a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line or several."""
        request = getattr(record, "request", "-")
        head = f"{_time(int(record.created))},{int(record.msecs):03d} {record.levelname} {request} "
        return "\n".join(head + line for line in super().format(record).splitlines() or [""])


class JsonFormatter(logging.Formatter):
    """Writes every record as one JSON object, a traceback among its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        content = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "request": getattr(record, "request", "-"),
            "message": record.getMessage(),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False)


@lru_cache(maxsize=1)  # most lines are of the same second
def _time(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))


def write_to_stderr(lines: LineFormat = "text") -> None:
    """Send all lines of this process to stderr."""
    logging._srcfile = None  # as its documentation advises: no line names its place in the code
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler()
    handler.addFilter(name_request)
    handler.setFormatter(JsonFormatter() if lines == "json" else Formatter("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if "JAX_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("jax").setLevel(logging.WARNING)  # JAX logs every accelerator that is missing


logger.addFilter(name_request)
