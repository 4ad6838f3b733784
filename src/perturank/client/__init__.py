"""A client of the ranking service, with retries that can do no harm. Needs `perturank[service]`.

Feedback counts once however often it is sent, so it is sent again after any failure, as is everything else that is the
same done twice. A list is asked for again only where the service says that it could not give one, or was not reached:
otherwise two would be logged, and the one that nobody saw is learned, once its window closes, as a list without clicks.
No preference follows from such a list, but it counts among those that were shown.
"""

from perturank.client.calls import Call, NoAnswer, ServiceProblem
from perturank.client.clients import AsyncClient, Client
from perturank.client.lists import FeedbackRequest, RankRequest, ShownList
from perturank.wire.answers import (
    Accepted,
    Alive,
    Described,
    Draws,
    Erasing,
    Explained,
    Models,
    Node,
    Outcome,
    Place,
    Readiness,
    Shown,
    Standing,
    Status,
    Version,
    Versions,
)
from perturank.wire.live_tests import ArmStanding, Comparison, LiveTests, LiveTestStanding, Period, Point, Promoted
from perturank.wire.requests import Document, Event
from perturank.wire.specification import Exploration, Feature, Mode

__all__ = [
    "Accepted",
    "Alive",
    "ArmStanding",
    "AsyncClient",
    "Call",
    "Client",
    "Comparison",
    "Described",
    "Document",
    "Draws",
    "Erasing",
    "Event",
    "Explained",
    "Exploration",
    "Feature",
    "FeedbackRequest",
    "LiveTestStanding",
    "LiveTests",
    "Mode",
    "Models",
    "NoAnswer",
    "Node",
    "Outcome",
    "Period",
    "Place",
    "Point",
    "Promoted",
    "RankRequest",
    "Readiness",
    "ServiceProblem",
    "Shown",
    "ShownList",
    "Standing",
    "Status",
    "Version",
    "Versions",
]
