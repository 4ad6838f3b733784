"""Every route with what it is for: the application and its OpenAPI document are both made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perturank.counterfactual import REWARDS
from perturank.exports import NAME, formats
from perturank.service.http.auth import Scope
from perturank.service.http.dashboard import PAGES
from perturank.service.log import snapshots
from perturank.service.serving.overview import MODELS_ON_A_PAGE, SPANS
from perturank.wire import answers, live_tests, requests
from perturank.wire.specification import MOST_PLACES, SpecRequest
from perturank.wire.ubi import EventRecord, QueryRecord


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: str  # "lists.rank": the part of the API and its method
    says: str
    scope: Scope | None = None
    takes: Any = None
    gives: Any = None
    status: int = 200
    refuses: tuple[int, ...] = ()
    also: tuple[tuple[int, str], ...] = ()  # other statuses of the same answer, and what they say
    query: tuple[tuple[str, dict[str, Any]], ...] = ()  # behind the question mark: names, and what each may be
    note: str = ""
    binary: Any = None  # the request as MessagePack, where that has another shape
    example: tuple[Any, Any] = (None, None)  # a request, and its answer
    for_pages: bool = False  # of other origins, if a model allows them


def _within(numbers: range) -> dict[str, Any]:
    return {"type": "integer", "minimum": numbers[0], "maximum": numbers[-1]}


class Exported:
    """A model in the format of another system: JSON, or the bytes of a file."""


class Events:
    """An answer that never ends: server-sent events."""


ONE = "/v1/models/{model}"
TEST = "/v1/tests/{test}"
RECENT_NOTE = "A recent query is somebody else's and needs the scope admin."
ANEW = (("begin_anew", {"enum": ["true", "false"]}),)
ANEW_NOTE = "Refused with 409 where what was learned could not be kept, unless `begin_anew` is true."
VIEW = (("filter", {"type": "string"}), ("page", _within(PAGES)), ("model", {"type": "string"}))
VIEW_NOTE = (
    f"Models come in pages of {MODELS_ON_A_PAGE}: those whose name contains `filter`. "
    "One is told in detail, `model` or the first."
)
IMPRESSION = "AZqT8Jc0sKk5vD2xYw7uQm3hR1tE6bNf"
UBI_NOTE = (
    "One record may stand alone; each is answered by itself. "
    "Pages send a publishable key, of the scope ubi: in the header, or as /ubi/KEY before the path."
)
UBI_EVENT = {
    "application": "shop",
    "action_name": "click",
    "query_id": "9f1c8f7e-2b1a-4d0e-8a3c-6b1f2e5d4c3b",
    "client_id": "browser-17",
    "timestamp": "2026-01-22T14:57:25.099Z",
    "event_attributes": {"object": {"object_id": "b"}, "position": {"ordinal": 1}},
}
RANK = {
    "query": "red shoes",
    "documents": [{"id": "a", "features": [0.1, 2.0]}, {"id": "b", "features": [0.3, 1.0]}],
    "top": 2,
}
RANKING = {
    "impression": IMPRESSION,
    "ranking": [{"id": "b", "certain": False}, {"id": "a", "certain": True}],
    "propensity": 0.5,
    "version": 3,
}
ROUTES = (
    Route(
        "POST",
        f"{ONE}/rank",
        "lists.rank",
        "Rank documents and log the list",
        "serve",
        requests.Rank,
        answers.RankedList,
        200,
        (404, 413, 422, 507),
        binary=requests.RawRank,
        example=(RANK, RANKING),
    ),
    Route(
        "POST",
        f"{ONE}/rank/batch",
        "lists.rank_batch",
        "Rank several queries",
        "serve",
        requests.RankBatch,
        answers.RankedLists,
        200,
        (404, 413, 422, 507),
    ),
    Route(
        "POST",
        f"{ONE}/feedback",
        "lists.feedback",
        "Record clicks and other events; answered when durable",
        "serve",
        requests.ListFeedback,
        answers.Given,
        200,
        (404, 413, 422, 507),
        example=(
            {
                "impression": IMPRESSION,
                "events": [{"id": "b", "action": "click"}, {"id": "b", "action": "purchase", "value": 39.9}],
                "seen": 2,
            },
            {"status": "recorded"},
        ),
    ),
    Route(
        "POST",
        f"{ONE}/feedback/batch",
        "lists.feedback_batch",
        "Record clicks and other events of several lists",
        "serve",
        requests.FeedbackBatch,
        answers.GivenBatch,
        200,
        (404, 413, 422, 507),
    ),
    Route(
        "POST",
        f"{ONE}/explain",
        "lists.explain",
        "Say why documents stand where they do",
        "serve",
        requests.Explain,
        answers.Explained,
        200,
        (404, 413, 422),
        note=RECENT_NOTE,
    ),
    Route(
        "GET",
        f"{ONE}/explain",
        "lists.explain_shown",
        "Say why the documents of a logged list stood where they did",
        "serve",
        None,
        answers.Explained,
        200,
        (404, 422, 507),
        query=(
            ("impression", {"type": "string", "maxLength": 100}),
            ("recent", {"type": "integer", "minimum": 1, "maximum": 10**15 - 1}),
        ),
        note=f"One of the two is said. {RECENT_NOTE}",
    ),
    Route(
        "POST",
        "/ubi_events",
        "ubi.events",
        "Record UBI events as ubi.js sends them",
        "ubi",
        list[EventRecord],
        answers.UbiAnswer,
        200,
        (413, 422, 507),
        note=UBI_NOTE,
        example=([UBI_EVENT], {"answers": [{"status": "recorded"}]}),
        for_pages=True,
    ),
    Route(
        "POST",
        "/ubi_queries",
        "ubi.queries",
        "Count UBI queries, and say of each whether there is a list of it",
        "ubi",
        list[QueryRecord],
        answers.UbiAnswer,
        200,
        (413, 422, 507),
        note=UBI_NOTE,
        for_pages=True,
    ),
    Route("GET", "/v1/models", "models.list_models", "List all models", "admin", None, answers.Models),
    Route("GET", ONE, "models.get", "One model", "serve", None, answers.Described, 200, (404, 422)),
    Route(
        "PUT",
        ONE,
        "models.put",
        "Make or change a model",
        "admin",
        SpecRequest,
        answers.Described,
        200,
        (409, 413, 422, 507),
        also=((201, "its learning begins, or begins anew"),),
        query=ANEW,
        note=ANEW_NOTE,
    ),
    Route(
        "PATCH",
        ONE,
        "models.patch",
        "Change some fields of a model, by an RFC 7396 merge patch of its spec",
        "admin",
        dict[str, Any],
        answers.Described,
        200,
        (404, 409, 413, 422, 507),
        also=((201, "its learning begins anew"),),
        query=ANEW,
        note=ANEW_NOTE,
    ),
    Route("DELETE", ONE, "models.delete", "Delete a model", "admin", None, None, 204, (404, 422, 507)),
    Route(
        "GET",
        f"{ONE}/versions",
        "models.versions",
        "The model's versions",
        "admin",
        None,
        answers.Versions,
        200,
        (404, 422),
        query=(("limit", _within(snapshots.PAGE_SIZES)), ("before", _within(snapshots.NUMBERS))),
    ),
    Route(
        "PUT",
        f"{ONE}/pin",
        "models.pin",
        "Serve one version whatever is learned",
        "admin",
        requests.Pin,
        answers.Described,
        200,
        (404, 409, 413, 422, 507),
    ),
    Route(
        "DELETE",
        f"{ONE}/pin",
        "models.unpin",
        "Serve the newest version again",
        "admin",
        None,
        answers.Described,
        200,
        (404, 422, 507),
    ),
    Route(
        "POST",
        f"{ONE}/rollback",
        "models.roll_back",
        "Let learning go on from a version",
        "admin",
        requests.Pin,
        answers.Accepted,
        202,
        (404, 409, 413, 422, 507),
    ),
    Route(
        "GET",
        f"{ONE}/generations",
        "models.generations",
        "The model's generations: with each, learning began anew",
        "admin",
        None,
        answers.Generations,
        200,
        (404, 422),
    ),
    Route(
        "POST",
        f"{ONE}/restore",
        "models.restore",
        "Let serving and learning go on from the last version of an earlier generation",
        "admin",
        requests.Restore,
        answers.Described,
        202,
        (404, 409, 413, 422, 507),
    ),
    Route(
        "GET",
        f"{ONE}/file",
        "models.file",
        "The served version as a file for perturank.load",
        "admin",
        None,
        bytes,
        200,
        (404, 409, 422),
        query=(("history", {"enum": ["true", "false"]}),),
    ),
    Route(
        "GET",
        f"{ONE}/evaluate",
        "models.evaluate",
        "What another ranker would have earned on the model's traffic",
        "admin",
        None,
        dict[str, Any],
        200,
        (404, 422),
        query=(
            ("against", {"type": "string", "maxLength": 200}),
            ("reward", {"enum": list(REWARDS)}),
            ("places", {"type": "integer", "minimum": 1, "maximum": MOST_PLACES}),
            ("after", {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}),
        ),
        note="`against`: own (the caller's order), a version's number, or a ranker. The answer may be ten minutes old.",
    ),
    Route(
        "PUT",
        f"{ONE}/file",
        "models.import_file",
        "Let learning go on from a file of perturank.save",
        "admin",
        bytes,
        answers.Accepted,
        202,
        (404, 409, 413, 422, 507),
    ),
    Route(
        "GET",
        f"{ONE}/export",
        "models.export",
        "A version for Elasticsearch, OpenSearch, Solr, ONNX, or as plain JSON",
        "admin",
        None,
        Exported,
        200,
        (404, 409, 422),
        query=(
            ("format", {"enum": list(formats())}),
            ("version", _within(snapshots.NUMBERS)),
            ("name", {"type": "string", "pattern": f"^{NAME.pattern}$"}),
            ("prior", {"type": "string", "maxLength": 200}),
        ),
        note="The served version, unless another is named. What the format cannot express is refused with the reason.",
    ),
    Route(
        "POST",
        f"{ONE}/erase",
        "models.erase",
        "Take a source's impressions and clicks out of the log, and out of the model too (`unlearn`)",
        "admin",
        requests.Erase,
        answers.Erasing,
        202,
        (404, 409, 413, 422, 507),
        note="`unlearn` is refused with 409 where records were compacted: the model cannot be rebuilt without them.",
    ),
    Route("GET", "/v1/tests", "tests.list_tests", "List all live tests", "admin", None, live_tests.LiveTests),
    Route("GET", TEST, "tests.get", "A live test", "admin", None, live_tests.LiveTestStanding, 200, (404, 422)),
    Route(
        "PUT",
        TEST,
        "tests.put",
        "Begin a live test, or change it so that it counts anew",
        "admin",
        live_tests.LiveTest,
        live_tests.LiveTestStanding,
        200,
        (404, 413, 422, 507),
        also=((201, "it begins, or begins anew"),),
    ),
    Route(
        "DELETE",
        TEST,
        "tests.stop",
        "Stop a live test",
        "admin",
        None,
        live_tests.LiveTestStanding,
        200,
        (404, 409, 422, 507),
        note="What it has counted stays.",
    ),
    Route(
        "POST",
        f"{TEST}/rank",
        "tests.rank",
        "Rank documents by the arms of a live test, and log the list",
        "serve",
        requests.Rank,
        answers.RankedList,
        200,
        (404, 409, 413, 422, 507),
        binary=requests.RawRank,
        example=(RANK, RANKING),
    ),
    Route(
        "POST",
        f"{TEST}/feedback",
        "tests.feedback",
        "Record clicks and other events on a list of a live test; answered when durable",
        "serve",
        requests.ListFeedback,
        answers.Given,
        200,
        (404, 413, 422, 507),
    ),
    Route(
        "POST",
        f"{TEST}/promote",
        "tests.promote",
        "Let the first arm's model serve what the winner is, and stop the test",
        "admin",
        live_tests.Promote,
        live_tests.Promoted,
        200,
        (404, 409, 413, 422, 503, 507),
    ),
    Route(
        "GET",
        "/v1/overview",
        "watch.overview",
        "Models, traffic and alarms of now",
        "admin",
        None,
        dict[str, Any],
        200,
        (422,),
        query=VIEW,
        note=VIEW_NOTE,
    ),
    Route(
        "GET",
        "/v1/live",
        "watch.live",
        "The same as server-sent events, one a second",
        "admin",
        None,
        Events,
        200,
        (422,),
        query=VIEW,
        note=VIEW_NOTE,
    ),
    Route(
        "GET",
        f"{ONE}/history",
        "watch.history",
        "Counters of the last hours by the minute, or of the last month by the hour (`span=hours`)",
        "admin",
        None,
        dict[str, Any],
        200,
        (404, 422),
        query=(("span", {"enum": list(SPANS)}),),
    ),
    Route(
        "GET",
        f"{ONE}/recent",
        "watch.recent",
        "The last queries, to be explained",
        "admin",
        None,
        dict[str, Any],
        200,
        (404, 422),
    ),
    Route("GET", "/healthz", "health.alive", "Alive", None, None, answers.Alive),
    Route(
        "GET",
        "/readyz",
        "health.ready",
        "Ready: everything is, or once was, compiled",
        None,
        None,
        answers.Readiness,
        also=((503, "not yet, or not now"),),
        note="Once ready, a process stays so while it compiles what a change of a model needs.",
    ),
    Route("GET", "/metrics", "health.metrics", "For Prometheus", "serve", None, str),
)
