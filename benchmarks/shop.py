"""`make bench-shop`: a shop whose customers search, click and teach a real service, beside what else it could do.

**The shop.** 500 products, 200 queries with 50 candidates each. A row of 30 raw features describes a candidate:
how it matches the query, what the product is like, and columns that tell nothing; heavy tails, binaries, constants
and large offsets among them. What a candidate is worth is a nonlinear function of these qualities (the features see
some of them through noise) plus a fifth of the variance that no feature explains. The worth makes grades 0 to 4.

**The engine.** Its score, with a standard deviation of 1 within a query, sees match and sales alone, with noise.

**The customers.** A search draws its query with probability proportional to 1 / rank. The customer examines place r
with probability 1 / r and clicks an examined product of grade g with probability `ATTRACTION[g]`, so

    P(click at place r) = 1 / r × attraction(grade).

No arm is told this. Every random number of the customers belongs to a seed: the examination of a place and the
attraction of a candidate in the t-th search are the same whatever an arm shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

N_PRODUCTS, N_QUERIES, N_CANDIDATES = 500, 200, 50
PLACES = 10
FIRST_SEED = 11  # the baselines were chosen on earlier ones
CHECKPOINTS = (100, 250, 1000, 3000, 10_000)
SHARES = (0.55, 0.75, 0.88, 0.96)  # of all candidates below grades 1, 2, 3 and 4
ATTRACTION = np.array([0.03, 0.07, 0.15, 0.3, 0.6])
EXAMINATION = 1 / np.arange(1, PLACES + 1)
DISCOUNT = 1 / np.log2(np.arange(2, PLACES + 2))
UNEXPLAINED_STD = 0.5  # beside an explained part of variance 1
ENGINE_NOISE_STD = 0.8

FEATURES = (
    *("title_match", "text_match", "same_category", "similarity", "brand_asked_for", "price_gap"),
    *("price", "sales", "views", "rating", "reviews", "listed_at", "number", "in_stock", "reduced", "free_delivery"),
    *("return_rate", "discount", "grams", "images", "title_length", "text_length", "stock", "delivery_days"),
    *("margin", "place_in_category", "is_gift_card", "one", "nothing", "kelvin"),
)


@dataclass(frozen=True)
class Shop:
    """What there is to find: products [Q, C], features [Q, C, d], engine score [Q, C], grades [Q, C], frequency [Q]."""

    products: np.ndarray
    features: np.ndarray
    engine: np.ndarray
    grades: np.ndarray
    frequency: np.ndarray

    @classmethod
    def of(cls, seed: int) -> Shop:
        """Return the shop of a seed."""
        rng = np.random.default_rng([seed, 0])
        tastes = rng.normal(size=(N_QUERIES, 6)) @ rng.normal(size=(6, N_PRODUCTS)) / np.sqrt(6)
        found = np.argsort(-tastes - rng.normal(size=tastes.shape), axis=1)[:, :N_CANDIDATES]
        products = rng.permuted(found, axis=1)  # as sent: in no order
        match = _standard(np.take_along_axis(tastes, products, axis=1))
        columns, worth = _described(match, products, rng)
        worth = _standard(worth) + UNEXPLAINED_STD * rng.normal(size=worth.shape)
        grades = np.searchsorted(np.quantile(worth, SHARES), worth)
        engine = match + 0.5 * _standard(np.log(columns["sales"])) + ENGINE_NOISE_STD * rng.normal(size=match.shape)
        features = np.stack([columns[name] for name in FEATURES], axis=-1).astype(np.float32)
        frequency = rng.permutation(1 / np.arange(1, N_QUERIES + 1))
        return cls(products, features, _standard(engine).astype(np.float32), grades, frequency / frequency.sum())

    def ndcg(self, query: int, order: Sequence[int] | np.ndarray) -> float:
        """Return the NDCG@10 of candidates in this order; every query has a relevant one."""
        gains = 2.0 ** self.grades[query] - 1
        ideal = np.sort(gains)[::-1][:PLACES] @ DISCOUNT
        return float(gains[np.asarray(order)[:PLACES]] @ DISCOUNT / ideal)


def _described(
    match: np.ndarray, products: np.ndarray, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the columns [Q, C] by name, and the part of the worth that they can explain [Q, C]."""
    n, shape = N_PRODUCTS, match.shape
    popularity, log_price = rng.normal(size=n), rng.normal(3, 1, size=n)
    reduced, rating = rng.random(n) < 0.3, np.clip(rng.normal(4, 0.6, size=n), 1, 5)
    reviews = np.floor(np.exp(2 + 1.5 * popularity + rng.normal(size=n)))
    return_rate, in_stock = rng.beta(2, 30, size=n), rng.random(n) < 0.8
    sales = np.exp(3 + 2 * popularity)
    of_product = {
        "price": np.exp(log_price),
        "sales": sales,
        "views": sales * np.exp(rng.normal(3, 0.7, size=n)),
        "rating": rating,
        "reviews": reviews,
        "listed_at": 1.7e9 + 3e7 * rng.random(n),
        "number": 4_000_000.0 + rng.permutation(n),
        "in_stock": in_stock,
        "reduced": reduced,
        "free_delivery": rng.random(n) < 0.5,
        "return_rate": return_rate,
        "discount": 70 * reduced * rng.random(n),
        "grams": np.exp(rng.normal(6, 1.5, size=n)),
        "images": rng.poisson(4, size=n),
        "title_length": rng.integers(10, 120, size=n),
        "text_length": np.exp(rng.normal(7, 1, size=n)),
        "stock": in_stock * rng.pareto(1.2, size=n) * 20,
        "delivery_days": rng.integers(1, 15, size=n),
        "margin": 0.6 * rng.random(n),
        "place_in_category": np.argsort(np.argsort(-sales)) + 1,
        "is_gift_card": rng.random(n) < 0.01,
        "one": np.ones(n),
        "nothing": np.zeros(n),
        "kelvin": np.full(n, 273.15),
    }
    price_gap = log_price[products] - rng.normal(3, 0.5, size=(shape[0], 1))
    brand = rng.random(shape) < 0.15
    of_pair = {
        "title_match": 1 / (1 + np.exp(-match - 0.5 * rng.normal(size=shape))),
        "text_match": 8 * np.exp(0.5 * match + 0.4 * rng.normal(size=shape)),
        "same_category": match + rng.normal(size=shape) > 0,
        "similarity": np.tanh(0.4 * match + 0.2 * rng.normal(size=shape)),
        "brand_asked_for": brand,
        "price_gap": price_gap,
    }
    quality = np.where(reviews > 5, rating - 4, 0) + 0.7 * np.tanh(popularity) + 0.8 * in_stock - 6 * return_rate
    worth = match + 0.8 * quality[products] + 0.9 * brand - 0.35 * np.minimum(price_gap**2, 4)
    return of_pair | {name: column[products] for name, column in of_product.items()}, worth


def _standard(values: np.ndarray) -> np.ndarray:
    """Return the values of each query with mean 0 and standard deviation 1; [Q, C]."""
    return (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)


@dataclass(frozen=True)
class Customers:
    """The searches of a seed: queries [T], and the lots of each for places [T, k] and candidates [T, C]."""

    queries: np.ndarray
    of_places: np.ndarray
    of_candidates: np.ndarray

    @classmethod
    def of(cls, shop: Shop, seed: int, n: int) -> Customers:
        """Return the first n searches of a seed; more searches begin with the same."""
        queries, places, candidates = (np.random.default_rng([seed, stream]) for stream in (1, 2, 3))
        drawn = np.searchsorted(np.cumsum(shop.frequency)[:-1], queries.random(n))
        return cls(drawn, places.random((n, PLACES)), candidates.random((n, N_CANDIDATES)))

    def clicks(self, t: int, grades: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return which places of the list the customer of search t (from 0) clicks; [k]."""
        examined = self.of_places[t] < EXAMINATION
        return examined & (self.of_candidates[t][order] < ATTRACTION[grades[order]])


@dataclass(frozen=True)
class Shown:
    """A list of candidates [k]; the id of the impression, and how many searches its version had not learned yet."""

    order: np.ndarray
    impression: str = ""
    behind: int = 0


class Arm(Protocol):
    """Something that shows lists of a shop and learns from their clicks."""

    def show(self, query: int) -> Shown:
        """Return the list for a customer."""

    def learn(self, query: int, shown: Shown, clicks: np.ndarray) -> None:
        """Take the clicks [k] on a list."""

    def settle(self) -> None:
        """Wait until all clicks are learned."""

    def best(self, query: int) -> np.ndarray:
        """Return the best order that is known, without exploration."""


@dataclass
class Run:
    """An arm's trial of one seed: NDCG@10 by checkpoint, and how far behind the versions were that drew the lists."""

    arm: str
    seed: int
    searches: int
    shown: dict[int, float] = field(default_factory=dict)  # the mean since the checkpoint before
    best: dict[int, float] = field(default_factory=dict)  # over queries as often as they are searched
    best_of_queries: dict[int, float] = field(default_factory=dict)  # over queries, each once
    clicks: float = 0.0  # of a search
    behind_mean: float = 0.0
    behind_most: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """Return what `as_dict` wrote; JSON has made text of the checkpoints."""
        of_checkpoints = ("shown", "best", "best_of_queries")
        return cls(**values | {name: {int(n): x for n, x in values[name].items()} for name in of_checkpoints})


def checkpoints(searches: int) -> list[int]:
    """Return where a trial of so many searches is measured, its end among them.

    >>> checkpoints(1000), checkpoints(120)
    ([100, 250, 1000], [100, 120])
    """
    return sorted({n for n in CHECKPOINTS if n < searches} | {searches})


def run_trial(name: str, arm: Arm, shop: Shop, seed: int, searches: int, advance: Callable[[], None]) -> Run:
    """Let the customers of a seed search; `advance` is called after each search."""
    began = time.perf_counter()
    customers, run = Customers.of(shop, seed, searches), Run(name, seed, searches)
    ndcgs, behind, n_clicks, measured = [], [], 0, 0
    stops = checkpoints(searches)
    for t, query in enumerate(customers.queries.tolist()):
        shown = arm.show(query)
        clicks = customers.clicks(t, shop.grades[query], shown.order)
        arm.learn(query, shown, clicks)
        ndcgs.append(shop.ndcg(query, shown.order))
        behind.append(shown.behind)
        n_clicks += int(clicks.sum())
        advance()
        if t + 1 in stops:
            run.shown[t + 1] = float(np.mean(ndcgs[measured:]))
            measured = t + 1
            arm.settle()
            best = np.array([shop.ndcg(each, arm.best(each)) for each in range(N_QUERIES)])
            run.best[t + 1], run.best_of_queries[t + 1] = float(best @ shop.frequency), float(best.mean())
    run.clicks, run.behind_mean, run.behind_most = n_clicks / searches, float(np.mean(behind)), max(behind)
    run.seconds = time.perf_counter() - began
    return run
