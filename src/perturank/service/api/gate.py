"""What every request passes: an id, keys, a limit on its body, and errors that are always problem JSON."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import quote

import msgspec
from starlette.concurrency import iterate_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from perturank.errors import BadInput
from perturank.service.api.asking import Asking, Endpoint
from perturank.service.api.origin import check_local
from perturank.service.api.problems import problem
from perturank.service.keys import Keyring, Scope
from perturank.service.refusals import Refused, TooLarge, TooSlow
from perturank.service.telemetry.logger import logger, request_id
from perturank.service.telemetry.prometheus import Metrics

Read = Callable[[Asking], Awaitable[bytes]]
ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Gate:
    """Wraps endpoints."""

    def __init__(self, keyring: Keyring, metrics: Metrics, body_bytes: int, patience: float) -> None:
        self._keyring, self._metrics = keyring, metrics
        self._body_bytes, self._patience = body_bytes, patience

    def __call__(
        self, endpoint: Endpoint, scope: Scope | None, *, reads: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint behind the gate, for Starlette; scope None: open to all; reads: it wants a body."""

        async def passed(request: Request) -> Response:
            read = partial(self._read, request) if reads else None
            response = await self.answered(Asking.of(request), endpoint, scope, read)
            if request.method == "HEAD" and isinstance(response, StreamingResponse):
                response.body_iterator = iterate_in_threadpool(())  # unseen and endless, it would hold the connection
            return response

        return passed

    async def answered(
        self, asking: Asking, endpoint: Endpoint, scope: Scope | None, read: Read | None = None
    ) -> Response:
        """Return the answer of the endpoint, or a refusal; without `read` the body is there already, or not wanted."""
        began = time.perf_counter()
        given = asking.headers.get("x-request-id", "")
        name = given if ACCEPTABLE_ID.fullmatch(given) else secrets.token_hex(8)
        request_id.set(name)
        response = await self._passed(asking, endpoint, scope, read, name)
        response.headers["x-request-id"] = name
        seconds = time.perf_counter() - began
        self._metrics.note_request(asking.method, asking.route, response.status_code, seconds)
        logger.info("%s %s %d", asking.method, quote(asking.path), response.status_code)
        return response

    async def _passed(
        self, asking: Asking, endpoint: Endpoint, scope: Scope | None, read: Read | None, name: str
    ) -> Response:
        try:
            model = asking.path_params.get("model")
            if model is not None and not MODEL.fullmatch(model):
                raise Refused(f"{model[:80]!r} is no name of a model", "use letters, digits, dot, dash and underscore")
            if not self._keyring.asks:
                check_local(asking.headers)
            if scope is not None:
                key = self._keyring.admit(asking.headers.get("authorization"), scope, model, asking.address)
                asking.is_admin = key is None or key.allows("admin", model)
            if read is not None:
                asking.body = await read(asking)
            elif len(asking.body) > self._body_bytes:
                raise self._too_large()
            return await endpoint(asking)
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
        except Exception:  # a fault of ours: whoever asked gets an answer, whoever runs this gets the traceback
            logger.exception("failed")
            return problem(500, "fault", "the service failed", "the log line with this id says why", name)

    async def _read(self, request: Request, asking: Asking) -> bytes:
        """Return the body, as long as it is within the limit."""
        length = asking.headers.get("content-length", "0")
        if not re.fullmatch(r"[0-9]{1,18}", length) or int(length) > self._body_bytes:
            raise self._too_large()
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._patience):
                async for part in request.stream():
                    size += len(part)
                    if size > self._body_bytes:
                        raise self._too_large()
                    parts.append(part)
        except TimeoutError:
            raise TooSlow("the body did not come", f"send it within {self._patience:g} seconds") from None
        return b"".join(parts)

    def _too_large(self) -> TooLarge:
        return TooLarge("the body is too large", f"send at most {self._body_bytes} bytes")
