"""Everything that can be asked of the service, each request written once: either client answers it.

What blocks returns the T of `Call[T]`, what is awaited gives it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from ..errors import BadInput
from ..wire.answers import (
    Accepted,
    Alive,
    Described,
    Erasing,
    Explained,
    Generations,
    Models,
    Outcome,
    Readiness,
    Status,
    UbiOutcome,
    Versions,
)
from ..wire.live_tests import Learns, LiveTest, LiveTests, LiveTestStanding, Method, Promote, Promoted
from ..wire.requests import (
    Document,
    Erase,
    Event,
    Explain,
    FeedbackBatch,
    ListFeedback,
    OnError,
    Pin,
    Rank,
    RankBatch,
    RawRank,
    Restore,
)
from ..wire.specification import Chance, Exploration, Feature, Mode, OnDrift, Scaling, Ubi
from .calls import NOT_NOW, Call, of_model, of_test
from .lists import Documents, Events, FeedbackRequest, RankRequest, ShownList

if TYPE_CHECKING:
    import numpy as np

DEFAULT = "default"
Span = Literal["minutes", "hours"]
P = ParamSpec("P")
T = TypeVar("T")


class Sends(Protocol):
    """A client that blocks."""

    def send(self, call: Call[T]) -> T:
        """Return the answer."""

    def close(self) -> None:
        """Close the connections."""


class SendsLater(Protocol):
    """A client whose answers are awaited."""

    async def send(self, call: Call[T]) -> T:
        """Return the answer."""

    async def close(self) -> None:
        """Close the connections."""


class Operation(Generic[P, T]):
    """A method that says its request, as a `Call[T]`; asked through a client it is the answer T, or one to await."""

    def __init__(self, words: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._words = words

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Call[T]]: ...

    @overload
    def __get__(self, client: SendsLater, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: Sends, owner: type) -> Callable[P, T]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._words
        words = functools.partial(self._words, client)

        def asked(*given: P.args, **named: P.kwargs) -> Any:
            return client.send(words(*given, **named))

        return functools.update_wrapper(asked, self._words.__get__(client, owner))


class Operations:
    """What both clients can do."""

    @Operation
    def rank(
        self,
        documents: Documents,
        *,
        model: str = DEFAULT,
        query: str | None = None,
        top: int | None = None,
        mode: Mode = "learn",
        source: str | None = None,
        draw: int | None = None,
        continues: str | None = None,
        on_error: OnError = "refuse",
        query_id: str | None = None,
        test: str | None = None,
    ) -> Call[ShownList]:
        """Return the list to show.

        `query` is for the dashboard, `top` how many places, `source` the client, user or session for the limits on
        its influence and for `erase`; `draw` numbers the lists of a model whose chance is seeded. `continues` is the
        impression of the page before. With `on_error="skip"` documents that cannot be read are left out. `query_id` is
        your own name for the query: UBI events refer to it. With `test` the arms of this live test rank in place of the
        model; then `feedback` is sent with the same.
        """
        body = _rank(RankRequest(documents, query, top, mode, source, draw, continues, on_error, query_id))
        return Call("POST", _path(model, test, "/rank"), ShownList.of, body, harmless=False)

    @Operation
    def rank_arrays(
        self,
        ids: Sequence[str],
        features: np.ndarray,
        prior: np.ndarray | None = None,
        *,
        model: str = DEFAULT,
        query: str | None = None,
        top: int | None = None,
        mode: Mode = "learn",
        source: str | None = None,
        draw: int | None = None,
        continues: str | None = None,
        on_error: OnError = "refuse",
        query_id: str | None = None,
        test: str | None = None,
    ) -> Call[ShownList]:
        """Return the list to show of documents [n, d], sent in the binary form."""
        raw_prior = None if prior is None else _raw(prior)
        asked = query, top, mode, source, draw, continues, on_error, query_id
        body = RawRank(list(ids), _raw(features), raw_prior, *asked)
        return Call("POST", _path(model, test, "/rank"), ShownList.of, body, "msgpack", harmless=False)

    @Operation
    def rank_batch(self, requests: Sequence[RankRequest], *, model: str = DEFAULT) -> Call[list[ShownList]]:
        """Return the lists to show for several queries, in their order; one that is refused refuses all."""
        body = RankBatch([_rank(each) for each in requests])
        return Call("POST", of_model(model, "/rank/batch"), _lists, body, harmless=False)

    @Operation
    def feedback(
        self,
        impression: str,
        clicks: Sequence[str] = (),
        *,
        events: Events = (),
        seen: int | None = None,
        final: bool = False,
        model: str = DEFAULT,
        test: str | None = None,
    ) -> Call[Status]:
        """Return what these clicks and other events did: recorded, known, early or late; answered when it is durable.

        `seen` says how many top places were looked at. Events are learned when they have settled: the model's `settle`
        seconds after the last one, or at once if `final`. `test` is the live test that gave the list, if one did.
        """
        body = _feedback(FeedbackRequest(impression, clicks, events, seen, final))
        return Call("POST", _path(model, test, "/feedback"), lambda answer: answer["status"], body)

    @Operation
    def feedback_batch(self, requests: Sequence[FeedbackRequest], *, model: str = DEFAULT) -> Call[list[Outcome]]:
        """Return what the feedback on several lists did, in their order; what is refused does not stop the rest."""
        body = FeedbackBatch([_feedback(each) for each in requests])
        path = of_model(model, "/feedback/batch")
        return Call("POST", path, lambda answer: answer["answers"], body, is_partial=_some_for_later)

    @Operation
    def ubi_events(self, records: Sequence[Mapping[str, Any]]) -> Call[list[UbiOutcome]]:
        """Return what these UBI events did, in their order; what is refused does not stop the rest.

        The service finds the model by the `application` of each, or by the key.
        """
        return Call("POST", "/ubi_events", lambda answer: answer["answers"], list(records), is_partial=_some_for_later)

    @Operation
    def ubi_queries(self, records: Sequence[Mapping[str, Any]]) -> Call[list[UbiOutcome]]:
        """Return of these UBI queries, in their order, whether there is a list of each."""
        return Call("POST", "/ubi_queries", lambda answer: answer["answers"], list(records))

    @Operation
    def explain(
        self, documents: Documents = (), *, model: str = DEFAULT, recent: int | None = None, draws: int = 0
    ) -> Call[Explained]:
        """Return the best estimate's list with every score, and what is certain about it; nothing is logged.

        `recent` names one of the last queries in place of documents; `draws` lists are drawn to see what chance does.
        """
        body = Explain(cast(list[Document], list(documents)), recent, draws)
        return Call("POST", of_model(model, "/explain"), body=body)

    @Operation
    def explain_impression(self, impression: str, *, model: str = DEFAULT) -> Call[Explained]:
        """Return why a logged list was what it was."""
        return Call("GET", of_model(model, "/explain"), query={"impression": impression})

    @Operation
    def models(self) -> Call[Models]:
        """Return all models."""
        return Call("GET", "/v1/models")

    @Operation
    def model(self, model: str = DEFAULT) -> Call[Described]:
        """Return what is served under this name."""
        return Call("GET", of_model(model))

    @Operation
    def put_model(
        self,
        model: str,
        *,
        n_features: int,
        ranker: str | None = None,
        settings: Mapping[str, Any] | None = None,
        features: Sequence[Feature] | Sequence[Mapping[str, Any]] | None = None,
        places: int | None = None,
        seed: int | None = None,
        window: float | None = None,
        settle: float | None = None,
        actions: Mapping[str, float] | None = None,
        exploration: Exploration | Mapping[str, Any] | None = None,
        cap: int | None = None,
        votes: int | None = None,
        batch: int | None = None,
        chance: Chance | None = None,
        scaling: Scaling | None = None,
        prior_strength: float | None = None,
        ubi: Ubi | Mapping[str, Any] | None = None,
        keep_query: bool | None = None,
        on_drift: OnDrift | None = None,
        candidates: float | None = None,
        begin_anew: bool = False,
    ) -> Call[Described]:
        """Make a model, or replace its specification; `patch_model` changes some fields of it.

        A model that exists keeps the ranker and the settings that are not given; all else that is not given
        is reset to its default. A change under which what was learned could not be kept is refused (409), unless the
        model may `begin_anew`.
        """
        given = {
            "n_features": n_features,
            "ranker": ranker,
            "settings": settings,
            "features": features,
            "places": places,
            "seed": seed,
            "window": window,
            "settle": settle,
            "actions": actions,
            "exploration": exploration,
            "cap": cap,
            "votes": votes,
            "batch": batch,
            "chance": chance,
            "scaling": scaling,
            "prior_strength": prior_strength,
            "ubi": ubi,
            "keep_query": keep_query,
            "on_drift": on_drift,
            "candidates": candidates,
        }
        body = {name: value for name, value in given.items() if value is not None}
        return Call("PUT", of_model(model), body=body, query=_anew(begin_anew), harmless=not begin_anew)

    @Operation
    def patch_model(self, model: str, changes: Mapping[str, Any], *, begin_anew: bool = False) -> Call[Described]:
        """Change these fields of a model, as an RFC 7396 merge patch of its `spec`: None resets a field.

        A change under which what was learned could not be kept is refused (409), unless the model may `begin_anew`.
        """
        body = dict(changes)
        return Call("PATCH", of_model(model), body=body, query=_anew(begin_anew), harmless=not begin_anew)

    @Operation
    def generations(self, model: str = DEFAULT) -> Call[Generations]:
        """Return the generations of a model, newest first: with each, learning began anew."""
        return Call("GET", of_model(model, "/generations"))

    @Operation
    def restore(self, generation: int, *, model: str = DEFAULT) -> Call[Described]:
        """Let serving and learning go on from the last version of an earlier generation."""
        return Call("POST", of_model(model, "/restore"), body=Restore(generation), harmless=False)

    @Operation
    def delete_model(self, model: str) -> Call[None]:
        """Delete a model with everything that was stored for it."""
        return Call("DELETE", of_model(model), harmless=False)  # somebody may have made it again meanwhile

    @Operation
    def versions(self, model: str = DEFAULT, *, limit: int | None = None, before: int | None = None) -> Call[Versions]:
        """Return the versions of a model, newest first: at most `limit`, and only those `before` a number."""
        asked = {"limit": limit, "before": before}
        query = {name: str(value) for name, value in asked.items() if value is not None}
        return Call("GET", of_model(model, "/versions"), query=query)

    @Operation
    def pin(self, version: int, *, model: str = DEFAULT) -> Call[Described]:
        """Serve one version whatever is learned; it may be of an earlier generation."""
        return Call("PUT", of_model(model, "/pin"), body=Pin(version))

    @Operation
    def unpin(self, *, model: str = DEFAULT) -> Call[Described]:
        """Serve the newest version again."""
        return Call("DELETE", of_model(model, "/pin"))

    @Operation
    def roll_back(self, version: int, *, model: str = DEFAULT) -> Call[Accepted]:
        """Let learning go on from an earlier version; what was learned after it is dropped."""
        # Done twice, it drops what was learned in between.
        return Call("POST", of_model(model, "/rollback"), body=Pin(version), harmless=False)

    @Operation
    def file(self, model: str = DEFAULT, *, history: bool = True) -> Call[bytes]:
        """Return the served version as a file for `perturank.load`; without its history it can rank, but not learn."""
        # With its history it is rebuilt, which may take minutes: not for nothing, and not twice.
        query = {"history": str(history).lower()}
        return Call("GET", of_model(model, "/file"), query=query, harmless=not history)

    @Operation
    def evaluate(
        self,
        against: str,
        *,
        model: str = DEFAULT,
        reward: str | None = None,
        places: int | None = None,
        after: int | None = None,
    ) -> Call[dict[str, Any]]:
        """Return what a version, a ranker or the caller's own order would have earned on the model's traffic.

        It takes from seconds to minutes, and the service may answer with what it found some minutes ago.
        """
        given = {"against": against, "reward": reward, "places": places, "after": after}
        query = {name: str(value) for name, value in given.items() if value is not None}
        return Call("GET", of_model(model, "/evaluate"), query=query, harmless=False)

    @Operation
    def put_file(self, content: bytes, *, model: str = DEFAULT) -> Call[Accepted]:
        """Let learning go on from a file of `perturank.save`; what was learned before is dropped."""
        return Call("PUT", of_model(model, "/file"), body=content, form="file", harmless=False)

    @Operation
    def export(
        self,
        format: str,
        *,
        model: str = DEFAULT,
        version: int | None = None,
        name: str | None = None,
        prior: str | None = None,
    ) -> Call[Any]:
        """Return a version in the format of another system: JSON values by the names of its files, or bytes (ONNX).

        `name` is what the model is called there, `prior` the feature that holds the caller's own score.
        """
        asked = {"format": format, "version": version, "name": name, "prior": prior}
        query = {key: str(value) for key, value in asked.items() if value is not None}
        return Call("GET", of_model(model, "/export"), query=query)

    @Operation
    def erase(self, source: str, *, unlearn: bool = False, model: str = DEFAULT) -> Call[Erasing]:
        """Let the impressions and clicks of a client, user or session be taken out of the log.

        `unlearn`: the model is rebuilt without them, and versions that have learned from them are withdrawn.
        """
        return Call("POST", of_model(model, "/erase"), body=Erase(source, unlearn))

    @Operation
    def tests(self) -> Call[LiveTests]:
        """Return all live tests."""
        return Call("GET", "/v1/tests")

    @Operation
    def test(self, test: str) -> Call[LiveTestStanding]:
        """Return a live test: who leads, by how much, how surely, and for how long it would go on."""
        return Call("GET", of_test(test))

    @Operation
    def put_test(
        self,
        test: str,
        arms: Sequence[str],
        *,
        method: Method = "interleave",
        learns: Learns = "own",
        actions: Mapping[str, float] | None = None,
        window: float | None = None,
        level: float = 0.05,
    ) -> Call[LiveTestStanding]:
        """Begin a live test of these arms: models, versions of models (`books@7`), or `own`, the caller's own order.

        The first arm is the one of today. A test that runs with the same specification goes on; another specification
        lets it count anew.
        """
        body = LiveTest(tuple(arms), method, learns, dict(actions or {}), window, level)
        return Call("PUT", of_test(test), body=body)

    @Operation
    def stop_test(self, test: str) -> Call[LiveTestStanding]:
        """Stop a live test; what it has counted stays."""
        return Call("DELETE", of_test(test), harmless=False)

    @Operation
    def promote(self, test: str, arm: str | None = None) -> Call[Promoted]:
        """Let the first arm's model serve what the winner is, or the arm that is named, and stop the test."""
        return Call("POST", of_test(test, "/promote"), body=Promote(arm), harmless=False)

    @Operation
    def overview(self, *, filter: str = "", page: int = 1, model: str | None = None) -> Call[dict[str, Any]]:
        """Return traffic and alarms of now, a page of the models whose names contain `filter`, and one in detail."""
        query = {"filter": filter, "page": str(page)} | ({} if model is None else {"model": model})
        return Call("GET", "/v1/overview", query=query)

    @Operation
    def history(self, model: str = DEFAULT, *, span: Span = "minutes") -> Call[dict[str, Any]]:
        """Return the sums of the last hours by the minute, or of the last month by the hour."""
        return Call("GET", of_model(model, "/history"), query={"span": span})

    @Operation
    def recent(self, model: str = DEFAULT) -> Call[dict[str, Any]]:
        """Return the last queries of the process that answers, to be explained."""
        return Call("GET", of_model(model, "/recent"))

    @Operation
    def alive(self) -> Call[Alive]:
        """Return that the process answers."""
        return Call("GET", "/healthz")

    @Operation
    def ready(self) -> Call[Readiness]:
        """Return whether every list is drawn by its model, and what is wrong."""
        return Call("GET", "/readyz", answers=(503,))

    @Operation
    def metrics(self) -> Call[str]:
        """Return what Prometheus reads."""
        return Call("GET", "/metrics")


def _path(model: str, test: str | None, rest: str) -> str:
    return of_model(model, rest) if test is None else of_test(test, rest)


def _rank(asked: RankRequest) -> Rank:
    """Return the request as it is sent; the service checks documents that are dictionaries."""
    documents = cast(list[Document], list(asked.documents))
    others = {name: getattr(asked, name) for name in Rank.__struct_fields__ if name != "documents"}
    return Rank(documents, **others)


def _feedback(given: FeedbackRequest) -> ListFeedback:
    """Return the feedback as it is sent; the service checks events that are dictionaries."""
    if isinstance(given.clicks, str):
        raise BadInput(f"clicks is the string {given.clicks!r}", f"send a list of ids: [{given.clicks!r}]")
    events = cast(list[Event], list(given.events))
    return ListFeedback(given.impression, list(given.clicks), given.final, events, given.seen)


def _anew(begin_anew: bool) -> dict[str, str]:
    return {"begin_anew": "true"} if begin_anew else {}


def _raw(array: np.ndarray) -> bytes:
    import numpy as np  # who sends arrays has it; nothing else here needs it

    return np.ascontiguousarray(array, "<f4").tobytes()


def _lists(answer: Any) -> list[ShownList]:
    return [ShownList.of(each) for each in answer["answers"]]


def _some_for_later(answer: Any) -> bool:
    return any(each["status"] in NOT_NOW for each in answer["answers"])
