"""What every request passes: an id, keys, a limit on its body, and errors that are always problem JSON."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from perturank.errors import BadInput
from perturank.service.api.requests import Problem
from perturank.service.keys import Keyring, Scope
from perturank.service.metering import Meter
from perturank.service.refusals import NotReady, Refused, TooLarge

Endpoint = Callable[[Request], Awaitable[Response]]
PROBLEM = "application/problem+json"
ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

lines = logging.getLogger("perturank.service")


class Gate:
    """Wraps endpoints."""

    def __init__(self, keyring: Keyring, meter: Meter, body_bytes: int) -> None:
        self._keyring, self._meter, self._body_bytes = keyring, meter, body_bytes

    def __call__(self, endpoint: Endpoint, scope: Scope | None) -> Endpoint:
        """Return the endpoint behind the gate; scope None: open to all."""

        async def passed(request: Request) -> Response:
            began = time.perf_counter()
            given = request.headers.get("x-request-id", "")
            name = given if ACCEPTABLE_ID.fullmatch(given) else secrets.token_hex(8)
            response = await self._answered(request, endpoint, scope, name)
            response.headers["x-request-id"] = name
            path = getattr(request.scope.get("route"), "path", "")
            self._meter.requests.labels(request.method, path, response.status_code).inc()
            seconds = time.perf_counter() - began
            self._meter.seconds.labels(path).observe(seconds)
            self._meter.pulse.note(path, response.status_code, seconds)
            lines.info("%s %s %s %d", name, request.method, request.url.path, response.status_code)
            return response

        return passed

    async def _answered(self, request: Request, endpoint: Endpoint, scope: Scope | None, name: str) -> Response:
        try:
            model = request.path_params.get("model")
            if model is not None and not MODEL.fullmatch(model):
                raise Refused(f"{model[:80]!r} is no name of a model", "use letters, digits, dot, dash and underscore")
            if scope is not None:
                self._keyring.admit(request.headers.get("authorization"), scope, model)
            await self._read(request)
            return await endpoint(request)
        except Refused as refused:
            return problem(refused.status, refused.kind, refused.what, refused.remedy, name)
        except msgspec.MsgspecError as error:
            return problem(422, "bad-input", "the body cannot be understood", str(error), name)
        except BadInput as error:
            return problem(422, "bad-input", str(error), "", name)
        except HTTPException as error:
            return problem(error.status_code, "http", error.detail, "", name)
        except ClientDisconnect:
            return problem(499, "gone", "the client has gone", "", name)
        except Exception:
            lines.exception("%s failed", name)
            return problem(500, "fault", "the service failed", "the log line with this id says why", name)

    async def _read(self, request: Request) -> None:
        """Read the body into the request, as long as it is within the limit."""
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._body_bytes:
            raise TooLarge("the body is too large", f"send at most {self._body_bytes} bytes")
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._body_bytes:
                raise TooLarge("the body is too large", f"send at most {self._body_bytes} bytes")
            parts.append(part)
        request.state.body = b"".join(parts)


def problem(status: int, kind: str, title: str, detail: str, instance: str) -> Response:
    """Return an answer that says what was wrong."""
    content = msgspec.json.encode(Problem(f"urn:perturank:{kind}", title, status, detail, instance))
    headers = {"retry-after": "1"} if status in (NotReady.status, 429, 507) else {}
    headers |= {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(content, status, headers, media_type=PROBLEM)
