"""A client of the ranking service, with retries that can do no harm. Needs `perturank[service]`.

The distribution `perturank-client` holds this package, `wire` and `errors` under another name. So these import one
another relatively, and nothing else of perturank.

Feedback counts once however often it is sent, so it is sent again after any failure, as is everything else that is the
same done twice. A list is asked for again only where the service says that it could not give one, or was not reached:
otherwise two would be logged, and the one that nobody saw is learned, once its window closes, as a list without clicks.
No preference follows from such a list, but it counts among those that were shown.
"""

from ..wire.answers import (
    Accepted,
    Alive,
    Described,
    Draws,
    Erasing,
    Explained,
    Generation,
    Generations,
    Models,
    Node,
    Outcome,
    Place,
    Readiness,
    Shown,
    Skipped,
    Standing,
    Status,
    UbiOutcome,
    Unlearning,
    Version,
    Versions,
)
from ..wire.live_tests import ArmStanding, Comparison, LiveTests, LiveTestStanding, Period, Point, Promoted
from ..wire.requests import Document, Event
from ..wire.specification import Exploration, Feature, Mode, Ubi
from .calls import Call, NoAnswer, ServiceProblem
from .clients import AsyncClient, Client
from .lists import FeedbackRequest, RankRequest, ShownList

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
    "Generation",
    "Generations",
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
    "Skipped",
    "Standing",
    "Status",
    "Ubi",
    "UbiOutcome",
    "Unlearning",
    "Version",
    "Versions",
]
