"""Endpoints for those who watch: healthz, readyz, metrics."""

from __future__ import annotations

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from perturank.service.api.forms import answered
from perturank.service.metering import Meter
from perturank.service.watching import Watch


class Health:
    """Alive, ready, measured."""

    def __init__(self, watch: Watch, meter: Meter) -> None:
        self._service, self._watch, self._meter = watch.service, watch, meter

    async def alive(self, request: Request) -> Response:
        """Answer as long as the process does."""
        return answered(request, {"status": "alive"})

    async def ready(self, request: Request) -> Response:
        """Answer 200 when every length of list is compiled; say what is wrong with stored versions."""
        todo = sum(1 for _ in self._service.host.uncompiled()) if self._service.settings.compile_first else 0
        faults = [held.fault for held in self._service.host.all() if held.fault is not None]
        status = "compiling" if todo else "ready"
        return answered(request, {"status": status, "to_compile": todo, "faults": faults}, 503 if todo else 200)

    async def metrics(self, request: Request) -> Response:
        """Answer with what Prometheus reads."""
        page = await anyio.to_thread.run_sync(self._meter.page, self._watch)
        return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")
