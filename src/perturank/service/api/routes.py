"""Every route with what it is for: the application and its OpenAPI document are both made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perturank.service.api import requests as of
from perturank.service.keys import Scope
from perturank.service.spec import Spec


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


class Events:
    """An answer that never ends: server-sent events."""


ONE = "/v1/models/{model}"
ROUTES = (
    Route(
        "POST",
        f"{ONE}/rank",
        "lists.rank",
        "Rank documents and log the list",
        "serve",
        of.Rank,
        of.Ranking,
        200,
        (404, 413, 422, 507),
    ),
    Route(
        "POST",
        f"{ONE}/rank/batch",
        "lists.rank_batch",
        "Rank several queries",
        "serve",
        of.RankBatch,
        of.Rankings,
        200,
        (404, 413, 422, 507),
    ),
    Route(
        "POST",
        f"{ONE}/feedback",
        "lists.feedback",
        "Record clicks; answered when durable",
        "serve",
        of.Feedback,
        of.Given,
        200,
        (404, 409, 413, 422, 507),
    ),
    Route(
        "POST",
        f"{ONE}/feedback/batch",
        "lists.feedback_batch",
        "Record clicks on several lists",
        "serve",
        of.FeedbackBatch,
        of.GivenBatch,
        200,
        (404, 413, 422, 507),
    ),
    Route(
        "POST",
        f"{ONE}/explain",
        "lists.explain",
        "Say why documents stand where they do",
        "serve",
        of.Explain,
        dict[str, Any],
        200,
        (404, 413, 422),
    ),
    Route("GET", "/v1/models", "models.listed", "List all models", "admin", None, dict[str, Any]),
    Route("GET", ONE, "models.get", "One model", "serve", None, dict[str, Any], 200, (404, 422)),
    Route("PUT", ONE, "models.put", "Make or change a model", "admin", Spec, dict[str, Any], 200, (413, 422, 507)),
    Route("DELETE", ONE, "models.delete", "Delete a model", "admin", None, None, 204, (404, 422, 507)),
    Route(
        "GET",
        f"{ONE}/versions",
        "models.versions",
        "The model's versions",
        "admin",
        None,
        dict[str, Any],
        200,
        (404, 422),
    ),
    Route(
        "PUT",
        f"{ONE}/pin",
        "models.pin",
        "Serve one version whatever is learned",
        "admin",
        of.Pin,
        dict[str, Any],
        200,
        (404, 413, 422, 507),
    ),
    Route(
        "DELETE",
        f"{ONE}/pin",
        "models.unpin",
        "Serve the newest version again",
        "admin",
        None,
        dict[str, Any],
        200,
        (404, 422, 507),
    ),
    Route(
        "POST",
        f"{ONE}/rollback",
        "models.roll_back",
        "Let learning go on from a version",
        "admin",
        of.Pin,
        dict[str, Any],
        202,
        (404, 413, 422, 507),
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
        (404, 422),
    ),
    Route(
        "PUT",
        f"{ONE}/file",
        "models.bring",
        "Let learning go on from a file of perturank.save",
        "admin",
        bytes,
        dict[str, Any],
        202,
        (404, 413, 422, 507),
    ),
    Route("GET", "/v1/overview", "watch.overview", "Models, traffic and alarms of now", "admin", None, dict[str, Any]),
    Route("GET", "/v1/live", "watch.live", "The same as server-sent events, one a second", "admin", None, Events),
    Route(
        "GET",
        f"{ONE}/history",
        "watch.history",
        "Sums of the last hours by the minute, or of the last month by the hour (`span=hours`)",
        "admin",
        None,
        dict[str, Any],
        200,
        (404, 422),
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
    Route("GET", "/healthz", "health.alive", "Alive", None, None, dict[str, Any]),
    Route("GET", "/readyz", "health.ready", "Ready: everything is compiled", None, None, dict[str, Any], 200, (503,)),
    Route("GET", "/metrics", "health.metrics", "For Prometheus", None, None, str),
)
