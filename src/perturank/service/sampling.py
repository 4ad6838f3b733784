"""How certain the orders of real queries are: asked of the newest query now and then, beside the requests."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from perturank.core import Array, CertainOrders, Query
from perturank.service import changing
from perturank.service.counting import PAIRS_ASKED, UNCERTAIN
from perturank.service.hosting import Hosted
from perturank.service.lines import lines
from perturank.service.listing import padded_length
from perturank.service.log import Transaction
from perturank.service.recent import Asked, Recent
from perturank.service.service import Service

MOST_DOCUMENTS = 128  # pairs are many: of a longer query these come first


@eqx.filter_jit
def _compiled(ranker: CertainOrders, features: Array, mask: Array, prior: Array) -> Array:
    return ranker.uncertain(Query(features, mask, jnp.zeros((mask.shape[0], 2), jnp.uint32), prior))


def uncertain(held: Hosted, asked: Asked) -> float | None:
    """Return the share of the query's pairs without a certain order; None: the ranker knows no certain orders."""
    if not isinstance(held.ranker, CertainOrders):
        return None
    n = min(len(asked.ids), MOST_DOCUMENTS)
    v = padded_length(n, held.spec.places)
    features, prior = np.zeros((v, asked.features.shape[1]), np.float32), np.zeros(v, np.float32)
    features[:n] = asked.features[:n]
    prior[:n] = 0 if asked.prior is None else asked.prior[:n]
    return float(_compiled(held.ranker, jnp.asarray(features), jnp.asarray(np.arange(v) < n), jnp.asarray(prior)))


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
            if newest.features.shape[1] == held.spec.n_features:
                self._sample(held, newest)

    def _sample(self, held: Hosted, asked: Asked) -> None:
        try:
            self._add(held.name, uncertain(held, asked))
        except (RuntimeError, MemoryError) as error:  # of JAX: lists go on without this number
            lines.warning("the pairs of a query of %r cannot be looked at: %s", held.name, error)

    def _add(self, model: str, share: float | None) -> None:
        if share is not None:
            amounts = {PAIRS_ASKED: 1.0, UNCERTAIN: share}

            def write(transaction: Transaction) -> None:
                changing.must_exist(transaction, model)
                transaction.tally.add(model, amounts)

            self._service.committer.submit(write)
