"""Endpoints that administer: models, their versions, their files."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perturank.service import snapshots
from perturank.service.api.finding import hosted
from perturank.service.api.forms import answered, asked
from perturank.service.api.requests import Erase, Pin
from perturank.service.hosting import Hosted
from perturank.service.recent import Recent
from perturank.service.refusals import Refused
from perturank.service.service import Service
from perturank.service.spec import Spec

run = anyio.to_thread.run_sync
FILE = "application/vnd.safetensors"


class Models:
    """Models, versions, files."""

    def __init__(self, service: Service, recent: Recent) -> None:
        self._service, self._recent = service, recent

    async def listed(self, request: Request) -> Response:
        """Answer with all models."""
        return answered(request, {"models": [described(held) for held in self._service.host.all()]})

    async def get(self, request: Request) -> Response:
        """Answer with one model."""
        return answered(request, described(await hosted(self._service, request.path_params["model"])))

    async def put(self, request: Request) -> Response:
        """Make or change a model."""
        name, spec = request.path_params["model"], asked(request, Spec)
        anew = await run(self._service.put, name, spec)
        return answered(request, described(self._service.host.get(name)), 201 if anew else 200)

    async def delete(self, request: Request) -> Response:
        """Delete a model."""
        await run(self._service.delete, request.path_params["model"])
        self._recent.forget(request.path_params["model"])
        return Response(status_code=204)

    async def versions(self, request: Request) -> Response:
        """Answer with the model's versions, newest first."""
        held = await hosted(self._service, request.path_params["model"])
        stored = set(await run(snapshots.versions, self._service.log, held.name))
        about = [
            {
                "version": version,
                "learned": published.learned,
                "at": held.published_at[version],
                "digest": published.digest.hex(),
                "stored": version in stored,
            }
            for version, published in sorted(held.published.items(), reverse=True)
        ]
        return answered(request, {"served": held.version, "pinned": held.pinned, "versions": about})

    async def pin(self, request: Request) -> Response:
        """Serve one version whatever is learned."""
        name, asks = request.path_params["model"], asked(request, Pin)
        await run(self._service.pin, name, asks.version)
        return answered(request, described(self._service.host.get(name)))

    async def unpin(self, request: Request) -> Response:
        """Serve the newest version again."""
        name = request.path_params["model"]
        await run(self._service.pin, name, None)
        return answered(request, described(self._service.host.get(name)))

    async def roll_back(self, request: Request) -> Response:
        """Let learning go on from an earlier version."""
        name, asks = request.path_params["model"], asked(request, Pin)
        await run(self._service.roll_back, name, asks.version)
        return answered(request, {"status": "accepted"}, 202)

    async def file(self, request: Request) -> Response:
        """Answer with the served version as a file for `perturank.load`; `?history=false`: only to rank with."""
        held = await hosted(self._service, request.path_params["model"])
        history = request.query_params.get("history", "true")
        if history not in ("true", "false"):
            raise Refused(f"history is {history[:40]!r}", "say true or false")
        content = await run(partial(self._service.file, held.name, history=history == "true"))
        return Response(content, media_type=FILE)

    async def bring(self, request: Request) -> Response:
        """Let learning go on from a file that `perturank.save` wrote."""
        await run(self._service.bring, request.path_params["model"], request.state.body)
        return answered(request, {"status": "accepted"}, 202)

    async def erase(self, request: Request) -> Response:
        """Take everything of a source out of the log."""
        held = await hosted(self._service, request.path_params["model"])
        position = await run(self._service.erase, held.name, asked(request, Erase).source)
        self._recent.forget(held.name)  # nobody remembers whose queries they were
        return answered(request, {"status": "accepted", "position": position}, 202)


def described(held: Hosted) -> dict[str, Any]:
    """Return a model as JSON values."""
    return {
        "model": held.name,
        "version": held.version,
        "learned": held.published[held.version].learned if held.version in held.published else 0,
        "pinned": held.pinned,
        "generation": held.generation,
        "spec": msgspec.to_builtins(held.spec),
    }
