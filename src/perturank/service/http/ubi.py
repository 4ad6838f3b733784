"""Endpoints of User Behavior Insights: what `ubi.js` sends from the pages of a shop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perturank.service.http.auth import Key, Keyring, is_same_origin
from perturank.service.http.decoding import JSON, read_body
from perturank.service.log.refusals import Forbidden, NotKnown, Refused, TooLarge
from perturank.service.serving.service import Service
from perturank.service.serving.ubi import Result, model_of, note_queries, record_events
from perturank.wire.answers import UbiAnswer, UbiOutcome
from perturank.wire.ubi import Recorded, decode_event, decode_query, separate

R = TypeVar("R", bound=Recorded)
MOST_BYTES = 1_000_000
SECONDS_OF_A_PREFLIGHT = "600"  # for so long a browser need not ask again
PREFLIGHT = {
    "access-control-allow-methods": "POST",
    "access-control-allow-headers": "accept, authorization, content-type, x-request-id",
    "access-control-max-age": SECONDS_OF_A_PREFLIGHT,
}


class UbiEndpoints:
    """Queries and events; each record is taken or refused on its own."""

    def __init__(self, service: Service, keyring: Keyring) -> None:
        self._service, self._keyring = service, keyring

    async def events(self, request: Request) -> Response:
        """Record what people did with lists; answered when it is durable."""
        return await self._answer(request, decode_event, record_events)

    async def queries(self, request: Request) -> Response:
        """Count queries, and say of each whether there is a list of it."""
        return await self._answer(request, decode_query, note_queries)

    async def preflight(self, request: Request) -> Response:
        """Answer what a browser asks before it sends records from a page of another origin."""
        return Response(status_code=204, headers=PREFLIGHT)

    async def _answer(
        self,
        request: Request,
        decode: Callable[[msgspec.Raw], R],
        write: Callable[[Service, Sequence[tuple[str, R]]], Future[list[Result]]],
    ) -> Response:
        body = await read_body(request, min(MOST_BYTES, self._service.settings.body_bytes))
        taken: dict[int, tuple[str, R]] = {}
        results: dict[int, Result] = {}
        has_looked = False

        async def model_for(record: R) -> str:
            nonlocal has_looked
            try:
                return self._model_of(request, record)
            except NotKnown:
                if has_looked:
                    raise
            has_looked = True
            await anyio.to_thread.run_sync(self._service.refresh)  # another process may have created it a moment ago
            return self._model_of(request, record)

        for i, content in enumerate(self._separated(body)):
            try:
                record = decode(content)
                taken[i] = self._taken(request, await model_for(record), record)
            except msgspec.MsgspecError as error:
                results[i] = Refused(f"the record cannot be understood: {error}")
            except Refused as refused:
                results[i] = refused
        written: list[Result] = await asyncio.wrap_future(write(self._service, list(taken.values())))
        results |= zip(taken, written, strict=True)
        answer = UbiAnswer(answers=[_outcome(results[i]) for i in sorted(results)])
        return Response(msgspec.json.encode(answer), media_type=JSON)

    def _separated(self, body: bytes) -> list[msgspec.Raw]:
        try:
            found = separate(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Refused("the body cannot be understood", f"send a JSON array of records: {error}") from None
        most = self._service.settings.max_batch
        if len(found) > most:
            raise TooLarge(f"there are {len(found)} records", f"send at most {most}")
        return found

    def _model_of(self, request: Request, record: Recorded) -> str:
        key: Key | None = request.state.key
        model = model_of(self._service, record.application, None if key is None else key.models)
        return self._service.models.get(model).name

    def _taken(self, request: Request, model: str, record: R) -> tuple[str, R]:
        """Return a record with its model; refuse one that this page or client may not send."""
        origin = request.headers.get("origin")
        origins = self._service.models.get(model).spec.ubi.origins
        if origin is not None and origin not in origins and not is_same_origin(request.headers):
            raise Forbidden(f"pages of {origin!r} may not send records of model {model!r}")
        if record.client is not None:
            self._keyring.limit_client(model, record.client)
        return model, record


def _outcome(result: Result) -> UbiOutcome:
    if isinstance(result, Refused):
        return {"status": result.status, "type": f"urn:perturank:{result.kind}", "title": str(result)}
    return {"status": result.status, "title": result.title} if result.title else {"status": result.status}
