"""Who may write batches and versions, and take records out: one process, told from all before it by its epoch."""

from __future__ import annotations

from dataclasses import dataclass

from perturank.errors import BadInput
from perturank.service.log import Log, Transaction

EPOCH = "learner epoch"


class Superseded(BadInput):
    """Another learner has taken over; this one must not write any more."""


@dataclass(frozen=True)
class Lead:
    """A place that was taken over from whoever held it."""

    epoch: int

    @classmethod
    def take(cls, log: Log) -> Lead:
        """Raise the epoch: what is read from now on is not taken out under the reader's hands by an earlier one."""
        with log.transaction() as transaction:
            lead = cls(transaction.remembered(EPOCH) + 1)
            transaction.remember(EPOCH, lead.epoch)
        return lead

    def check(self, transaction: Transaction) -> None:
        """Stop one that has lost its place; called within each transaction that writes."""
        if transaction.remembered(EPOCH) != self.epoch:
            raise Superseded("another learner has taken over this log", "one is enough: this one ends")
