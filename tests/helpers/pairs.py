"""A history of several blocks that tests of fits share: 300 documents with priors, 700 weighted pairs."""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from helpers import small
from perturank.core import Query
from perturank.parts.history import History
from perturank.parts.preferences import Pairs

RNG = np.random.default_rng(8)
N_DOCUMENTS, N_PAIRS = 300, 700
X = small.rows(N_DOCUMENTS, seed=8)
PRIOR = RNG.normal(0, 0.5, N_DOCUMENTS).astype(np.float32)
ENDS = np.array(sorted({(i, (i + step) % N_DOCUMENTS) for i in range(N_DOCUMENTS) for step in (1, 7, 30)}))[:N_PAIRS]
UTILITY = X @ [1.0, -1.0, 0.5, 0.0, 2.0] + PRIOR
FLIPS = (UTILITY[ENDS[:, 0]] < UTILITY[ENDS[:, 1]]) ^ (RNG.random(N_PAIRS) < 0.2)
WINNERS, LOSERS = np.where(FLIPS[:, None], ENDS[:, ::-1], ENDS).T
WEIGHT = RNG.choice([0.25, 1.0, 2.0], N_PAIRS).astype(np.float32)
X_IJ = (X[WINNERS] - X[LOSERS]).astype(np.float64)
PRIOR_IJ = (PRIOR[WINNERS] - PRIOR[LOSERS]).astype(np.float64)
GRAM = (X_IJ.T * WEIGHT) @ X_IJ


@cache
def history(has_prior: bool = False) -> History:
    prior = PRIOR if has_prior else np.zeros(N_DOCUMENTS, np.float32)
    ids = np.stack([np.arange(N_DOCUMENTS), np.zeros(N_DOCUMENTS)], 1).astype(np.uint32)
    shown = Query(jnp.asarray(X), jnp.ones(N_DOCUMENTS, bool), jnp.asarray(ids), jnp.asarray(prior))
    pairs = Pairs(*(jnp.asarray(a) for a in (WINNERS.astype(np.int32), LOSERS.astype(np.int32), WEIGHT)))
    found, slots = eqx.filter_jit(History.add)(
        History.empty(5).with_room(N_DOCUMENTS, N_PAIRS), shown, pairs, jax.random.key(0)
    )
    assert np.asarray(slots).tolist() == list(range(N_PAIRS))
    return found
