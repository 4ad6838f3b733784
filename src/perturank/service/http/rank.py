"""Endpoints of lists: rank, feedback, explain."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from perturank.service.http.decoding import (
    check_width,
    decode,
    decoded,
    decoded_rank,
    is_binary,
    of_bytes,
    of_documents,
    offload,
    read_body,
    respond,
    without_bad,
)
from perturank.service.http.request import find_model
from perturank.service.log.records import Impression, Record, probability, unpacked
from perturank.service.log.refusals import Forbidden, NotKnown, Refused, TooLarge
from perturank.service.log.spec import Spec
from perturank.service.serving.explain import drawn, explained, explored
from perturank.service.serving.models import LoadedModel
from perturank.service.serving.sampling import padded_length, sample_list
from perturank.service.serving.service import Pages, ServedList, Service
from perturank.service.telemetry.prometheus import Metrics
from perturank.wire.answers import Given, GivenBatch, Outcome, Ranked, RankedList, RankedLists, Skipped
from perturank.wire.requests import Explain, FeedbackBatch, ListFeedback, Rank, RankBatch, RawRank
from perturank.wire.specification import SpecRequest

MOST_COMPILING = 2  # lists at a time; the others then find the program compiled


class Parsed(NamedTuple):
    """A rank request for a model: its documents as arrays, and those that could not be read."""

    loaded: LoadedModel
    asks: Rank | RawRank
    ids: list[str]
    features: np.ndarray
    prior: np.ndarray | None
    skipped: list[Skipped]
    pages: Pages | None = None  # shown before


class ListEndpoints:
    """Rank, feedback, explain."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self._service, self._metrics, self._recent = service, metrics, service.models.recent
        # Simulations wait for the compiler, in threads of their own: the common ones are needed to read the log.
        self._compiling = anyio.CapacityLimiter(MOST_COMPILING)

    async def rank(self, request: Request) -> Response:
        """Answer with a list to show."""
        body = await read_body(request)
        asks, skipped = await offload(body, partial(decoded_rank, body, is_binary(request)))
        loaded = await find_model(self._service, request.path_params["model"], partial(self._wanted, [asks]))
        parsed = await offload(body, partial(self._parsed, loaded, asks))
        return respond(request, await self._ranked(parsed._replace(skipped=[*skipped, *parsed.skipped])))

    async def rank_batch(self, request: Request) -> Response:
        """Answer with several lists."""
        body = await read_body(request)
        asks = await offload(body, partial(decoded, body, RankBatch, is_binary(request)))
        batch: list[Rank] = self._within(asks.requests)
        loaded = await find_model(self._service, request.path_params["model"], partial(self._wanted, batch))
        parsed = await offload(body, lambda: [self._parsed(loaded, each) for each in batch])  # all, before one is drawn
        drawing = []
        for each in parsed:
            drawing.append(asyncio.ensure_future(self._ranked(each)))
            await asyncio.sleep(0)  # other requests are answered between two lists
        return respond(request, RankedLists(await asyncio.gather(*drawing)))

    async def feedback(self, request: Request) -> Response:
        """Record clicks and other events; answered when they are durable."""
        said = await decode(request, ListFeedback)
        return respond(request, await self._given(request.path_params["model"], said))

    async def feedback_batch(self, request: Request) -> Response:
        """Record clicks and other events of several lists; what is refused does not stop the rest."""
        batch = self._within((await decode(request, FeedbackBatch)).requests)
        model = request.path_params["model"]
        results = await asyncio.gather(*[self._given(model, said) for said in batch], return_exceptions=True)
        return respond(request, GivenBatch(answers=[_outcome(result) for result in results]))

    async def explain(self, request: Request) -> Response:
        """Say why each document stands where the best estimate has it."""
        return await self._explained(request, await decode(request, Explain))

    async def explain_shown(self, request: Request) -> Response:
        """Say why each document of a logged list stood where it did, or explain one of the last queries."""
        impression, recent = (request.query_params.get(name) for name in ("impression", "recent"))
        if recent is not None and impression is None:
            if not re.fullmatch(r"[0-9]{1,15}", recent):
                raise Refused(f"recent is {recent[:40]!r}", "say the number of a query")
            return await self._explained(request, Explain(recent=int(recent)))
        if impression is None or recent is not None:
            remedy = "ask with ?impression=ID or ?recent=NUMBER; documents are sent here with POST"
            raise Refused("the request does not say what to explain", remedy)
        loaded = await find_model(self._service, request.path_params["model"])
        record = await asyncio.wrap_future(self._service.shown(loaded.name, impression))
        found = await anyio.to_thread.run_sync(self._explained_record, loaded, record)
        about = {"model": loaded.name, "version": loaded.version, **found, "draws": None}
        return respond(request, about | {"shown": _about(record, impression)})

    async def _explained(self, request: Request, asks: Explain) -> Response:
        loaded = await find_model(self._service, request.path_params["model"])
        if asks.recent is not None and not request.state.is_admin:  # recent queries are queries of others
            raise Forbidden("recent is given", "use a key with the scope 'admin' for this model")

        def explain() -> dict[str, Any]:
            ids, features, prior = self._to_explain(loaded, asks)
            found = explained(loaded.ranker, ids, features, prior, loaded.spec.exploration, loaded.spec.places)
            draw = partial(sample_list, loaded.program, features, prior, loaded.spec.places)
            return found | {"draws": drawn(draw, ids, asks.draws) if asks.draws else None}

        found = await anyio.to_thread.run_sync(explain)
        return respond(request, {"model": loaded.name, "version": loaded.version} | found)

    def _to_explain(self, loaded: LoadedModel, asks: Explain) -> tuple[list[str], np.ndarray, np.ndarray | None]:
        """Return the documents of the request, or of the recent query that it names."""
        if asks.recent is None:
            documents = of_documents(asks.documents, loaded.spec, self._service.settings.max_documents)
            return [each.id for each in asks.documents], *documents
        one = self._recent.get(loaded.name, asks.recent)
        check_width(one.features, loaded.spec)
        return one.ids, one.features, one.prior

    def _explained_record(self, loaded: LoadedModel, record: Record) -> dict[str, Any]:
        shown = record.entry
        assert isinstance(shown, Impression)
        if shown.generation != loaded.generation:
            raise NotKnown("the list was shown before the model began anew", "its features may mean other things now")
        features, prior, _ = unpacked(shown.packed, None)
        features = self._service.features_then(loaded.name, record, features)
        order = range(len(shown.ids))
        found = explained(loaded.ranker, shown.ids, features, prior, loaded.spec.exploration, order=order)
        always = self._service.always_explores(loaded.name, loaded.generation)
        for about, chance in zip(found["ranking"], explored(shown, always=always), strict=True):
            about["explored"] = chance
        return found

    def _wanted(self, batch: Sequence[Rank | RawRank]) -> SpecRequest | None:
        """Return the spec of a model that could answer all of these; None: the number of features is not known."""
        n_features = _n_features(batch[0]) if batch else None
        if n_features is None:
            return None
        for asks in batch:
            spec = Spec(n_features=n_features, scaling="auto")
            self._read(spec, self._readable(spec, asks)[0])  # refuses what the model would
        return SpecRequest(n_features=n_features)

    def _parsed(self, loaded: LoadedModel, given: Rank | RawRank) -> Parsed:
        asks, skipped = self._readable(loaded.spec, given)
        return Parsed(loaded, asks, *self._read(loaded.spec, asks), skipped)

    def _readable(self, spec: Spec, asks: Rank | RawRank) -> tuple[Rank | RawRank, list[Skipped]]:
        """Return the request without the documents that are to be skipped, and these."""
        if asks.on_error == "refuse":
            return asks, []
        return without_bad(asks, partial(self._read, spec))

    def _read(self, spec: Spec, asks: Rank | RawRank) -> tuple[list[str], np.ndarray, np.ndarray | None]:
        most = self._service.settings.max_documents
        if isinstance(asks, RawRank):
            ids = asks.ids
            features, prior = of_bytes(ids, asks.features, asks.prior, spec, most)
        else:
            ids = [each.id for each in asks.documents]
            features, prior = of_documents(asks.documents, spec, most)
        if asks.top is not None and asks.top > spec.places:
            remedy = f"the model's lists have {spec.places} places; `places` of its PUT says how many"
            raise Refused(f"top is {asks.top}", remedy)
        if asks.draw is not None and spec.chance != "seeded":
            raise Refused("draw is given", "only a model with chance: seeded takes it")
        return ids, features, prior

    async def _ranked(self, parsed: Parsed) -> RankedList:
        if parsed.asks.continues is not None:
            parsed = await self._next_page(parsed, parsed.asks.continues)
        self._recent.note(parsed.loaded.name, parsed.asks.query, parsed.ids, parsed.features, parsed.prior)
        shown = await self._drawn(parsed)
        documents = [Ranked(id_, sure) for id_, sure in zip(shown.ids, shown.certain, strict=True)]
        return RankedList(shown.impression, documents, shown.propensity, shown.version, shown.fallback, parsed.skipped)

    async def _next_page(self, parsed: Parsed, impression: str) -> Parsed:
        """Return the request without the documents of earlier pages, for the version that drew them if it is stored."""
        loaded, prior = parsed.loaded, parsed.prior
        pages = await asyncio.wrap_future(self._service.pages(loaded.name, impression))
        left = [row for row, document in enumerate(parsed.ids) if document not in pages.ids]
        if not left:
            raise Refused("every document was shown on an earlier page", "send the documents of the whole list")
        last = pages.last
        if last.generation == loaded.generation and last.version != loaded.version:
            loaded = await anyio.to_thread.run_sync(self._service.models.at_version, loaded, last.version)
        ids = [parsed.ids[row] for row in left]
        prior = None if prior is None else prior[left]
        return parsed._replace(loaded=loaded, ids=ids, features=parsed.features[left], prior=prior, pages=pages)

    async def _drawn(self, parsed: Parsed) -> ServedList:
        loaded, asks, ids, features, prior, _, pages = parsed
        draw = partial(
            self._service.rank,
            loaded,
            ids,
            features,
            prior,
            top=asks.top,
            mode=asks.mode,
            source=asks.source,
            draw=asks.draw,
            pages=pages,
            query=asks.query,
        )
        length = padded_length(len(ids), loaded.spec.places)
        if pages is not None and pages.last.mode == "own":  # the order goes on as it began
            return await asyncio.wrap_future(draw(fallback=True))
        if self._service.models.is_compiled(loaded, length):  # takes a millisecond: not worth another thread
            return await asyncio.wrap_future(draw())
        if loaded.spec.chance != "seeded":
            self._service.models.want(loaded, length)
            return await asyncio.wrap_future(draw(fallback=True))
        future = await anyio.to_thread.run_sync(draw, limiter=self._compiling)
        self._service.models.note_compiled(loaded, length)
        return await asyncio.wrap_future(future)

    async def _given(self, model: str, said: ListFeedback) -> Given:
        await find_model(self._service, model)
        status = await asyncio.wrap_future(self._service.feedback(model, said))
        self._metrics.note_feedback(model, status)
        return Given(status)

    def _within(self, batch: list[Any]) -> list[Any]:
        if len(batch) > self._service.settings.max_batch:
            raise TooLarge(f"the batch has {len(batch)} requests", f"send at most {self._service.settings.max_batch}")
        return batch


def _n_features(asks: Rank | RawRank) -> int | None:
    """Return the number of features of the first document; None: it is not known."""
    if isinstance(asks, RawRank):
        return len(asks.features) // (4 * len(asks.ids)) or None if asks.ids else None
    first = asks.documents[0].features if asks.documents else None
    return len(first) if isinstance(first, list) and first else None


def _about(record: Record, impression: str) -> dict[str, Any]:
    """Return the logged facts about a list, without its documents."""
    shown = record.entry
    assert isinstance(shown, Impression)
    return {
        "impression": impression,
        "at": record.at,
        "version": shown.version,
        "mode": shown.mode,
        "propensity": None if shown.log_propensity is None else probability(shown.log_propensity),
    }


def _outcome(result: Given | BaseException) -> Outcome:
    if isinstance(result, Given):
        return {"status": result.status}
    if isinstance(result, Refused):
        return {"status": result.status, "type": f"urn:perturank:{result.kind}", "title": result.what}
    raise result
