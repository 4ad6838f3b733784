"""The steps of every request: an id, authorisation, errors as problem JSON, metrics and a log line."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import quote

import anyio.to_thread
import msgspec
from starlette.concurrency import iterate_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from perturank.errors import BadInput
from perturank.service.http.auth import Keyring, Scope, check_host, check_local, check_page, without_keys
from perturank.service.log.refusals import Forbidden, Refused
from perturank.service.serving.models import LoadedModel
from perturank.service.serving.service import Service
from perturank.service.telemetry.logger import logger, request_id
from perturank.service.telemetry.prometheus import Metrics
from perturank.wire.answers import Problem
from perturank.wire.specification import SpecRequest

Endpoint = Callable[[Request], Awaitable[Response]]
ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
PROBLEM = "application/problem+json"
AGAIN_LATER = {"retry-after": "1"}
PROBLEM_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},  # the rest of the body may still come
    413: {"connection": "close"},
    429: AGAIN_LATER,
    503: AGAIN_LATER,
    507: AGAIN_LATER,
}


class Gate:
    """Wraps endpoints with these steps."""

    def __init__(
        self, keyring: Keyring, metrics: Metrics, origins: Callable[[], Collection[str]] = frozenset[str]
    ) -> None:
        self._keyring, self._metrics, self._origins = keyring, metrics, origins

    def __call__(self, endpoint: Endpoint, scope: Scope | None, *, for_pages: bool = False) -> Endpoint:
        """Return the endpoint behind the gate; scope None: open to all.

        What is `for_pages` may be sent by web pages of the origins that the models name.
        """

        async def handle(request: Request) -> Response:
            began = time.perf_counter()
            given = request.headers.get("x-request-id", "")
            name = given if ACCEPTABLE_ID.fullmatch(given) else secrets.token_hex(8)
            request_id.set(name)
            response = await self._respond(request, endpoint, scope, for_pages, name)
            response.headers["x-request-id"] = name
            if request.method == "HEAD" and isinstance(response, StreamingResponse):
                response.body_iterator = iterate_in_threadpool(())  # an endless body would keep the connection
            if for_pages:
                self._let_read(request, response)
            self._note(request, response.status_code, time.perf_counter() - began)
            return response

        return handle

    def _note(self, request: Request, status: int, seconds: float) -> None:
        route = getattr(request.scope.get("route"), "path", "")
        self._metrics.note_request(request.method, route, status, seconds)
        logger.info("%s %s %d", request.method, without_keys(quote(request.scope["path"])), status)

    def _let_read(self, request: Request, response: Response) -> None:
        """Let a page of an allowed origin read the answer, also where it is a refusal."""
        origin = request.headers.get("origin")
        response.headers["vary"] = "origin"
        if origin is not None and origin in self._origins():
            response.headers["access-control-allow-origin"] = origin
            response.headers["access-control-expose-headers"] = "x-request-id"

    async def _respond(
        self, request: Request, endpoint: Endpoint, scope: Scope | None, for_pages: bool, name: str
    ) -> Response:
        try:
            self._admit(request, scope, for_pages)
            return await endpoint(request)
        except Refused as refused:
            return problem(refused.status, refused.kind, refused.what, refused.remedy, name)
        except msgspec.MsgspecError as error:
            return problem(422, "bad-input", "the body cannot be understood", str(error), name)
        except BadInput as error:
            return problem(422, "bad-input", str(error), "", name)
        except HTTPException as error:
            refusal = problem(error.status_code, "http", error.detail, "see /docs", name)
            refusal.headers.update(error.headers or {})
            return refusal
        except ClientDisconnect:
            return problem(499, "gone", "the client has gone", "", name)
        except Exception:  # a bug of ours: the client gets an answer, the log the traceback
            logger.exception("failed")
            return problem(500, "fault", "the service failed", "the log line with this id says why", name)

    def _admit(self, request: Request, scope: Scope | None, for_pages: bool) -> None:
        """Refuse a bad model name and a key without permission; `state.is_admin`: the key may administer the model."""
        model = request.path_params.get("model")
        for kind, name in request.path_params.items():
            if kind in ("model", "test") and not MODEL.fullmatch(name):
                raise Refused(f"{name[:80]!r} is no name of a {kind}", "use letters, digits, dot, dash and underscore")
        if for_pages:
            check_page(request.headers, self._origins())
        if not self._keyring.asks:
            (check_host if for_pages else check_local)(request.headers)
        if scope is not None:
            address = request.client.host if request.client is not None else ""
            in_path = request.path_params.get("key")  # where a page can send no header
            given = request.headers.get("authorization") if in_path is None else f"Bearer {in_path}"
            key = self._keyring.admit(given, scope, model, address)
            if in_path is not None and key is not None and not key.is_publishable:
                raise Forbidden(f"key {key.name!r} is secret, and an address is not", "replace it by a publishable one")
            request.state.key, request.state.is_admin = key, key is None or key.allows("admin", model)


def problem(status: int, kind: str, title: str, detail: str, request: str) -> Response:
    """Return an error as problem JSON (RFC 9457); the request's id is in the header, in the body and in the log."""
    content = msgspec.json.encode(Problem(f"urn:perturank:{kind}", title, status, detail, request))
    return Response(content, status, PROBLEM_HEADERS.get(status), media_type=PROBLEM)


async def find_model(
    service: Service, name: str, wanted: Callable[[], SpecRequest | None] | None = None
) -> LoadedModel:
    """Return the model; one that is not loaded is looked for in the log, or created as wanted if it is the default."""
    if name in service.models:
        return service.models.get(name)
    return await anyio.to_thread.run_sync(service.find_model, name, wanted)
