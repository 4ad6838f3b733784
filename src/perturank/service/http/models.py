"""Endpoints of administration: models, their versions, their files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from perturank.counterfactual import REWARDS
from perturank.exports import formats
from perturank.service.http.decoding import FILE, decode, query_number, read_body, respond
from perturank.service.http.request import find_model
from perturank.service.log import generations, snapshots
from perturank.service.log.generations import Generation
from perturank.service.log.refusals import Refused
from perturank.service.serving.evaluations import Asked
from perturank.service.serving.models import LoadedModel
from perturank.service.serving.service import Service
from perturank.wire import answers
from perturank.wire.requests import Erase, Pin, Restore
from perturank.wire.specification import MOST_PLACES, SpecRequest

run = anyio.to_thread.run_sync
PAGE_SIZE = 100  # versions, by default
PLACES, POSITIONS = range(1, MOST_PLACES + 1), range(2**53)


class ModelEndpoints:
    """Models, versions, files."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def list_models(self, request: Request) -> Response:
        """Answer with all models."""
        return respond(request, answers.Models(models=[described(loaded) for loaded in self._service.models.all()]))

    async def get(self, request: Request) -> Response:
        """Answer with one model."""
        return respond(request, described(await find_model(self._service, request.path_params["model"])))

    async def put(self, request: Request) -> Response:
        """Make or change a model."""
        name, wanted = request.path_params["model"], await decode(request, SpecRequest)
        return await self._changed(request, partial(self._service.put, name, wanted))

    async def patch(self, request: Request) -> Response:
        """Change the fields of a model that a merge patch names."""
        name, wanted = request.path_params["model"], await decode(request, dict[str, Any])
        await find_model(self._service, name)
        return await self._changed(request, partial(self._service.patch, name, wanted))

    async def _changed(self, request: Request, change: Callable[..., bool]) -> Response:
        name, begin_anew = request.path_params["model"], _flag(request, "begin_anew", default=False)
        in_use = {len(each.ids) for each in self._service.models.recent.of(name)}
        anew = await run(partial(change, begin_anew=begin_anew, in_use=in_use))
        return respond(request, described(self._service.models.get(name)), 201 if anew else 200)

    async def generations(self, request: Request) -> Response:
        """Answer with the model's generations, newest first."""
        loaded = await find_model(self._service, request.path_params["model"])
        found = await run(generations.generations, self._service.log, loaded.name)
        about = [_generation(each) for each in reversed(found)]
        return respond(request, answers.Generations(present=loaded.generation, generations=about))

    async def restore(self, request: Request) -> Response:
        """Let learning go on from an earlier generation."""
        name, asks = request.path_params["model"], await decode(request, Restore)
        await run(self._service.restore, name, asks.generation)
        return respond(request, described(self._service.models.get(name)), 202)

    async def delete(self, request: Request) -> Response:
        """Delete a model."""
        await run(self._service.delete, request.path_params["model"])
        return Response(status_code=204)

    async def versions(self, request: Request) -> Response:
        """Answer with the model's versions, newest first: at most `limit`, and only those `before` a number."""
        loaded = await find_model(self._service, request.path_params["model"])
        n = query_number(request, "limit", snapshots.PAGE_SIZES) or PAGE_SIZE
        before = query_number(request, "before", snapshots.NUMBERS)
        found = await run(generations.versions_before, self._service.log, loaded.name, loaded.generation, n, before)
        stored = set(await run(snapshots.versions, self._service.log, loaded.name))
        about = [
            answers.Version(
                version=each.snapshot.version,
                learned=each.snapshot.learned,
                at=each.at,
                digest=each.snapshot.digest.hex(),
                stored=each.snapshot.version in stored,
            )
            for each in found
        ]
        return respond(request, answers.Versions(served=loaded.version, pinned=loaded.pinned, versions=about))

    async def pin(self, request: Request) -> Response:
        """Serve one version whatever is learned."""
        name, asks = request.path_params["model"], await decode(request, Pin)
        await run(self._service.pin, name, asks.version)
        return respond(request, described(self._service.models.get(name)))

    async def unpin(self, request: Request) -> Response:
        """Serve the newest version again."""
        name = request.path_params["model"]
        await run(self._service.pin, name, None)
        return respond(request, described(self._service.models.get(name)))

    async def roll_back(self, request: Request) -> Response:
        """Let learning go on from an earlier version."""
        name, asks = request.path_params["model"], await decode(request, Pin)
        await run(self._service.roll_back, name, asks.version)
        return respond(request, answers.Accepted(status="accepted"), 202)

    async def file(self, request: Request) -> Response:
        """Answer with the served version as a file for `perturank.load`; `?history=false`: only to rank with."""
        loaded = await find_model(self._service, request.path_params["model"])
        history = _flag(request, "history", default=True)
        content = await run(partial(self._service.file, loaded.name, history=history))
        return Response(content, media_type=FILE)

    async def export(self, request: Request) -> Response:
        """Answer with a version in the format of another system."""
        loaded = await find_model(self._service, request.path_params["model"])
        format, name, prior = (request.query_params.get(each) or None for each in ("format", "name", "prior"))
        if format is None:
            raise Refused("no format is said", f"say one behind the question mark: {', '.join(formats())}")
        version = query_number(request, "version", snapshots.NUMBERS)
        made = await run(partial(self._service.export, loaded.name, format, version=version, name=name, prior=prior))
        return Response(made.document, media_type=made.format.media_type)

    async def evaluate(self, request: Request) -> Response:
        """Answer with what another ranker would have earned on the model's traffic."""
        loaded = await find_model(self._service, request.path_params["model"])
        said = request.query_params
        places, after = query_number(request, "places", PLACES), query_number(request, "after", POSITIONS)
        asked = Asked.of(loaded.name, said.get("against"), said.get("reward", REWARDS[0]), places, after or 0)
        return respond(request, await run(self._service.evaluations.make, asked))

    async def import_file(self, request: Request) -> Response:
        """Let learning go on from a file that `perturank.save` wrote."""
        content = await read_body(request, self._service.settings.file_bytes)
        await run(self._service.import_file, request.path_params["model"], content)
        return respond(request, answers.Accepted(status="accepted"), 202)

    async def erase(self, request: Request) -> Response:
        """Take everything of a source out of the log, and out of the model too if that is asked for."""
        loaded = await find_model(self._service, request.path_params["model"])
        asks = await decode(request, Erase)
        position = await run(partial(self._service.erase, loaded.name, asks.source, unlearn=asks.unlearn))
        return respond(request, answers.Erasing(status="accepted", position=position), 202)


def _flag(request: Request, name: str, *, default: bool) -> bool:
    """Return whether something is said behind the question mark."""
    text = request.query_params.get(name, str(default).lower())
    if text not in ("true", "false"):
        raise Refused(f"{name} is {text[:40]!r}", "say true or false")
    return text == "true"


def described(loaded: LoadedModel) -> answers.Described:
    """Return a model as JSON values."""
    now = loaded.unlearning
    return answers.Described(
        model=loaded.name,
        version=loaded.version,
        learned=loaded.n_learned,
        pinned=loaded.pinned,
        generation=loaded.generation,
        spec=loaded.spec.owned(),
        unlearning=None if now is None else answers.Unlearning(position=now.position, learned=now.learned),
    )


def _generation(about: Generation) -> answers.Generation:
    last = about.last
    return answers.Generation(
        generation=about.generation,
        since=about.since,
        spec=about.spec.owned(),
        versions=about.n_versions,
        version=None if last is None else last.snapshot.version,
        learned=0 if last is None else last.snapshot.learned,
        restorable=not about.refusal,
        refusal=about.refusal or None,
    )
