"""The paper's experiments, from a protocol to findings: plan, run what is missing, look again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perturank import clicks, datasets, significance
from perturank.errors import BadInput
from perturank.experiments.evidence import data_name
from perturank.experiments.experiment import Finding
from perturank.experiments.planning import RunPlan, Sources, findings, plan_runs, sources
from perturank.experiments.protocol import Protocol
from perturank.experiments.trust import Trust
from perturank.results.job import Job
from perturank.results.outcome import RunOutcome
from perturank.results.store import Store
from perturank.sweeps import cost
from perturank.sweeps.speed import matrix_gflops

JobRunner = Callable[[Sequence[Job], Store], None]  # runs jobs and keeps their results: on this machine or on a cluster
CALIBRATION = 0.3  # seconds
MOST_GRADES = 5
GRIDS = {
    "none": "each ranker's defaults: none were searched",
    "paper": "the paper's grids, by validation NDCG@10 after the last round",
    "wide": "the paper's grids, and wider ones beside them, by validation NDCG@10 after the last round",
}


@dataclass(frozen=True)
class Study:
    """A protocol and what its data are made of: what a folder of results answers."""

    protocol: Protocol
    sources: Sources

    @classmethod
    def of(cls, protocol: Protocol) -> Study:
        """Return the protocol with its data looked at; an unknown user is refused before any are read."""
        for name in protocol.users:
            clicks.user(name, MOST_GRADES)
        return cls(protocol, sources(protocol))

    def store(self, folder: Path) -> Store:
        """Return the folder's store, made where there is none; it goes on with this protocol."""
        return Store.open(folder, {**self.protocol.as_dict(), "sources": {k: list(v) for k, v in self.sources.items()}})

    @classmethod
    def by(cls, store: Store) -> Study:
        """Return what was asked of a folder of results last."""
        asked = store.manifest.get("asked") or {}
        if "sources" not in asked:
            raise BadInput(f"{store.folder} does not say what was asked for", "make it with perturank reproduce")
        return cls(Protocol.from_dict(asked), asked["sources"])

    def plan(self, done: Mapping[str, RunOutcome], *, guess: bool = False) -> RunPlan:
        """Return the runs that are asked for, as far as the finished ones tell."""
        return plan_runs(self.protocol, self.sources, done, guess=guess)

    def findings(self, done: Mapping[str, RunOutcome]) -> list[Finding]:
        """Return what the finished runs say."""
        return findings(self.protocol, self.sources, done)


def run_missing(
    study: Study, store: Store, run_jobs: JobRunner, on_plan: Callable[[RunPlan], None]
) -> dict[str, RunOutcome]:
    """Run every job that is asked for and that the store lacks; return all it has.

    `on_plan` is told each time the plan is known better.
    """
    done = store.outcomes()
    while True:
        plan = study.plan(done)
        on_plan(plan)
        missing = [job for key, job in plan.jobs.items() if key not in done]
        if not missing:
            return done
        run_jobs(_longest_first(missing, done), store)
        done |= {job.key: store.outcome(job.key) for job in missing}


@dataclass(frozen=True)
class Estimate:
    """The runs of one experiment and role, how many of them are done, and the seconds of one core for the others."""

    experiment: str
    role: str
    n_runs: int
    n_done: int
    seconds: float


@dataclass(frozen=True)
class Estimates:
    """What a reproduction will take: row by row, for compiling, and how fast this machine is."""

    rows: tuple[Estimate, ...]
    compiling: float
    gflops: float

    @property
    def seconds(self) -> float:
        """The seconds of one core for everything."""
        return self.compiling + sum(row.seconds for row in self.rows)


def estimate(study: Study, done: Mapping[str, RunOutcome]) -> Estimates:
    """Return what is still to be done. A run that several experiments share counts for the first."""
    gflops = matrix_gflops(CALIBRATION)
    runs = study.plan(done, guess=True).runs
    data = _data({run.job.data for run in runs})
    found: dict[tuple[str, str], dict[str, Job]] = {}
    seen: set[str] = set()
    for run in runs:
        own = found.setdefault((run.condition.experiment, run.role), {})  # stays empty where all runs are others' too
        if run.job.key not in seen:
            own[run.job.key] = run.job
            seen.add(run.job.key)
    rows, to_compile = [], []
    for (experiment, role), jobs in found.items():
        missing = [job for key, job in jobs.items() if key not in done]
        to_compile += missing
        seconds = sum(cost.seconds(missing, data, done, gflops))
        rows.append(Estimate(experiment, role, len(jobs), len(jobs) - len(missing), seconds))
    return Estimates(tuple(rows), cost.compiling(to_compile), gflops)


def weights(jobs: Sequence[Job], done: Mapping[str, RunOutcome]) -> dict[str, float]:
    """Return about how many seconds each run takes, by key."""
    costs = cost.seconds(jobs, _data({job.data for job in jobs}), done, cost.REFERENCE_GFLOPS)
    return {job.key: seconds for job, seconds in zip(jobs, costs, strict=True)}


def _longest_first(jobs: Sequence[Job], done: Mapping[str, RunOutcome]) -> list[Job]:
    """Return the runs in an order that leaves no long one for the end."""
    seconds = weights(jobs, done)
    return sorted(jobs, key=lambda job: -seconds[job.key])


def _data(names: Iterable[str]) -> dict[str, cost.Data]:
    folds = {name: datasets.load(name) for name in names}
    return {name: cost.Data(fold.n_features, fold.test.n_documents) for name, fold in folds.items()}


def facts(study: Study, done: Mapping[str, RunOutcome]) -> dict[str, str]:
    """Return what a reader should know of all runs."""
    p = study.protocol
    hours = sum(outcome.last("seconds") for outcome in done.values()) / 3600
    makers = [outcome.made_by for outcome in done.values()]
    return {
        "scale": p.scale,
        "data": ", ".join(
            f"{data_name(data)} ({len(folds)} fold{'s' * (len(folds) > 1)})" for data, folds in study.sources.items()
        ),
        "users": ", ".join(p.users),
        "rounds": f"{p.rounds:,}",
        "seeds": str(p.seeds),
        "hyper-parameters": GRIDS[p.grid],
        "runs": f"{len(done):,}",
        "core time": f"{hours:.2f} h of rank, click and learn",
        "made by": ", ".join(sorted({f"perturank {m['version']}, JAX {m['jax']}, {m['machine']}" for m in makers})),
    }


def numbers(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the final numbers and the verdicts as plain values, for JSON."""
    return [
        {
            "experiment": finding.experiment.name,
            "missing": finding.n_missing,
            "final": [
                {"data": e.data, "arm": arm, "user": user, "runs": len(runs)}
                | {m: _finite(significance.mean([run.last(m) for run in runs]).value) for m in runs[0].measures}
                | {"worst": trust.worst, "tenth_percentile": trust.tenth, "collapses": _finite(trust.collapses)}
                for e in finding.evidence
                for arm, by_user in e.runs.items()
                for user, runs in by_user.items()
                for trust in (Trust.of(runs),)
            ],
            "claims": [
                {"data": e.data, "says": claim.says, "holds": verdict.holds, "because": verdict.because}
                for e in finding.evidence
                for claim in finding.experiment.claims
                for verdict in (claim.check(e),)
            ],
            "choices": [vars(choice) for choice in finding.choices],
        }
        for finding in found
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
