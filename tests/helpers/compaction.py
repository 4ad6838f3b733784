"""Compaction, as tests do it: all of it at once."""

from __future__ import annotations

from collections.abc import Callable

from perturank.service.learner import retention
from perturank.service.log import Log, Transaction, snapshots
from perturank.service.log.records import Compacted
from perturank.service.settings import Retention


def anybody(transaction: Transaction) -> None:
    """Let any process delete, whether it leads or not."""


def compact_all(log: Log, kept: Retention) -> Compacted | None:
    """Promote a base and delete what came before it."""
    found = retention.compact(log, "m", kept)
    for _ in retention.delete(log, "m", anybody):
        pass
    return found


def promote_state(log: Log, guard: Callable[[Transaction], None] = anybody) -> Compacted | None:
    """Promote what the learner has stored."""
    return retention.promote(log, "m", log.stored(snapshots.state_name("m")), 0, log.tail(), guard)
