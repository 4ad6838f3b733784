"""A source's data taken out of the log: a client, a user or a session that wants to be forgotten."""

from __future__ import annotations

import time

from perturank.service import changing, compacting
from perturank.service.learner import Learner
from perturank.service.log import Log
from perturank.service.refusals import NotKnown
from perturank.service.sealing import source_seal

SECONDS_BETWEEN_LOOKS = 0.2


def wish(log: Log, source: str, model: str | None = None) -> dict[str, int]:
    """Write into the log that a source is to be erased, from one model or all; return the positions of the wishes."""
    known = compacting.known(log)
    if model is not None and model not in known:
        raise NotKnown(f"the log knows no model {model!r}", "check its name")
    seal = source_seal(source, log.secret)
    with log.transaction() as transaction:
        names = known if model is None else [model]
        return {name: changing.erase(transaction, name, seal) for name in names}


def carried_out(log: Log, wishes: dict[str, int], seconds: float) -> bool:
    """Carry the wishes out, or wait until the learner that leads has done so; return whether it is done."""
    end = time.monotonic() + seconds
    while not all(compacting.is_swept(log, model, position) for model, position in wishes.items()):
        if log.try_to_lead():
            learner = Learner(log)
            while learner.step() or not learner.is_tidy:
                pass
            learner.close()
        elif time.monotonic() > end:
            return False
        else:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return True
