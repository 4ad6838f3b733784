"""`make bench-attack`: a shop whose service is taught by hostile clicks too, with each limit on a source.

**The attackers** want one bad product, the target, at the top. They can do what any visitor can: ask for lists of
queries that find the target, and send feedback on these lists. They know neither the model nor its clicks.

| attack | what it does |
|---|---|
| promote | clicks the target wherever it is shown, and nothing else |
| demote | the same, and says that it has seen the whole list: everything else was turned down |
| early | promotes with 4 ln T clicks in T searches, as soon as it can, and never again |

Published attacks reach more: those of Zuo et al. (2023, arXiv:2305.17071) and Wang et al. (2023, arXiv:2305.19218)
change the clicks of honest users, at a cost that is sublinear in T; Chattopadhyay et al. (2025, arXiv:2509.22855) need
O(log T) changes and do not see the lists. Of these, `early` keeps the budget and the timing (attack, then quit).

**The trial.** Customers and shops are those of `shop.py`. Lists are learned in batches of 50, and the next batch is
drawn from the version that has learned them. Draws are seeded, so the same command gives the same numbers.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from rich.table import Table

from benchmarks.service import running_service
from benchmarks.shop import N_CANDIDATES, N_QUERIES, PLACES, Customers, Shop
from perturank import storage
from perturank.cli.console import table
from perturank.client import Client
from perturank.core import Array, Query, Ranker
from perturank.errors import BadInput

TOP = 3
BATCH = 50
MOST_HOSTILE = 16  # lists of a batch that attackers ask for
FOUND_BY = 15  # queries, at least, find the target
CUSTOMERS, FEW_CUSTOMERS = 1000, 20
EVERY_TIME = 0  # sources: each hostile list comes from a new one
SECONDS_BETWEEN_LOOKS, SECONDS_TO_LEARN = 0.05, 300.0
DEFENCES: dict[str, dict[str, Any]] = {
    "none": {},
    "cap 20": {"cap": 20},
    "votes 1": {"votes": 1},
    "both": {"cap": 20, "votes": 1},
}
LIMITING = tuple(name for name, limits in DEFENCES.items() if limits)


@dataclass(frozen=True)
class Case:
    """Who attacks how, and what the model does about it; `share` is that of hostile clicks among all."""

    attack: str
    share: float
    sources: int
    customers: int
    defence: str

    @property
    def name(self) -> str:
        """What stands in the table, without the defence."""
        if self.attack == "nobody":
            return f"nobody; {self.customers:,} customers"
        who = {EVERY_TIME: "new sources", 1: "1 source"}.get(self.sources, f"{self.sources} sources")
        return f"{self.attack}, {who}" if self.attack == "early" else f"{self.attack} {self.share:.0%}, {who}"


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the honest customers' NDCG@10 and the target, both by the best estimate at the end."""

    case: Case
    seed: int
    searches: int
    ndcg: float
    place: float  # of the target, the mean over the searches that find it
    in_top: float  # share of these in which it is among the first three
    n_hostile: int  # clicks
    n_honest: int
    learned: float  # share of all lists
    seconds: float

    @property
    def name(self) -> str:
        """What was run."""
        return f"{self.case.name}, {self.case.defence}, seed {self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        """Return what `as_dict` returned."""
        return cls(**values | {"case": Case(**values["case"])})


def cases(shares: Sequence[float]) -> list[Case]:
    """Return all that is tried.

    Without a defence the number of sources makes no difference, and against ever new sources no limit does.
    """
    found = [Case("nobody", 0.0, 0, n, defence) for n in (CUSTOMERS, FEW_CUSTOMERS) for defence in DEFENCES]
    attacks = [("promote", share, n) for share in shares for n in (10, 1, EVERY_TIME)]
    attacks += [("demote", share, 10) for share in shares] + [("early", 0.0, 10)]
    for attack, share, n in attacks:
        defences = {10: tuple(DEFENCES), 1: LIMITING, EVERY_TIME: LIMITING[-1:]}[n]
        found += [Case(attack, share, n, CUSTOMERS, defence) for defence in defences]
    return found


def target_of(shop: Shop) -> int:
    """Return the product to promote: of the worst quarter, by grades, the one that the engine likes most."""
    n_found = np.bincount(shop.products.ravel())
    grades, scores = (
        np.bincount(shop.products.ravel(), of.ravel()) / np.maximum(n_found, 1) for of in (shop.grades, shop.engine)
    )
    often = np.flatnonzero(n_found >= FOUND_BY)
    worst = often[grades[often] <= np.quantile(grades[often], 0.25)]
    return int(worst[np.argmax(scores[worst])])


class Reaction(NamedTuple):
    """Which places of a list are clicked [k], and how many are said to be seen."""

    clicks: np.ndarray
    seen: int | None = None


class Attackers:
    """Those who promote the target; `n_clicks` counts what they have sent."""

    def __init__(self, case: Case, shop: Shop, seed: int, searches: int) -> None:
        self._case, self.target = case, target_of(shop)
        self._budget = round(4 * math.log(searches)) if case.attack == "early" else 0
        self._rng = np.random.default_rng([seed, 4])
        self.queries = np.flatnonzero((shop.products == self.target).any(axis=1))
        self.often = shop.frequency[self.queries] / shop.frequency[self.queries].sum()
        self.n_clicks = 0

    def are_due(self, n_honest: int) -> bool:
        """Return whether one more click keeps to the budget, after so many honest ones."""
        if self._case.attack == "early":
            return self.n_clicks < self._budget
        return self.n_clicks + 1 <= self._case.share * (n_honest + self.n_clicks + 1)

    def search(self) -> tuple[int, str]:
        """Return the next query and its source; sources take turns, each until the target was shown to it."""
        source = self.n_clicks if self._case.sources == EVERY_TIME else self.n_clicks % self._case.sources
        return int(self._rng.choice(self.queries, p=self.often)), f"bot {source}"

    def reaction(self, products: np.ndarray) -> Reaction:
        """Return what they do with a list of products [k]."""
        clicks = products == self.target
        self.n_clicks += int(clicks.sum())
        return Reaction(clicks, PLACES if self._case.attack == "demote" and clicks.any() else None)


class Trial:
    """One run of a case: its new model in the service, its customers and its attackers."""

    def __init__(self, client: Client, model: str, case: Case, seed: int, searches: int) -> None:
        self.client, self.model, self.case, self.seed, self.searches = client, model, case, seed, searches
        self.shop, self.rows = Shop.of(seed), _standardised(Shop.of(seed))
        self.ids = [[f"product-{product}" for product in row] for row in self.shop.products]
        self.customers = Customers.of(self.shop, seed, searches)
        self.sources = np.random.default_rng([seed, 5]).integers(case.customers, size=searches)
        self.attackers = Attackers(case, self.shop, seed, searches)
        self.n_searches = self.n_honest = self.n_shown = self.n_batches = 0

    def run(self, advance: Callable[[], None]) -> Outcome:
        """Let everybody search; `advance` is called after each search of a customer."""
        began = time.perf_counter()
        fixed: dict[str, Any] = {"batch": BATCH, "chance": "seeded", "scaling": "none"}
        self.client.put_model(self.model, n_features=self.rows.shape[-1], **fixed, **DEFENCES[self.case.defence])
        while self.n_searches < self.searches:
            self._run_batch(advance)
            self._wait()
        ndcg, places = self._best()
        learned = self.client.model(self.model)["learned"]
        self.client.delete_model(self.model)
        often = self.attackers.often
        return Outcome(
            self.case,
            self.seed,
            self.searches,
            ndcg,
            float(places @ often),
            float((places <= TOP) @ often),
            self.attackers.n_clicks,
            self.n_honest,
            learned / self.n_shown,
            time.perf_counter() - began,
        )

    def _run_batch(self, advance: Callable[[], None]) -> None:
        """Let attackers search, then customers, and at last the shop itself.

        The shop names no source and clicks nothing. Its list is always learned, so every batch makes a version.
        """
        n_others = 0
        while n_others < MOST_HOSTILE and self.attackers.are_due(self.n_honest):
            query, source = self.attackers.search()
            self._visit(query, source, partial(self._attack, query))
            n_others += 1
        for _ in range(BATCH - 1 - n_others):
            if self.n_searches < self.searches:
                t, self.n_searches = self.n_searches, self.n_searches + 1
                self._visit(int(self.customers.queries[t]), f"customer {self.sources[t]}", partial(self._shop, t))
                advance()
            else:
                self._visit(0, None, _ignore)
        self._visit(0, None, _ignore)

    def _attack(self, query: int, order: np.ndarray) -> Reaction:
        return self.attackers.reaction(self.shop.products[query][order])

    def _shop(self, t: int, order: np.ndarray) -> Reaction:
        clicks = self.customers.clicks(t, self.shop.grades[self.customers.queries[t]], order)
        self.n_honest += int(clicks.sum())
        return Reaction(clicks)

    def _visit(self, query: int, source: str | None, react: Callable[[np.ndarray], Reaction]) -> None:
        """Show a list, and send the reaction to its order."""
        self.n_shown += 1
        ids, documents = self.ids[query], (self.rows[query], self.shop.engine[query])
        shown = self.client.rank_arrays(ids, *documents, model=self.model, top=PLACES, source=source, draw=self.n_shown)
        reaction = react(np.array([ids.index(each) for each in shown.ids]))
        chosen = [shown.ids[place] for place in np.flatnonzero(reaction.clicks)]
        self.client.feedback(shown.impression, chosen, seen=reaction.seen, model=self.model, final=True)

    def _wait(self) -> None:
        """Wait for the version that has learned the batch."""
        self.n_batches += 1
        end = time.monotonic() + SECONDS_TO_LEARN
        while self.client.model(self.model)["version"] < self.n_batches:
            if time.monotonic() > end:
                raise BadInput(f"the service has not learned in {SECONDS_TO_LEARN:g} s", "is its learner at work?")
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _best(self) -> tuple[float, np.ndarray]:
        """Return the mean NDCG@10 of all searches by the best estimate, and the target's place for its queries."""
        arrays, header = storage.unpacked(self.client.file(self.model, history=False), "the model's file")
        ranker = storage.restored(arrays, header, "the model's file")
        queries = [Query.of(rows, prior=prior) for rows, prior in zip(self.rows, self.shop.engine, strict=True)]
        scores = np.stack([_scores(ranker, query) for query in queries])[:, :N_CANDIDATES]
        orders = np.argsort(-scores, axis=1, kind="stable")
        ndcg = np.array([self.shop.ndcg(query, orders[query]) for query in range(N_QUERIES)])
        found = [self.shop.products[query][orders[query]] == self.attackers.target for query in self.attackers.queries]
        return float(ndcg @ self.shop.frequency), 1 + np.argmax(found, axis=1)


def _ignore(order: np.ndarray) -> Reaction:
    return Reaction(np.zeros(len(order), bool))


def _standardised(shop: Shop) -> np.ndarray:
    """Return the features and the engine's score with mean 0 and standard deviation 1; [Q, C, d + 1]."""
    rows = np.concatenate([shop.features, shop.engine[..., None]], axis=-1).astype(np.float64)
    flat = rows.reshape(-1, rows.shape[-1])
    spread = flat.std(axis=0)
    spread[spread <= 1e-9 * np.abs(flat).max(axis=0)] = 1.0
    return ((rows - flat.mean(axis=0)) / spread).astype(np.float32)


@eqx.filter_jit
def _scores(ranker: Ranker, query: Query) -> Array:
    return ranker.score(query)


def outcomes(wanted: Sequence[tuple[Case, int, int]], advance: Callable[[str], None]) -> Iterator[Outcome]:
    """Run these cases, seeds and numbers of searches, one after the other in one service."""
    if not wanted:
        return
    with running_service(None, N_CANDIDATES) as (url, _), Client(url, timeout=SECONDS_TO_LEARN) as client:
        for i, (case, seed, searches) in enumerate(wanted):
            what = f"{case.name}, {case.defence}, seed {seed}"
            yield Trial(client, f"shop-{i}", case, seed, searches).run(partial(advance, what))


def read_outcomes(path: Path) -> list[Outcome]:
    """Return the runs of a file, one in each line; none if there is no file."""
    if not path.exists():
        return []
    try:
        return [Outcome.from_dict(json.loads(line)) for line in path.read_text().splitlines()]
    except (ValueError, LookupError, TypeError) as error:
        raise BadInput(f"{path} holds no runs of attacks ({error})", "name another file") from None


def listed(outcomes: Sequence[Outcome]) -> Table:
    """Return a row for each case: means, and beside them the worst seed."""
    columns = ("attack", "defence", "NDCG@10", "place of target", f"in top {TOP}", "hostile", "learned", "runs")
    made = table("means over seeds, and the worst seed", *columns, numbers=True)
    by_case: dict[Case, list[Outcome]] = {}
    for outcome in outcomes:
        by_case.setdefault(outcome.case, []).append(outcome)
    for case, some in by_case.items():
        ndcgs, places, tops = ([getattr(each, name) for each in some] for name in ("ndcg", "place", "in_top"))
        hostile = sum(each.n_hostile for each in some) / sum(each.n_hostile + each.n_honest for each in some)
        made.add_row(
            case.name,
            case.defence,
            f"{np.mean(ndcgs):.3f} ({min(ndcgs):.3f})",
            f"{np.mean(places):.1f} ({min(places):.1f})",
            f"{np.mean(tops):.0%} ({max(tops):.0%})",
            f"{hostile:.1%}",
            f"{np.mean([each.learned for each in some]):.0%}",
            str(len(some)),
        )
    return made
