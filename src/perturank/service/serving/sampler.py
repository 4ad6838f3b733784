"""How certain the orders of real queries are: asked of the newest query now and then, beside the requests."""

from __future__ import annotations

import equinox as eqx

from perturank.core import Array, CertainOrders, Query
from perturank.service.log import Transaction, changes
from perturank.service.serving.service import Service
from perturank.service.telemetry.counters import SAMPLED, UNCERTAIN
from perturank.service.telemetry.logger import logger
from perturank.service.telemetry.recent import Recent

MOST_DOCUMENTS = 128  # pairs are many: of a longer query these come first


@eqx.filter_jit
def _uncertain(ranker: CertainOrders, query: Query) -> Array:
    return ranker.uncertain(query)


class Sampler:
    """Looks at each model's newest query and adds what it finds to the sums."""

    def __init__(self, service: Service, recent: Recent) -> None:
        self._service, self._recent = service, recent
        self._looked: dict[str, int] = {}

    def look(self) -> None:
        """Sample one query of every model that has had a new one since."""
        for held in self._service.host.all():
            newest = next((asked for asked in self._recent.of(held.name) if len(asked.ids) > 1), None)
            if newest is None or newest.number == self._looked.get(held.name):
                continue
            self._looked[held.name] = newest.number
            if newest.features.shape[1] != held.spec.n_features or not isinstance(held.ranker, CertainOrders):
                continue
            prior = None if newest.prior is None else newest.prior[:MOST_DOCUMENTS]
            try:
                share = float(_uncertain(held.ranker, Query.of(newest.features[:MOST_DOCUMENTS], prior=prior)))
            except (RuntimeError, MemoryError) as error:  # of JAX: lists go on without this number
                logger.warning("the pairs of a query of %r cannot be looked at: %s", held.name, error)
                continue
            self._add(held.name, share)

    def _add(self, model: str, share: float) -> None:
        def write(transaction: Transaction) -> None:
            changes.must_exist(transaction, model)
            transaction.tally.add(model, {SAMPLED: 1, UNCERTAIN: share})

        self._service.committer.submit(write)
