"""Endpoints that administer: models, their versions, their files."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio.to_thread
import msgspec
from starlette.responses import Response

from perturank.service import snapshots, versions
from perturank.service.api.asking import Asking
from perturank.service.api.finding import hosted
from perturank.service.api.forms import FILE, answered, asked
from perturank.service.api.requests import Erase, Pin
from perturank.service.hosting import Hosted
from perturank.service.refusals import Refused
from perturank.service.service import Service
from perturank.service.spec import SpecRequest
from perturank.service.telemetry.recent import Recent

run = anyio.to_thread.run_sync
LISTED = 100  # versions, unless told otherwise


class Models:
    """Models, versions, files."""

    def __init__(self, service: Service, recent: Recent) -> None:
        self._service, self._recent = service, recent

    async def listed(self, asking: Asking) -> Response:
        """Answer with all models."""
        return answered(asking, {"models": [described(held) for held in self._service.host.all()]})

    async def get(self, asking: Asking) -> Response:
        """Answer with one model."""
        return answered(asking, described(await hosted(self._service, asking.path_params["model"])))

    async def put(self, asking: Asking) -> Response:
        """Make or change a model."""
        name, request = asking.path_params["model"], asked(asking, SpecRequest)
        in_use = {len(each.ids) for each in self._recent.of(name)}
        anew = await run(partial(self._service.put, name, request, in_use=in_use))
        return answered(asking, described(self._service.host.get(name)), 201 if anew else 200)

    async def delete(self, asking: Asking) -> Response:
        """Delete a model."""
        await run(self._service.delete, asking.path_params["model"])
        return Response(status_code=204)

    async def versions(self, asking: Asking) -> Response:
        """Answer with the model's versions, newest first: at most `limit`, and only those `before` a number."""
        held = await hosted(self._service, asking.path_params["model"])
        limit, before = _number(asking, "limit", versions.LISTED), _number(asking, "before", versions.NUMBERS)
        n = limit or LISTED
        found = await run(versions.listed, self._service.log, held.name, held.generation, n, before)
        stored = set(await run(snapshots.versions, self._service.log, held.name))
        about = [
            {
                "version": each.snapshot.version,
                "learned": each.snapshot.learned,
                "at": each.at,
                "digest": each.snapshot.digest.hex(),
                "stored": each.snapshot.version in stored,
            }
            for each in found
        ]
        return answered(asking, {"served": held.version, "pinned": held.pinned, "versions": about})

    async def pin(self, asking: Asking) -> Response:
        """Serve one version whatever is learned."""
        name, asks = asking.path_params["model"], asked(asking, Pin)
        await run(self._service.pin, name, asks.version)
        return answered(asking, described(self._service.host.get(name)))

    async def unpin(self, asking: Asking) -> Response:
        """Serve the newest version again."""
        name = asking.path_params["model"]
        await run(self._service.pin, name, None)
        return answered(asking, described(self._service.host.get(name)))

    async def roll_back(self, asking: Asking) -> Response:
        """Let learning go on from an earlier version."""
        name, asks = asking.path_params["model"], asked(asking, Pin)
        await run(self._service.roll_back, name, asks.version)
        return answered(asking, {"status": "accepted"}, 202)

    async def file(self, asking: Asking) -> Response:
        """Answer with the served version as a file for `perturank.load`; `?history=false`: only to rank with."""
        held = await hosted(self._service, asking.path_params["model"])
        history = asking.query_params.get("history", "true")
        if history not in ("true", "false"):
            raise Refused(f"history is {history[:40]!r}", "say true or false")
        content = await run(partial(self._service.file, held.name, history=history == "true"))
        return Response(content, media_type=FILE)

    async def bring(self, asking: Asking) -> Response:
        """Let learning go on from a file that `perturank.save` wrote."""
        await run(self._service.bring, asking.path_params["model"], asking.body)
        return answered(asking, {"status": "accepted"}, 202)

    async def erase(self, asking: Asking) -> Response:
        """Take everything of a source out of the log."""
        held = await hosted(self._service, asking.path_params["model"])
        position = await run(self._service.erase, held.name, asked(asking, Erase).source)
        return answered(asking, {"status": "accepted", "position": position}, 202)


def _number(asking: Asking, name: str, within: range) -> int | None:
    """Return a number behind the question mark; None: it is not there."""
    text = asking.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) in within):
        raise Refused(f"{name} is {text[:40]!r}", f"say a number from {within[0]} to {within[-1]}")
    return int(text)


def described(held: Hosted) -> dict[str, Any]:
    """Return a model as JSON values."""
    return {
        "model": held.name,
        "version": held.version,
        "learned": held.published[held.version].learned if held.version in held.published else 0,
        "pinned": held.pinned,
        "generation": held.generation,
        "spec": msgspec.to_builtins(held.spec.complete()),
    }
