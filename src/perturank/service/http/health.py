"""Endpoints for those who watch: healthz, readyz, metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from perturank.service.http.decoding import respond
from perturank.service.telemetry.logger import logger
from perturank.service.telemetry.overview import Overview
from perturank.service.telemetry.prometheus import Metrics
from perturank.wire.answers import Alive, Readiness

DAMAGED = "a stored version is damaged or gone, and another one serves"
SAMPLING = "queries cannot be looked at for certain orders"
HARMLESS = frozenset((SAMPLING,))  # lists are the same without it


class Health:
    """Alive, ready, measured."""

    def __init__(self, overview: Overview, metrics: Metrics) -> None:
        self._service, self._overview, self._metrics = overview.service, overview, metrics
        self._failing: dict[str, str] = {}
        self._has_been_ready = False

    @contextmanager
    def watching(self, what: str) -> Iterator[None]:
        """Report a failure of the block, under this description, until it succeeds; serving goes on meanwhile."""
        try:
            yield
        except Exception as error:  # whatever it is, it is reported here and the block is retried
            self.fails(what, error)
        else:
            self.works(what)

    def fails(self, what: str, error: Exception) -> None:
        """Note a failure; only the first in a row is logged."""
        if what not in self._failing:
            logger.error("%s", what, exc_info=error)
        self._failing[what] = f"{what}: {error}"

    def works(self, what: str) -> None:
        """Note that this works, or works again."""
        if self._failing.pop(what, None) is not None:
            logger.info("no longer: %s", what)

    def compiled(self) -> None:
        """Note that everything was compiled once: what comes later is compiled while the rest is served."""
        self._has_been_ready = True

    @property
    def failing(self) -> list[str]:
        """What fails now, for those who may know why."""
        return list(self._failing.values())

    async def alive(self, request: Request) -> Response:
        """Answer as long as the process does."""
        return respond(request, Alive(status="alive"))

    async def ready(self, request: Request) -> Response:
        """Answer 200 when every length of list is, or once was, compiled and the log can be read; say what is wrong.

        A change of a model reaches all processes at once: were they unready then, nobody would serve any model.
        """
        todo = sum(1 for _ in self._service.host.uncompiled()) if self._service.settings.compile_first else 0
        damaged = any(held.fault is not None for held in self._service.host.all())
        is_failing = bool(self._failing.keys() - HARMLESS)
        status: Literal["ready", "compiling", "failing"] = "failing" if is_failing else "compiling" if todo else "ready"
        # Anybody may ask: what is wrong, but neither of which model nor why. The log lines and the alarms say that.
        faults = [*self._failing, *([DAMAGED] if damaged else [])]
        self._has_been_ready |= status == "ready"
        serves = status == "ready" or (status == "compiling" and self._has_been_ready)
        return respond(request, Readiness(status=status, to_compile=todo, faults=faults), 200 if serves else 503)

    async def metrics(self, request: Request) -> Response:
        """Answer with what Prometheus reads."""
        page = await anyio.to_thread.run_sync(self._metrics.page, self._overview)
        return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")
