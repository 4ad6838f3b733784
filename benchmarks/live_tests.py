"""How soon live tests decide, and how seldom they are wrong: `python -m benchmarks.live_tests [DATA…]`.

First, tests of rankers that are alike, looked at after every list. Then pairs of rankers that learned for different
numbers of rounds, whose true difference is known: lists until the right verdict, by interleaving and by a split. DATA
are folders or names of data sets; by default `synthetic`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from perturank import anytime, datasets, machine
from perturank.anytime import Earnings
from perturank.catalogue import published
from perturank.clicks import user
from perturank.core import Array, ClickModel, Key, traced
from perturank.datasets import Dataset, Fold
from perturank.evaluation import Exam
from perturank.interleaving import NOBODY, Draft, team_draft
from perturank.simulation import Plan, simulate

LEVEL = 0.05
TOP = 10
N_ALIKE, LISTS_ALIKE = 1000, 10_000
N_DRAFTS = 48  # of each query
N_LISTS = 100_000  # shown once, from which sequences are drawn
N_TESTS, MOST_LISTS, AT_ONCE = 20, 400_000, 10_000
CARTS = (1.0,) * 90 + (3.0,) * 7 + (10.0,) * 3  # of a hundred clicks
COLUMNS = ("data", "user", "better", "worse", "NDCG@10", "split", "all documents", "team draft", "times fewer")
USERS = ("perfect", "navigational", "informational")
PAIRS = (
    (("p2linrank", 100), ("p2linrank", 30)),
    (("p2linrank", 3000), ("p2linrank", 300)),
    (("p2linrank", 3000), ("p2linrank", 100)),
    (("pdgd-linear", 300), ("pdgd-linear", 100)),
    (("pdgd-linear", 1000), ("pdgd-linear", 100)),
    (("p2linrank", 3000), ("pdgd-linear", 3000)),
)

Drafts = Callable[[Sequence[Sequence[int]], random.Random], Draft]


# Rankers that are alike.


def interleaved_alarms(worths: Sequence[float], n_tests: int = N_ALIKE, n_lists: int = LISTS_ALIKE) -> float:
    """Return the share of interleaved tests of equal arms that ever alarm; worths are of a click's best event."""
    draw = np.random.default_rng(1)
    total, squares, alarmed = np.zeros(n_tests), np.zeros(n_tests), np.zeros(n_tests, bool)
    for _ in range(0, n_lists, 500):
        sign = draw.choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15], size=(n_tests, 500))
        differences = sign * draw.choice(worths, size=sign.shape)
        totals = total[:, None] + np.cumsum(differences, axis=1)
        all_squares = squares[:, None] + np.cumsum(differences**2, axis=1)
        alarmed |= (anytime.log_evidence(totals, all_squares) >= -np.log(LEVEL)).any(axis=1)
        total, squares = totals[:, -1], all_squares[:, -1]
    return float(alarmed.mean())


def split_alarms(
    stays: float, worths: Sequence[float] = (1.0,), n_tests: int = N_ALIKE, n_lists: int = LISTS_ALIKE
) -> float:
    """Return the same of splits among people who look at one list more with probability `stays`.

    Each person clicks as often as they are wont to, and is in one of 1,024 groups.
    """
    draw, row, n_groups = np.random.default_rng(2), np.arange(n_tests), 1024
    n, worth = np.zeros((2, n_tests, n_groups))
    arms, alarmed = np.zeros((2, len(Earnings._fields), n_tests)), np.zeros(n_tests, bool)
    group, habit = draw.integers(n_groups, size=n_tests), draw.beta(1, 2, size=n_tests)
    for _ in range(n_lists):
        is_new = draw.random(n_tests) >= stays
        group = np.where(is_new, draw.integers(n_groups, size=n_tests), group)
        habit = np.where(is_new, draw.beta(1, 2, size=n_tests), habit)
        more = (draw.random(n_tests) < habit) * draw.choice(worths, size=n_tests)
        for arm in (0, 1):
            grown = Earnings(*arms[arm]).grown(n[row, group], worth[row, group], more)
            arms[arm] = np.where(group % 2 == arm, np.array(grown), arms[arm])
        n[row, group] += 1
        worth[row, group] += more
        found = anytime.split_difference(Earnings(*arms[0]), Earnings(*arms[1]))
        alarmed |= anytime.log_evidence(found.total, found.squares) >= -np.log(LEVEL)
    return float(alarmed.mean())


# Rankers of known difference.


class Snapshot(NamedTuple):
    """A ranker after some rounds: its scores of the held-out documents, and its NDCG."""

    scores: np.ndarray
    ndcg: float


def snapshots(fold: Fold) -> dict[tuple[str, int], Snapshot]:
    """Return the rankers of all pairs, learned from informational users."""
    found, clicks = {}, user("informational", fold.n_grades)
    for ranker, rounds in sorted({each for pair in PAIRS for each in pair}):
        run = simulate(Plan(ranker, published(ranker).settings, clicks, fold, rounds, seed=1))
        exam, learned = Exam.of(fold.test, 1), traced(run.ranker)
        found[ranker, rounds] = Snapshot(np.asarray(exam.scores(learned)), exam.ndcg(learned, TOP))
    return found


def plain_draft(lists: Sequence[Sequence[int]], chance: random.Random) -> Draft:
    """Return a team draft in which every document has a team, also those that both rankers agree on."""
    order: list[int] = []
    teams: list[int] = []
    while len(order) < min(TOP, len(lists[0])):
        sizes = [teams.count(team) for team in range(len(lists))]
        team = chance.choice([team for team, size in enumerate(sizes) if size == min(sizes)])
        document = next(each for each in lists[team] if each not in order)
        order.append(document)
        teams.append(team)
    return Draft(order, teams)


def competitive_draft(lists: Sequence[Sequence[int]], chance: random.Random) -> Draft:
    """Return the draft of the service."""
    return team_draft(lists, TOP, chance)


class Shown(NamedTuple):
    """Lists that may be shown, uniformly: grades, which places are real, credit of the first arm less the second's."""

    grades: np.ndarray
    mask: np.ndarray
    credit: np.ndarray

    @classmethod
    def of(cls, data: Dataset, lists: Sequence[tuple[int, Sequence[int], Sequence[float]]]) -> Shown:
        """Return lists of queries, each with its rows and their credits."""
        shown = cls(*(np.zeros((len(lists), TOP), kind) for kind in (np.int32, bool, np.float64)))
        for i, (query, rows, credit) in enumerate(lists):
            n = len(rows)
            shown.grades[i, :n], shown.mask[i, :n] = data.query(query)[1][list(rows)], True
            shown.credit[i, :n] = credit
        return shown

    def outcomes(self, click: Callable[..., Array], seed: int) -> np.ndarray:
        """Return the credit of many lists, each shown to somebody; [N_LISTS]."""
        chosen = np.random.default_rng(seed).integers(len(self.mask), size=N_LISTS)
        keys = jax.random.split(jax.random.key(seed), N_LISTS)
        clicks = np.asarray(click(self.grades[chosen], self.mask[chosen], keys))
        return np.asarray((clicks * self.credit[chosen]).sum(axis=1))


def tops(data: Dataset, scores: np.ndarray) -> list[list[int]]:
    """Return the best documents of each query, ties broken at random."""
    draw = np.random.default_rng(0)
    of_queries = np.split(scores, data.offsets[1:-1])
    return [np.lexsort((draw.random(len(each)), -each))[:TOP].tolist() for each in of_queries]


def drafted(data: Dataset, lists: Sequence[Sequence[list[int]]], draft: Drafts) -> Shown:
    """Return interleaved lists of all queries."""
    chance, found = random.Random(1), []
    for query, of_query in enumerate(zip(*lists, strict=True)):
        for _ in range(N_DRAFTS):
            order, teams = draft(of_query, chance)
            found.append((query, order, [0.0 if team == NOBODY else 1.0 - 2.0 * team for team in teams]))
    return Shown.of(data, found)


def alone(data: Dataset, lists: Sequence[list[int]]) -> Shown:
    """Return the lists of one ranker."""
    return Shown.of(data, [(query, rows, [1.0] * len(rows)) for query, rows in enumerate(lists)])


class Verdicts(NamedTuple):
    """After how many lists each test decided, and for which arm: 1, -1, or 0 where it did not."""

    lists: np.ndarray
    winner: np.ndarray

    @property
    def median(self) -> float:
        """The median number of lists; tests that did not decide count with all that they saw."""
        return float(np.median(self.lists))


def decided(evidence: Iterator[tuple[np.ndarray, np.ndarray]]) -> Verdicts:
    """Return when log E first suffices; evidence comes as blocks of totals and log E, [N_TESTS, AT_ONCE] each."""
    lists, winner, seen = np.full(N_TESTS, MOST_LISTS), np.zeros(N_TESTS), 0
    for total, log_e in evidence:
        is_over = log_e >= -np.log(LEVEL)
        first = np.argmax(is_over, axis=1)
        new = is_over.any(axis=1) & (winner == 0)
        lists[new], winner[new] = seen + first[new] + 1, np.sign(total[new, first[new]])
        seen += AT_ONCE
        if winner.all() or seen >= MOST_LISTS:
            break
    return Verdicts(lists, winner)


def interleaved_evidence(outcomes: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of interleaved tests whose lists are drawn from these."""
    draw, total, squares = np.random.default_rng(3), np.zeros((N_TESTS, 1)), np.zeros((N_TESTS, 1))
    while True:
        some = draw.choice(outcomes, size=(N_TESTS, AT_ONCE))
        totals, all_squares = total + np.cumsum(some, axis=1), squares + np.cumsum(some**2, axis=1)
        yield totals, anytime.log_evidence(totals, all_squares)
        total, squares = totals[:, -1:], all_squares[:, -1:]


def split_evidence(one: np.ndarray, other: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of splits, in which every list is another person's."""
    draw, before = np.random.default_rng(4), np.zeros((2, 3, N_TESTS, 1))
    while True:
        arm = draw.integers(2, size=(N_TESTS, AT_ONCE))
        earned = np.where(arm == 0, draw.choice(one, size=arm.shape), draw.choice(other, size=arm.shape))
        sums = [[np.cumsum((arm == a) * earned**power, axis=1) for power in (0, 1, 2)] for a in (0, 1)]
        now = before + np.array(sums)
        arms = [Earnings(n, worth, n, worth, squares) for n, worth, squares in now]
        found = anytime.split_difference(*arms)
        yield found.total, anytime.log_evidence(found.total, found.squares)
        before = now[..., -1:]


def studied(fold: Fold, clicks: ClickModel, one: Snapshot, other: Snapshot) -> dict[str, Any]:
    """Return the verdicts about two rankers by a split and by either draft."""
    click = jax.jit(jax.vmap(lambda grades, mask, key: _clicked(clicks, grades, mask, key)))
    lists = [tops(fold.test, each.scores) for each in (one, other)]
    earned = [alone(fold.test, each).outcomes(click, seed) for seed, each in enumerate(lists, start=1)]
    return {
        "split": decided(split_evidence(earned[0], earned[1])),
        "all": decided(interleaved_evidence(drafted(fold.test, lists, plain_draft).outcomes(click, 3))),
        "ours": decided(interleaved_evidence(drafted(fold.test, lists, competitive_draft).outcomes(click, 3))),
    }


def _clicked(clicks: ClickModel, grades: Array, mask: Array, key: Key) -> Array:
    return clicks.click(grades, mask, key)


def main(names: Sequence[str]) -> None:
    """Print both tables, as Markdown."""
    print("| tests of arms that are alike, 10,000 lists, looked at after each | false alarms |\n|---|---|")
    print(f"| interleaved, clicks | {interleaved_alarms([1.0]):.1%} |")
    print(
        f"| interleaved, clicks, carts and purchases | {interleaved_alarms([1.0] * 90 + [3.0] * 7 + [10.0] * 3):.1%} |"
    )
    for stays in (0.0, 0.7, 0.95):
        print(f"| split, {1 / (1 - stays):.3g} lists of each person | {split_alarms(stays):.1%} |")
    print(f"| split, purchases too, 3.33 lists of each | {split_alarms(0.7, [1.0] * 95 + [10.0] * 5):.1%} |\n")
    print(
        "| data | user | better | worse | NDCG@10 | split | all documents | team draft | times fewer |\n"
        + "|---" * 9
        + "|"
    )
    ratios, n_wrong = [], dict.fromkeys(("split", "all", "ours"), 0)
    for name in names:
        fold = datasets.load(name)
        rankers = snapshots(fold)
        for of in USERS:
            for pair in PAIRS:
                ours, theirs = sorted(pair, key=lambda each: -rankers[each].ndcg)
                found = studied(fold, user(of, fold.n_grades), rankers[ours], rankers[theirs])
                cells = {way: f"{verdicts.median:,.0f}" for way, verdicts in found.items()}
                wrong = {way: int((verdicts.winner < 0).sum()) for way, verdicts in found.items()}
                for way, n in wrong.items():
                    cells[way] += f" ({n} wrong)" if n else ""
                    n_wrong[way] += n
                is_right = wrong["split"] <= N_TESTS / 2
                ratio = found["split"].median / found["ours"].median if is_right else np.inf
                ratios.append(ratio)
                labels = [f"{ranker}, {rounds:,}" for ranker, rounds in (ours, theirs)]
                gap = rankers[ours].ndcg - rankers[theirs].ndcg
                times = f"{ratio:,.0f}" if is_right else "the split is wrong"
                row = [Path(name).name, of, *labels, f"+{gap:.3f}", *cells.values(), times]
                print("| " + " | ".join(row) + " |", flush=True)
    right = [ratio for ratio in ratios if np.isfinite(ratio)]
    print(f"\nMedian over all {len(ratios)} pairs: {np.median(ratios):.0f} times fewer lists.")
    print(f"Over the {len(right)} in which the split is right: {np.median(right):.0f}.")
    print(f"Wrong verdicts of {N_TESTS * len(ratios)}: {n_wrong}.")


if __name__ == "__main__":
    machine.pin_threads()
    machine.keep_compiled_programs()
    main(sys.argv[1:] or ["synthetic"])
