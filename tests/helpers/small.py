"""Small rankers, queries and data that tests share.

Few shapes are used everywhere (16 rows, 5 features, 4 places, 8 units), since compiling is what tests spend their
time on; and every setting that matters is given here, so that no test depends on a default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from perturank import catalogue
from perturank.clicks import user
from perturank.contracts.terms import N_FEATURES as N_FEATURES
from perturank.contracts.terms import PLACES as PLACES
from perturank.contracts.terms import arrays as arrays
from perturank.contracts.terms import is_finite as is_finite
from perturank.contracts.terms import query as query
from perturank.contracts.terms import rows as rows
from perturank.contracts.terms import same_bits as same_bits
from perturank.core import Interaction, Query, Ranking, Rewards, with_room
from perturank.datasets import Dataset
from perturank.datasets.fold import Fold
from perturank.hyperparameters import Settings


def clicked_places(clicks: jax.Array, mask: jax.Array, rewards: Rewards | None = None) -> Interaction:
    """Return an interaction in which only places matter: its documents have no features."""
    k = clicks.shape[0]
    shown = Query(jnp.zeros((k, 1)), mask, jnp.zeros((k, 2), jnp.uint32), jnp.zeros(k))
    return Interaction(shown, clicks, None, rewards)


QUICK: dict[str, Any] = {
    "widths": (8,),
    "budget": 32,
    "n_steps": 5,
    "learning_rate": 0.05,
    "noise_std": 0.1,
    "n_rankers": 2,
    "l2": 0.1,
    "l2_output": 1.0,
    "l2_hidden": 5.0,
    "new_weight": 10.0,
    "early_noise": 2.0,
    "early_weight": 10.0,
    "floor": 0.0,
    "alpha": 0.05,
    "epsilon": 0.2,
    "step": 1.0,
}


def settings(name: str, **changes: Any) -> Settings:
    """Return small settings of a ranker; None (a whole history) and one candidate (DBGD) stay what they are."""
    own = catalogue.published(name).settings
    values = {f.name: getattr(own, f.name) for f in dataclasses.fields(own)}
    quick = {k: v for k, v in QUICK.items() if values.get(k) is not None}
    if values.get("n_candidates", 1) > 1:
        quick["n_candidates"] = 3
    return own.changed(**quick | changes)


def ranker(name: str, seed: int = 0, **changes: Any) -> Any:
    """Return a small new ranker."""
    return catalogue.published(name).make(N_FEATURES, jax.random.key(seed), settings(name, **changes))


def able(protocol: type) -> list[str]:
    """Return the rankers of the catalogue that declare what the protocol asks for."""
    return [name for name, entry in catalogue.rankers().items() if isinstance(entry.kind, protocol)]


def one_of_each_kind() -> list[str]:
    """Return one ranker of the catalogue for every class."""
    return list({entry.kind: name for name, entry in reversed(catalogue.rankers().items())}.values())


def interaction(shown: Query, places: Sequence[int], clicked: Sequence[int], memo: Any = None) -> Interaction:
    """Return the interaction with a list of these rows, of which these places were clicked."""
    order = jnp.asarray(places, jnp.int32)
    clicks = jnp.asarray(np.isin(np.arange(len(places)), clicked))
    ranking = Ranking(order, jnp.ones_like(order), jnp.asarray(len(places)), None, memo)
    return Interaction.observed(shown, ranking, clicks)


@cache
def learned(name: str, **changes: Any) -> Any:
    """Return a small ranker after two lists, as it learns on."""
    learning = with_room(ranker(name, **changes), 2, PLACES)
    for seed in range(2):
        shown = query(seed=seed)
        ranking = learning.rank(shown, jax.random.key(seed), PLACES)
        seen = interaction(shown, np.asarray(ranking.order).tolist(), [1, 3], ranking.memo)
        learning = learning.learn(seen, jax.random.key(seed))
    return learning


def easy(n_queries: int, lengths: Sequence[int], seed: int) -> Dataset:
    """Return queries whose grade, 0 to 2, is the third in which feature 0 lies; the others are noise."""
    rng = np.random.default_rng(seed)
    sizes = [lengths[i % len(lengths)] for i in range(n_queries)]
    x = rng.uniform(0, 1, (sum(sizes), N_FEATURES))
    grades = np.minimum((3 * x[:, 0]).astype(int), 2)
    return Dataset.from_arrays(x, grades, group=sizes, normalise=False)


@cache
def fold() -> Fold:
    """Return twelve training queries of 3 to 8 documents and as many to be tested on."""
    train, test = (easy(12, (3, 5, 8), seed) for seed in (1, 2))
    return Fold("easy", 1, 1, train, test, test, collection_grades=3)


PERFECT = user("perfect", 3)
