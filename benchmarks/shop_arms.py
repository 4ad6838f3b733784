"""The arms of the shop trial: a service with different models, and what a shop could do without one.

The forms of the baselines were chosen on the seeds 1 and 2, which the trial does not use: of 14 counters one of the
best, of 3 forms of LightGBM's groups the best as shown up to 3,000 searches. Up to 10,000 another was better on seed 1
(.877 against .856 as shown) and worse on seed 2 (.867 against .878). No setting of LightGBM was tuned; those of
a new model were chosen on the seeds 1 to 5 (docs/service/tuning.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.service import running_service
from benchmarks.shop import FEATURES, N_CANDIDATES, PLACES, Arm, Shop, Shown
from perturank.client import Client, Feature
from perturank.core import Interaction, Query
from perturank.errors import BadInput, unknown
from perturank.parts.preferences import Pairs, inferred
from perturank.rankers.p2headrank import P2HeadSettings

MODEL, REHEARSAL = "shop", "rehearsal"
SECONDS_BETWEEN_LOOKS = 0.05
SECONDS_TO_LEARN = 180.0  # a new machine compiles first
# What a version may lack: so many searches, or this share of all so far. Customers of a real shop come more slowly
# than those of this one, who would otherwise search a hundred times before the first version is there.
MOST_BEHIND, SHARE_BEHIND = 10, 0.1
RETRAINED_EVERY = 1000
RULES = P2HeadSettings()  # which pairs a click tells
LAMBDAMART = {
    "objective": "lambdarank",
    "num_leaves": 15,
    "learning_rate": 0.05,
    "min_data_in_leaf": 20,
    "num_threads": 1,
    "seed": 1,
    "verbosity": -1,
}


class Engine:
    """The engine's own order: a baseline, and what others begin with."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def show(self, query: int) -> Shown:
        """Return the list for a customer."""
        return Shown(self.best(query)[:PLACES])

    def learn(self, query: int, shown: Shown, clicks: np.ndarray) -> None:
        """Take the clicks on a list."""

    def settle(self) -> None:
        """Do nothing: clicks are learned when they come."""

    def best(self, query: int) -> np.ndarray:
        """Return the candidates by score, ties in the engine's order."""
        return np.lexsort((-self.shop.engine[query], -self.scores(query)))

    def scores(self, query: int) -> np.ndarray:
        """Return what stands above the engine's score; [C]."""
        return np.zeros(N_CANDIDATES)


class Counter(Engine):
    """The share of clicks of each candidate where it was examined, smoothed towards 0; the engine decides ties."""

    strength = 5.0  # how many examinations without a click are added

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop)
        self.n_clicked, self.n_examined = np.zeros_like(shop.engine), np.zeros_like(shop.engine)

    def learn(self, query: int, shown: Shown, clicks: np.ndarray) -> None:
        """Count the clicks on a list, and what was examined: down to the last click, and one place more."""
        if clicks.any():
            last = int(np.flatnonzero(clicks)[-1])
            self.n_examined[query, shown.order[: last + 1 + RULES.examined_beyond]] += 1
            self.n_clicked[query, shown.order[clicks]] += 1

    def scores(self, query: int) -> np.ndarray:
        """Return the smoothed shares; [C]."""
        return self.n_clicked[query] / (self.n_examined[query] + self.strength)


class LightGBM(Engine):
    """LambdaMART, trained anew every 1,000 searches on the clicks on its own lists; before, the engine's order.

    A pair is a group of two documents with the weight that our ranker would give it, so that both know the same about
    examination. Groups of all examined documents learn that lower places are better, which the pairs correct.
    """

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop)
        self.rows = np.concatenate([shop.features, shop.engine[..., None]], axis=-1)
        self.pairs: list[np.ndarray] = []  # [2 P, d]: each winner, then its loser
        self.weights: list[np.ndarray] = []
        self.n_searches = 0
        self.trained = np.zeros_like(shop.engine)

    def learn(self, query: int, shown: Shown, clicks: np.ndarray) -> None:
        """Keep the pairs that the clicks tell, and train when it is time."""
        self.n_searches += 1
        if clicks.any():
            places, weights = _told(clicks)
            self.pairs.append(self.rows[query, shown.order[places]])
            self.weights.append(weights)
        if self.n_searches % RETRAINED_EVERY == 0:
            self._train()

    def _train(self) -> None:
        import lightgbm

        weights = np.concatenate(self.weights)
        data = lightgbm.Dataset(
            np.concatenate(self.pairs),
            np.tile([1, 0], len(weights)),
            weight=np.repeat(weights, 2),
            group=np.full(len(weights), 2),
        )
        booster = lightgbm.train(LAMBDAMART, data, num_boost_round=100)
        scores = np.asarray(booster.predict(self.rows.reshape(-1, self.rows.shape[-1]), num_threads=1))
        self.trained = scores.reshape(self.trained.shape)

    def scores(self, query: int) -> np.ndarray:
        """Return the scores of the last training; [C]."""
        return self.trained[query]


def _told(clicks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of each winner and then its loser [2 P], and the weights of the pairs [P]."""
    found = _inferred(clicks)
    weights = np.asarray(found.weight)
    places = np.stack([found.winner, found.loser], axis=1)[weights > 0]
    return places.ravel(), weights[weights > 0]


@jax.jit
def _inferred(clicks: jax.Array) -> Pairs:
    """Return the pairs that the service's default ranker infers."""
    shown = Query(jnp.zeros((PLACES, 1)), jnp.ones(PLACES, bool), jnp.zeros((PLACES, 2), jnp.uint32), jnp.zeros(PLACES))
    return inferred(
        Interaction(shown, clicks, None),
        jax.random.key(0),  # not used where all pairs count
        beyond=RULES.examined_beyond,
        pairs=RULES.pairs,
        inclusion=RULES.inclusion,
        beyond_weight=RULES.beyond_weight,
    )


class Served:
    """A model of a running service, asked as an application would ask it."""

    def __init__(
        self, client: Client, shop: Shop, spec: dict[str, Any], prior: float, check: Callable[[], None]
    ) -> None:
        self.client, self.shop, self.check = client, shop, check
        self.prior = shop.engine * np.float32(prior) if prior else None
        self.ids = [[f"product-{product}" for product in row] for row in shop.products]
        self.learned = {0: 0}  # by version
        self.n_told = 0
        # A service that has not compiled yet lets clicks wait; the trial measures what follows.
        self._rehearse(spec)
        client.put_model(MODEL, **spec)

    def show(self, query: int) -> Shown:
        """Return the list for a customer; the learner may be behind by a share of all searches."""
        self._wait_for(self.n_told - max(MOST_BEHIND, int(SHARE_BEHIND * self.n_told)))
        return self._shown(query, MODEL)

    def _shown(self, query: int, model: str) -> Shown:
        prior = None if self.prior is None else self.prior[query]
        ids = self.ids[query]
        shown = self.client.rank_arrays(ids, self.shop.features[query], prior, model=model, top=PLACES)
        order = np.array([ids.index(each) for each in shown.ids])
        behind = self.n_told - self._learned_by(shown.version) if model == MODEL else 0
        return Shown(order, shown.impression, behind)

    def learn(self, query: int, shown: Shown, clicks: np.ndarray) -> None:
        """Send the clicks."""
        chosen = [self.ids[query][each] for each in shown.order[clicks]]
        self.client.feedback(shown.impression, chosen, model=MODEL, final=True)
        self.n_told += 1

    def settle(self) -> None:
        """Wait until all clicks are learned."""
        self._wait_for(self.n_told)

    def best(self, query: int) -> np.ndarray:
        """Return the best estimate's order, which `explain` gives without a record in the log."""
        self.check()
        return self._best(query, MODEL)

    def _best(self, query: int, model: str) -> np.ndarray:
        priors = [None] * N_CANDIDATES if self.prior is None else self.prior[query].tolist()
        ids, rows = self.ids[query], self.shop.features[query].tolist()
        documents = [{"id": i, "features": x, "prior": p} for i, x, p in zip(ids, rows, priors, strict=True)]
        return np.array([ids.index(place["id"]) for place in self.client.explain(documents, model=model)["ranking"]])

    def _rehearse(self, spec: dict[str, Any]) -> None:
        """Let a model of the same kind show, learn and explain one list, so that everything is compiled."""
        self.client.put_model(REHEARSAL, **spec)
        shown = self._shown(0, REHEARSAL)
        self.client.feedback(shown.impression, [self.ids[0][shown.order[1]]], model=REHEARSAL, final=True)
        self._look_until(lambda: self.client.model(REHEARSAL)["learned"] == 1)
        self._best(0, REHEARSAL)
        self.client.delete_model(REHEARSAL)

    def _wait_for(self, n: int) -> None:
        """Wait until the served version has learned n searches."""
        if max(self.learned.values()) < n:
            self._look_until(lambda: self._served_learned() >= n)

    def _served_learned(self) -> int:
        served = self.client.model(MODEL)
        self.learned[served["version"]] = served["learned"]
        return served["learned"]

    def _learned_by(self, version: int) -> int:
        """Return how many searches a version has learned."""
        if version not in self.learned:
            self.learned |= {each["version"]: each["learned"] for each in self.client.versions(MODEL)["versions"]}
        return self.learned[version]

    def _look_until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS_TO_LEARN
        while not holds():
            self.check()
            if time.monotonic() > end:
                raise BadInput(f"the service has not learned in {SECONDS_TO_LEARN:g} s", "is its learner at work?")
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _scaled(shop: Shop) -> list[Feature]:
    """Return the features with mean 0 and standard deviation 1, as somebody would scale them who knows them all."""
    rows = shop.features.reshape(-1, len(FEATURES)).astype(np.float64)
    stds = rows.std(axis=0)
    scales = np.where(stds > 1e-9 * np.abs(rows).max(axis=0), stds, 1.0)
    columns = zip(FEATURES, rows.mean(axis=0).tolist(), scales.tolist(), strict=True)
    return [Feature(name, shift, scale) for name, shift, scale in columns]


# Of the arms with a service: what the model says beside its number of features, what the prior is multiplied by.
LIMITS = {"exploration": {"protected": 1, "displacement": 3}}
SERVED: dict[str, tuple[bool, dict[str, Any], float]] = {
    "default": (True, {}, 1.0),
    "unscaled": (False, {}, 1.0),
    "prior x0.05": (True, {}, 0.05),
    "prior x20": (True, {}, 20.0),
    "no prior": (True, {}, 0.0),
    "limits on": (True, LIMITS, 1.0),
}
ALONE: dict[str, Callable[[Shop], Arm]] = {"engine": Engine, "counter": Counter, "lightgbm": LightGBM}
ARMS = ("engine", *SERVED, "counter", "lightgbm")


def arms_named(names: str) -> list[str]:
    """Return the arms of a list with commas between; none: all."""
    chosen = [name.strip() for name in names.split(",") if name.strip()] or list(ARMS)
    for name in chosen:
        if name not in ARMS:
            raise unknown("arm", name, list(ARMS))
    return chosen


@contextmanager
def arm_of(name: str, shop: Shop, check: Callable[[], None]) -> Iterator[Arm]:
    """Yield an arm that knows nothing yet; its service, if it has one, ends with the block."""
    if name in ALONE:
        yield ALONE[name](shop)
        return
    is_scaled, more, prior = SERVED[name]
    spec = {"n_features": len(FEATURES), "features": _scaled(shop) if is_scaled else None} | more
    with running_service(None, N_CANDIDATES) as (url, _), Client(url, timeout=SECONDS_TO_LEARN) as client:
        yield Served(client, shop, spec, prior, check)
