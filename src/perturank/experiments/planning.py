"""From a protocol to runs: a pure function of what is asked for and of what is finished.

Hyper-parameters come first: final runs are planned when the validation queries have chosen. So a
sweep asks again and again what is to be done, until nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from perturank import datasets
from perturank.experiments import chosen
from perturank.experiments.evidence import Evidence, data_name
from perturank.experiments.experiment import Arm, Choice, Experiment, Finding
from perturank.experiments.grids import searches
from perturank.experiments.protocol import Protocol
from perturank.experiments.reversals import with_reversals
from perturank.results.job import Job, settings_of
from perturank.results.outcome import RunOutcome

Role = Literal["search", "final"]
Sources = Mapping[str, Sequence[str]]  # data set -> what each of its folds is made of
FIRST_ROUNDS = 10  # the first stage plays this part of the rounds
GO_ON = 3  # and this part of the grid goes on from it


@dataclass(frozen=True)
class Condition:
    """Where an arm is run: on one fold of one data set, by one user."""

    experiment: str
    arm: str
    data: str
    fold: int
    user: str


@dataclass(frozen=True)
class PlannedRun:
    """A run and what it is for."""

    condition: Condition
    role: Role
    job: Job
    changes: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class RunPlan:
    """All runs that can be told now, what was chosen, and how many final runs wait for a choice."""

    runs: tuple[PlannedRun, ...]
    choices: tuple[tuple[Condition, Choice], ...]
    n_waiting: int

    @property
    def jobs(self) -> dict[str, Job]:
        """The distinct runs by key: experiments share them."""
        return {run.job.key: run.job for run in self.runs}


def sources(protocol: Protocol) -> Sources:
    """Return what the data of a protocol are made of; the files are read for it."""
    names = dict.fromkeys(
        data for e in chosen(protocol.experiments, protocol.rankers) for data in e.data or protocol.data
    )
    folds = {data: min(datasets.n_folds(data), protocol.folds or datasets.n_folds(data)) for data in names}
    return {data: [datasets.content(data, fold) for fold in range(1, n + 1)] for data, n in folds.items()}


def plan_runs(protocol: Protocol, of: Sources, done: Mapping[str, RunOutcome], *, guess: bool = False) -> RunPlan:
    """Return what this protocol asks for, as far as the finished runs tell.

    With `guess`, final runs that wait for a choice are planned with the first settings of their grid.
    """
    runs: list[PlannedRun] = []
    choices: list[tuple[Condition, Choice]] = []
    n_waiting = 0
    for experiment in chosen(protocol.experiments, protocol.rankers):
        for condition, arm, points in _conditions(protocol, of, experiment):
            searching = _Search(protocol, of, condition, arm, done, experiment.keeps_orders)
            searched, best = searching.best(points)
            runs += searched
            if best is None:
                n_waiting += protocol.seeds
                if not guess:
                    continue
                best = points[0]
            elif len(points) > 1:
                choices.append((condition, searching.choice(best, points)))
            runs += searching.runs([best], "final", protocol.seeds, protocol.rounds)
    return RunPlan(tuple(runs), tuple(choices), n_waiting)


def findings(protocol: Protocol, of: Sources, done: Mapping[str, RunOutcome]) -> list[Finding]:
    """Return what the finished runs say, experiment by experiment."""
    plan = plan_runs(protocol, of, done)
    return [_finding(experiment, plan, done) for experiment in chosen(protocol.experiments, protocol.rankers)]


def _finding(experiment: Experiment, plan: RunPlan, done: Mapping[str, RunOutcome]) -> Finding:
    finals = [run for run in plan.runs if run.condition.experiment == experiment.name and run.role == "final"]
    runs: dict[str, dict[str, dict[str, list[RunOutcome]]]] = {}
    for run in finals:
        if run.job.key in done:
            condition = run.condition
            by_user = runs.setdefault(data_name(condition.data), {}).setdefault(condition.arm, {})
            by_user.setdefault(condition.user, []).append(done[run.job.key])
    evidence = tuple(Evidence(data, found) for data, found in runs.items())
    if experiment.keeps_orders:
        evidence = tuple(map(with_reversals, evidence))
    choices = tuple(choice for condition, choice in plan.choices if condition.experiment == experiment.name)
    missing = sum(run.job.key not in done for run in finals)
    return Finding(experiment, evidence, choices, missing)


def _conditions(
    protocol: Protocol, of: Sources, experiment: Experiment
) -> Iterator[tuple[Condition, Arm, list[dict[str, Any]]]]:
    for data in experiment.data or protocol.data:
        users = [user for user in protocol.users if not experiment.users or user in experiment.users]
        for fold in range(1, len(of[data]) + 1):
            for user in users or experiment.users:
                for arm in (each for each in experiment.arms if each.label not in protocol.without):
                    for label, points in searches(arm, protocol.grid).items():
                        yield Condition(experiment.name, label, data, fold, user), arm, points


@dataclass(frozen=True)
class _Search:
    """The runs of one arm in one condition."""

    protocol: Protocol
    of: Sources
    condition: Condition
    arm: Arm
    done: Mapping[str, RunOutcome]
    keeps_orders: bool = False

    def runs(self, points: Iterable[Mapping[str, Any]], role: Role, seeds: int, rounds: int) -> list[PlannedRun]:
        """Return the runs of these settings."""
        return [
            PlannedRun(self.condition, role, self._job(point, role, seed, rounds), tuple(point.items()))
            for point in points
            for seed in range(1, seeds + 1)
        ]

    def best(self, points: Sequence[Mapping[str, Any]]) -> tuple[list[PlannedRun], Mapping[str, Any] | None]:
        """Return the runs that choose among the settings, and the chosen one if they are finished."""
        if len(points) == 1:
            return [], points[0]
        p, asked = self.protocol, []
        if p.staged:
            first = self.runs(points, "search", 1, max(1, p.rounds // FIRST_ROUNDS))
            asked += first
            ranked = self._ranked(points, first)
            if ranked is None:
                return asked, None
            points = ranked[: max(2, -(-len(points) // GO_ON))]
        second = self.runs(points, "search", p.tuning_seeds, p.rounds)
        ranked = self._ranked(points, second)
        return asked + second, None if ranked is None else ranked[0]

    def choice(self, best: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> Choice:
        """Return what is told of a choice."""
        made = self.runs([best], "search", self.protocol.tuning_seeds, self.protocol.rounds)
        ndcg = float(np.mean([self.done[run.job.key].last("ndcg") for run in made]))
        condition = self.condition
        return Choice(
            data_name(condition.data), condition.arm, condition.user, condition.fold, dict(best), len(points), ndcg
        )

    def _ranked(
        self, points: Sequence[Mapping[str, Any]], runs: Sequence[PlannedRun]
    ) -> list[Mapping[str, Any]] | None:
        """Return the settings by their mean validation NDCG, best first; None while a run is missing."""
        if any(run.job.key not in self.done for run in runs):
            return None
        found = {tuple(point.items()): list[float]() for point in points}
        for run in runs:
            found[run.changes].append(self.done[run.job.key].last("ndcg"))
        # A run that ended without a number is the worst; equal settings keep the grid's order.
        score = {changes: np.nan_to_num(np.mean(values), nan=-1.0) for changes, values in found.items()}
        return sorted(points, key=lambda point: -score[tuple(point.items())])

    def _job(self, point: Mapping[str, Any], role: Role, seed: int, rounds: int) -> Job:
        p, condition = self.protocol, self.condition
        return Job(
            ranker=self.arm.ranker,
            settings=settings_of(self.arm.ranker, {**self.arm.changes, **point}),
            data=condition.data,
            content=self.of[condition.data][condition.fold - 1],
            fold=condition.fold,
            user=condition.user,
            rounds=rounds,
            seed=seed,
            evaluate_at=p.evaluate_at if role == "final" else (rounds,),
            top=p.top,
            evaluate_on="test" if role == "final" else "validation",
            threads=p.threads,
            keeps_orders=self.keeps_orders and role == "final",
        )
