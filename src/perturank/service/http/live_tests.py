"""Endpoints of live tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import anyio.to_thread
import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from perturank.service.http.decoding import decode, decoded_rank, is_binary, offload, read_body, respond
from perturank.service.http.rank import ListEndpoints, ranked_list
from perturank.service.log import live_tests, verdicts
from perturank.service.log.refusals import Refused
from perturank.service.log.spec import Spec
from perturank.service.serving.live_tests import ArmQuery, Candidates, LiveTesting
from perturank.service.serving.models import LoadedModel, LoadedTest
from perturank.service.serving.service import Pages, Service
from perturank.wire.answers import Given, Skipped
from perturank.wire.live_tests import LiveTest, LiveTests, LiveTestStanding, Promote
from perturank.wire.requests import Document, ListFeedback, Rank, RawRank

run = anyio.to_thread.run_sync


class LiveTestEndpoints:
    """Begin, watch and stop tests; rank and feedback through them; promote a winner."""

    def __init__(self, service: Service, lists: ListEndpoints) -> None:
        self._service, self._lists = service, lists
        self._tests = LiveTesting(service)

    async def list_tests(self, request: Request) -> Response:
        """Answer with all tests."""
        names = sorted(self._service.models.tests)
        return respond(request, LiveTests(tests=[await run(self._told, name) for name in names]))

    async def get(self, request: Request) -> Response:
        """Answer with one test."""
        return respond(request, await run(self._told, request.path_params["test"]))

    async def put(self, request: Request) -> Response:
        """Begin or change a test."""
        name, wanted = request.path_params["test"], await decode(request, LiveTest)
        anew = await run(self._tests.put, name, wanted)
        return respond(request, await run(self._told, name), 201 if anew else 200)

    async def stop(self, request: Request) -> Response:
        """Stop a test."""
        name = request.path_params["test"]
        await run(self._tests.stop, name)
        return respond(request, await run(self._told, name))

    async def promote(self, request: Request) -> Response:
        """Promote the winner, or the arm that the request names."""
        asks = await decode(request, Promote)
        return respond(request, await run(self._tests.promote, request.path_params["test"], asks.arm))

    def _told(self, name: str) -> LiveTestStanding:
        log, test = self._service.log, self._tests.find(name).name
        return verdicts.told(log, test, live_tests.required(log, test))

    async def feedback(self, request: Request) -> Response:
        """Record clicks and other events; answered when they are durable."""
        said, test = await decode(request, ListFeedback), await self._find(request)
        status = await asyncio.wrap_future(self._tests.feedback(test.name, said))
        return respond(request, Given(status))

    async def rank(self, request: Request) -> Response:
        """Answer with a list of the arms."""
        body = await read_body(request)
        asks, skipped = await offload(body, partial(decoded_rank, body, is_binary(request)))
        if asks.mode == "shadow":
            raise Refused("mode is shadow", "make the caller's own order an arm of the test: own")
        if asks.query_id is not None:
            raise Refused(
                "query_id is given", "lists of a live test have none: send their clicks to its feedback route"
            )
        test = await self._find(request)
        pages = await self._pages(test, asks.continues)
        may_read = pages is not None or any("@" in arm for arm in test.spec.arms)  # a version, from the log
        arms = await run(self._tests.arms, test, pages) if may_read else self._tests.arms(test)
        candidates, more = await offload(body, partial(self._candidates, asks, arms))
        candidates = candidates if pages is None else _without(candidates, pages.ids)
        self._note(asks.query, candidates)
        is_own = pages is not None and pages.last.mode == "own"  # the order goes on as it began
        fallback = is_own or self._tests.wants_program(candidates)
        future = self._tests.rank(
            test,
            candidates,
            top=asks.top,
            mode=asks.mode,
            source=asks.source,
            draw=asks.draw,
            fallback=fallback,
            pages=pages,
        )
        return respond(request, ranked_list(await asyncio.wrap_future(future), [*skipped, *more]))

    async def _find(self, request: Request) -> LoadedTest:
        """Return the test; one that is not loaded is looked for in the log."""
        name: str = request.path_params["test"]
        known = self._service.models.tests.get(name)
        return await run(self._tests.find, name) if known is None else known

    def _note(self, query: str | None, candidates: Candidates) -> None:
        """Remember the query among those of the first model, to be explained."""
        for arm in candidates.arms:
            if arm.loaded is not None and arm.features is not None:
                recent, ids = self._service.models.recent, candidates.ids
                recent.note(arm.loaded.name, query, ids, arm.features, candidates.prior)
                return

    async def _pages(self, test: LoadedTest, continues: str | None) -> Pages | None:
        if continues is None:
            return None
        return await asyncio.wrap_future(self._service.pages(live_tests.stream(test.name), continues))

    def _candidates(self, asks: Rank | RawRank, arms: Sequence[LoadedModel | None]) -> tuple[Candidates, list[Skipped]]:
        """Return the documents as every arm reads them, with the features that its model has, and those skipped."""
        specs = {loaded.spec.reading: loaded.spec for loaded in arms if loaded is not None}
        names = {feature.name for spec in specs.values() for feature in spec.features or ()}
        skipped: list[Skipped] = []
        for spec in specs.values() if asks.on_error == "skip" else ():
            kept, bad = self._lists.readable(spec, _narrowed(asks, spec, names))
            ids = {each.id for each in bad}
            skipped += bad
            asks = _only(asks, [name for name in _ids(kept) if name not in ids])
        read: dict[object, np.ndarray] = {}
        prior = None
        for key, spec in specs.items():
            _, read[key], prior = self._lists.read(spec, _narrowed(asks, spec, names))
        queries = [ArmQuery(each, None if each is None else read[each.spec.reading]) for each in arms]
        return Candidates(_ids(asks), prior, queries), skipped


def _ids(asks: Rank | RawRank) -> list[str]:
    return asks.ids if isinstance(asks, RawRank) else [each.id for each in asks.documents]


def _narrowed(asks: Rank | RawRank, spec: Spec, names: set[str]) -> Rank | RawRank:
    """Return the request without named features that only other arms have."""
    own = {feature.name for feature in spec.features or ()}
    if isinstance(asks, RawRank) or not names - own:
        return asks
    return msgspec.structs.replace(asks, documents=[_with_features(each, own, names) for each in asks.documents])


def _with_features(document: Document, own: set[str], names: set[str]) -> Document:
    if not isinstance(document.features, dict):
        return document
    kept = {name: value for name, value in document.features.items() if name in own or name not in names}
    return msgspec.structs.replace(document, features=kept)


def _only(asks: Rank | RawRank, ids: Sequence[str]) -> Rank | RawRank:
    """Return the request with these of its documents."""
    wanted = set(ids)
    if isinstance(asks, Rank):
        return msgspec.structs.replace(asks, documents=[each for each in asks.documents if each.id in wanted])
    rows = [i for i, name in enumerate(asks.ids) if name in wanted]
    width = len(asks.features) // max(len(asks.ids), 1)
    features = b"".join(asks.features[i * width : (i + 1) * width] for i in rows)
    prior = None if asks.prior is None else b"".join(asks.prior[4 * i : 4 * i + 4] for i in rows)
    return msgspec.structs.replace(asks, ids=[asks.ids[i] for i in rows], features=features, prior=prior)


def _without(candidates: Candidates, shown: frozenset[str]) -> Candidates:
    """Return the documents without those of earlier pages."""
    left = [row for row, document in enumerate(candidates.ids) if document not in shown]
    if not left:
        raise Refused("every document was shown on an earlier page", "send the documents of the whole list")
    prior = None if candidates.prior is None else candidates.prior[left]
    arrays = {id(arm.features): arm.features[left] for arm in candidates.arms if arm.features is not None}
    arms = [ArmQuery(arm.loaded, arrays.get(id(arm.features))) for arm in candidates.arms]
    return Candidates([candidates.ids[row] for row in left], prior, arms)
