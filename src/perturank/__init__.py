"""perturank: online learning to rank that knows which of its orders are certain."""

from perturank import threads

threads.pin()

from perturank.__about__ import __version__  # noqa: E402 (threads are pinned before JAX is imported)
from perturank.catalogue import make  # noqa: E402
from perturank.core import Interaction, Query, Ranker, Ranking  # noqa: E402
from perturank.errors import BadInput  # noqa: E402
from perturank.storage import load, save  # noqa: E402

__all__ = ["BadInput", "Interaction", "Query", "Ranker", "Ranking", "__version__", "load", "make", "save"]
