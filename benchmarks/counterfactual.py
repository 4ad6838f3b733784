"""How often the intervals of `perturank.counterfactual` hold the truth: simulated traffic whose truth is known.

`python -m benchmarks.counterfactual` prints the table of docs/reference/estimators.md.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank.catalogue import published
from perturank.clicks import dcm, pbm
from perturank.core import Array, Interaction, Limits, Query, Ranker
from perturank.counterfactual import ESTIMATORS, LoggedLists, Reward, cross_fitted, evaluate, place_rewards

N_QUERIES, N_DOCUMENTS, PLACES, N_FEATURES, GRADES = 30, 6, 3, 5, 3
ANYWHERE = 1000
USERS = ("perfect", "navigational", "informational", "position-based")
# Which users meet what an estimator assumes, beside those of whom nothing is assumed.
CASCADE = USERS
ITEM_POSITION = ("perfect", "position-based")  # a perfect user reads every place
# The ranker that shows lists, its settings, and after how many clicked lists it is frozen.
POLICIES = {
    "P²": ("p2linrank", {"n_rankers": 10, "noise_std": 0.4, "floor": 0.1}, 60),
    "PDGD": ("pdgd-linear", {}, 60),
    "ε-greedy": ("epsilon-greedy-linear", {"epsilon": 0.5}, 60),
    "P², certain": ("p2linrank", {"noise_std": 0.01, "floor": 0.0}, 300),
}
TARGET = ("pdgd-linear", {"learning_rate": 0.3}, 300)
LISTS = np.array(list(itertools.permutations(range(N_DOCUMENTS), PLACES)))


@dataclass(frozen=True)
class World:
    """Queries with graded documents: features [Q, V, d], grades [Q, V]."""

    features: np.ndarray
    grades: np.ndarray

    @classmethod
    def of(cls, seed: int) -> World:
        """Return a world in which three grades follow from a linear score with noise."""
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(N_QUERIES, N_DOCUMENTS, N_FEATURES))
        score = features @ rng.normal(size=N_FEATURES) + rng.normal(size=(N_QUERIES, N_DOCUMENTS))
        grades = np.digitize(score, np.quantile(score, [0.6, 0.85]))
        return cls(features, grades)

    def query(self, number: int) -> Query:
        """Return one query."""
        return Query.of(self.features[number])


@dataclass(frozen=True)
class User:
    """A person: how probable a click on a grade is at a place that is read, reading on, and reading it at all [k]."""

    p_click: np.ndarray
    p_stop: np.ndarray
    p_read: np.ndarray

    @classmethod
    def named(cls, name: str) -> User:
        """Return the library's user of this name, for three grades."""
        if name == "position-based":
            person = pbm.position_based(GRADES)
            return cls(np.asarray(person.p_click), np.zeros(GRADES), np.asarray(person.examination(PLACES)))
        click, stop = dcm.TABLES[name][GRADES]
        return cls(np.array(click), np.array(stop), np.ones(PLACES))

    def clicks(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return clicks on lists of these grades [n, k]."""
        lots = rng.random((3, *grades.shape))
        stops = lots[0] < self.p_stop[grades]
        goes_on = np.cumsum(stops, axis=1) - stops == 0
        return goes_on & (lots[1] < self.p_read) & (lots[2] < self.p_click[grades])

    def value(self, grades: np.ndarray, reward: Reward) -> float:
        """Return what lists of these grades [n, k] earn on average, exactly."""
        attracts = self.p_read * self.p_click[grades]
        stays = np.cumprod(np.column_stack([np.ones(len(grades)), 1 - self.p_stop[grades][:, :-1]]), axis=1)
        if reward == "first-click":
            unclicked = np.cumprod(np.column_stack([np.ones(len(grades)), 1 - attracts[:, :-1]]), axis=1)
            return float((stays * unclicked * attracts / np.arange(1, PLACES + 1)).sum(axis=1).mean())
        worth = place_rewards(reward, np.ones((1, PLACES)))
        return float((stays * attracts * worth).sum(axis=1).mean())


def frozen(world: World, name: str, settings: dict[str, float], rounds: int, seed: int) -> Ranker:
    """Return a ranker that has learned from so many lists, clicked by navigational users."""
    user, rng = User.named("navigational"), np.random.default_rng(seed)
    ranker: Ranker = published(name).make(
        N_FEATURES, jax.random.key(seed), published(name).settings.changed(**settings)
    )
    for turn in range(rounds):
        number = int(rng.integers(N_QUERIES))
        query = world.query(number)
        ranking = ranker.rank(query, jax.random.fold_in(jax.random.key(seed), turn), PLACES)
        clicked = user.clicks(world.grades[number][ranking.documents][None], rng)[0]
        seen = Interaction.of(query, ranking, ranking.documents[clicked])
        ranker = ranker.learn(seen, jax.random.fold_in(jax.random.key(seed + 1), turn))
    return ranker


@eqx.filter_jit
def _log_p(ranker: Ranker, query: Query, lists: Array) -> Array:
    """Return the log-probability of each place of these lists [m, k]."""

    def one(order: Array) -> Array:
        none = (jnp.asarray(0), jnp.asarray(ANYWHERE), jnp.asarray(True))
        limits = Limits.of(ranker.score(query), query.mask, *none, given=order)
        asked = Query(query.features, query.mask, query.ids, query.prior, limits)
        log_p = ranker.rank(asked, jax.random.key(0), PLACES).log_p
        assert log_p is not None
        return log_p

    return jax.vmap(one)(lists)


@dataclass(frozen=True)
class Traffic:
    """A ranker's lists and another ranker, by query: every list's places and probabilities, and B's list."""

    places: np.ndarray  # [Q, m, k] probabilities of the places
    whole: np.ndarray  # [Q, m]
    marginal: np.ndarray  # [Q, k, V]
    best: np.ndarray  # [Q, k] B's list
    reach: np.ndarray  # [Q, k] probability of its first documents

    @classmethod
    def of(cls, world: World, shows: Ranker, other: Ranker) -> Traffic:
        """Return the probabilities of all lists, exactly."""
        log_p = partial(_log_p, shows, lists=jnp.asarray(LISTS))
        places = np.exp(np.stack([np.asarray(log_p(world.query(q)), np.float64) for q in range(N_QUERIES)]))
        whole = np.where(places > 0, places, 0).prod(axis=2)
        whole /= whole.sum(axis=1, keepdims=True)  # they sum to 1 but for float32
        marginal = np.zeros((N_QUERIES, PLACES, N_DOCUMENTS))
        for number, order in enumerate(LISTS):
            marginal[:, np.arange(PLACES), order] += whole[:, number, None]
        scores = np.stack([np.asarray(other.score(world.query(q)))[:N_DOCUMENTS] for q in range(N_QUERIES)])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :PLACES]
        index = [int(np.flatnonzero((order == LISTS).all(axis=1))[0]) for order in best]
        reach = np.cumprod(places[np.arange(N_QUERIES), index], axis=1)
        return cls(places, whole, marginal, best, reach)

    def lists(self, world: World, user: User, reward: Reward, n: int, rng: np.random.Generator) -> LoggedLists:
        """Return n logged lists with everything that the estimators can use."""
        q = rng.integers(N_QUERIES, size=n)
        drawn = (np.cumsum(self.whole, axis=1)[q] < rng.random(n)[:, None]).sum(axis=1).clip(max=len(LISTS) - 1)
        shown, best, place = LISTS[drawn], self.best[q], np.arange(PLACES)
        earned = place_rewards(reward, user.clicks(world.grades[q[:, None], shown], rng))
        rows = world.features[q[:, None], shown], world.features[q[:, None], best]
        return LoggedLists(
            earned,
            self.places[q, drawn],
            np.where(np.cumprod(np.column_stack([np.ones(n), (shown == best)[:, :-1]]), axis=1) > 0, shown == best, 0),
            reach=self.reach[q],
            logged_marginal=self.marginal[q[:, None], place, shown],
            target_marginal=shown == best,
            marginal_reach=self.marginal[q[:, None], place, best],
            predictions=cross_fitted(earned, *rows, np.ones(shown.shape, bool)),
        )


@dataclass(frozen=True)
class Outcome:
    """What became of one estimator: how often its interval held the truth, its bias, how often it was refused."""

    coverage: float
    bias: float
    width: float
    refused: float
    effective: float
    gain_coverage: float


def study(
    world: World, traffic: Traffic, user: User, reward: Reward, n: int, repetitions: int, seed: int
) -> dict[str, Outcome]:
    """Return what became of each estimator over so many repetitions of n lists."""
    rng = np.random.default_rng(seed)
    q = np.arange(N_QUERIES)[:, None]
    truth = user.value(world.grades[q, traffic.best], reward)
    shown = sum(
        user.value(world.grades[each][LISTS][[m]], reward) * traffic.whole[each, m]
        for each in range(N_QUERIES)
        for m in np.flatnonzero(traffic.whole[each] > 0)
    )
    gain = truth - float(shown) / N_QUERIES
    found: dict[str, list[tuple[float, float, float, bool]]] = defaultdict(list)
    refused: dict[str, list[float]] = defaultdict(list)
    for _ in range(repetitions):
        for name, each in evaluate(traffic.lists(world, user, reward, n, rng)).items():
            refused[name].append(each.effective)
            if each.gain is not None and each.value is not None and each.low is not None and each.high is not None:
                found[name].append((each.value, each.low, each.high, each.gain.low <= gain <= each.gain.high))
    outcomes = {}
    for name in ESTIMATORS:
        values = np.array(found[name]).reshape(-1, 4)
        holds = (values[:, 1] <= truth) & (truth <= values[:, 2])
        given = len(values) > 0
        outcomes[name] = Outcome(
            float(holds.mean()) if given else float("nan"),
            float(values[:, 0].mean() - truth) if given else float("nan"),
            float(np.median(values[:, 2] - values[:, 1])) if given else float("nan"),
            1 - len(values) / repetitions,
            float(np.median(refused[name])),
            float(values[:, 3].mean()) if given else float("nan"),
        )
    return outcomes


def meets(estimator: str, user: str) -> bool:
    """Return whether this user does what the estimator assumes; nobody can say it of the direct method."""
    return estimator != "dm" and ("iips" not in estimator or user in ITEM_POSITION)


def rows(
    policies: list[str], n: int, repetitions: int, rewards: tuple[Reward, ...], seed: int
) -> Iterator[tuple[str, str, str, str, Outcome]]:
    """Yield policy, user, reward, estimator and what became of it."""
    world = World.of(seed)
    other = frozen(world, *TARGET, seed=7)
    for policy in policies:
        traffic = Traffic.of(world, frozen(world, *POLICIES[policy], seed=3), other)
        for user, reward in itertools.product(USERS, rewards):
            found = study(world, traffic, User.named(user), reward, n, repetitions, seed=5)
            for estimator, outcome in found.items():
                # The first click depends on the places above it, whoever clicks.
                if not (reward == "first-click" and "iips" in estimator):
                    yield policy, user, reward, estimator, outcome


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=3000)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--rewards", nargs="+", default=["first-click", "clicks"])
    parser.add_argument("--seed", type=int, default=1, help="of the world")
    said = parser.parse_args()
    print(
        "| shown by | user | reward | estimator | refused | coverage | of the gain | bias | width | lists in effect |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for policy, user, reward, estimator, found in rows(
        said.policies, said.lists, said.repetitions, tuple(said.rewards), said.seed
    ):
        mark = "" if meets(estimator, user) else " (not met)"
        numbers = f"{found.coverage:.1%} | {found.gain_coverage:.1%} | {found.bias:+.4f} | {found.width:.3f}"
        numbers = "– | – | – | –" if found.refused == 1 else numbers
        print(
            f"| {policy} | {user} | {reward} | {estimator}{mark} | {found.refused:.0%} | {numbers} | "
            f"{found.effective:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
