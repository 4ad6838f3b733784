"""Leadership: one process at a time may write batches and versions and delete records; its epoch identifies it."""

from __future__ import annotations

from dataclasses import dataclass

from perturank.errors import BadInput
from perturank.service.log import Log, Transaction

EPOCH = "learner epoch"


class Superseded(BadInput):
    """Another learner has taken over; this one must not write any more."""


@dataclass(frozen=True)
class Lead:
    """The leadership of this process."""

    epoch: int

    @classmethod
    def take(cls, log: Log) -> Lead:
        """Increment the epoch, so that an earlier leader can no longer delete records that we read."""
        with log.transaction() as transaction:
            lead = cls(transaction.remembered(EPOCH) + 1)
            transaction.remember(EPOCH, lead.epoch)
        return lead

    def check(self, transaction: Transaction) -> None:
        """Raise Superseded if another learner leads now; every transaction that writes calls it."""
        if transaction.remembered(EPOCH) != self.epoch:
            raise Superseded("another learner has taken over this log", "one is enough: this one ends")
