"""Endpoints of the dashboard: the present state, once or as a stream, the history, and the recent queries."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from perturank.service.http.decoding import query_number, respond
from perturank.service.http.request import find_model
from perturank.service.log.refusals import Refused, TooMany
from perturank.service.serving.models import RecentQuery
from perturank.service.serving.overview import SPANS, Overview, View
from perturank.service.serving.service import Service

MOST_STREAMS = 32
PAGES = range(1, 2**31)  # of models
SECONDS_BETWEEN_EVENTS = 1.0
NOT_KEPT = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Dashboard:
    """Overview, stream, history, recent queries."""

    def __init__(self, service: Service, overview: Overview) -> None:
        self._service, self._overview, self._recent = service, overview, service.models.recent
        self._n_streams = 0

    async def overview(self, request: Request) -> Response:
        """Answer with the present state."""
        return respond(request, await anyio.to_thread.run_sync(self._overview.now, _view(request)))

    async def live(self, request: Request) -> Response:
        """Answer with a stream of server-sent events, one a second, each like the overview."""
        if self._n_streams >= MOST_STREAMS:
            raise TooMany(f"{MOST_STREAMS} dashboards are open", "close one")
        return StreamingResponse(self._events(_view(request)), media_type="text/event-stream", headers=NOT_KEPT)

    async def _events(self, view: View) -> AsyncIterator[bytes]:
        self._n_streams += 1
        try:
            while not self._service.stopping.is_set():
                moment = await anyio.to_thread.run_sync(self._overview.now, view)
                yield b"data: " + msgspec.json.encode(moment) + b"\n\n"
                await asyncio.sleep(SECONDS_BETWEEN_EVENTS)
        finally:
            self._n_streams -= 1

    async def history(self, request: Request) -> Response:
        """Answer with the model's minutes or hours."""
        loaded = await find_model(self._service, request.path_params["model"])
        span = request.query_params.get("span", "minutes")
        if span not in SPANS:
            raise Refused(f"there is no span {span[:40]!r}", "ask for minutes or hours")

        def history() -> Response:
            found = self._overview.history(loaded.name, span)
            return _small(request, respond(request, {"model": loaded.name, "span": span, "buckets": found}))

        return await anyio.to_thread.run_sync(history)

    async def recent(self, request: Request) -> Response:
        """Answer with the last queries that this process ranked."""
        loaded = await find_model(self._service, request.path_params["model"])
        return respond(
            request, {"model": loaded.name, "queries": [_about(each) for each in self._recent.of(loaded.name)]}
        )


def _view(request: Request) -> View:
    asked = request.query_params
    return View(asked.get("filter", ""), query_number(request, "page", PAGES) or 1, asked.get("model"))


def _small(request: Request, response: Response) -> Response:
    """Compress a long answer if the client accepts gzip: a month by the hour is half a megabyte."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return response
    headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(gzip.compress(response.body, 5), 200, headers, media_type=response.media_type)


def _about(asked: RecentQuery) -> dict[str, Any]:
    return {"number": asked.number, "at": asked.at, "query": asked.query, "documents": len(asked.ids)}
