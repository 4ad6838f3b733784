"""Versions with their history as files: rebuilt by a child process, since whoever answers requests does not learn."""

from __future__ import annotations

import json
import subprocess
import threading

from perturank.service import children
from perturank.service.refusals import NotReady, retold
from perturank.service.telemetry.logger import logger


class Filing:
    """Makes files from a log until it is time to stop; one at a time, so that neither memory nor threads run out."""

    def __init__(self, log: str, stopping: threading.Event) -> None:
        self._log, self._stopping = log, stopping
        self._lock = threading.Lock()

    def whole(self, model: str, version: int) -> bytes:
        """Return the file of a version with all that learning needs."""
        if not self._lock.acquire(blocking=False):
            raise NotReady("the file of a model is being made", "ask again when that is done")
        try:
            return self._rebuilt(f"--model={model}", f"--version={version}")
        finally:
            self._lock.release()

    def _rebuilt(self, *which: str) -> bytes:
        """Return what `perturank replay` writes, or raise what it refuses; on its way it is in no file to be left."""
        try:
            child = children.started("replay", *which, "--out=-", log=self._log, pipes=subprocess.PIPE)
        except OSError as error:  # too many files or processes, too little memory: it may pass
            raise _failed(f"no process can be started ({error})") from None
        written = children.output(child, self._stopping)
        if written is None:
            raise NotReady("the service is about to stop", "ask again when it is back")
        content, errors = written
        if child.returncode == children.REFUSED:
            raise retold(**json.loads(content))
        if child.returncode != 0:
            raise _failed(f"its process ended with code {child.returncode}\n{errors.decode(errors='replace')}".strip())
        return content


def _failed(why: str) -> NotReady:
    """Return the refusal of a file that could not be made; the reason is for those who run the service."""
    logger.error("a model's file could not be made: %s", why)
    return NotReady("the model's file could not be made", "the log line with this id says why; ask again")
