"""Drift: which detector tells that people want something else, and how fast rankers follow.

python -m benchmarks.drift --data FOLDER --out FOLDER

Runs are kept in the folder `out` and not run again. The detector of `perturank.drift` and its settings were chosen on
the streams before `CHOSEN_ON`; the tables are made of those from there on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import drift as river

from benchmarks.drift_streams import AFTER, ARMS, BLOCK, KINDS, SIGNALS, Outcome, Stream, Study, clicked
from perturank import machine
from perturank.drift import Watch

N_STREAMS, CHOSEN_ON = 20, 20
ENOUGH = 0.9  # of what a fresh ranker reaches
Values = Iterable[float]
Alarms = Callable[[Values], list[int]]  # a stream's values, NaN where there is none, and the rounds of its alarms


def ours(values: Values) -> list[int]:
    """Return the alarms of the detector that the service uses."""
    watch, found = Watch(), []
    for t, value in enumerate(values, start=1):
        watch = watch if np.isnan(value) else watch.after(float(value))
        if watch.fall is not None:
            found.append(t)
            watch = watch.again()
    return found


def of_river(make: Callable[[], Any], reads: Callable[[float], float] = float, only_falls: bool = False) -> Alarms:
    """Return the alarms of a detector of river; one that also tells rises may be asked for falls only."""

    def alarms(values: Values) -> list[int]:
        detector, found = make(), []
        for t, value in enumerate(values, start=1):
            if np.isnan(value):
                continue
            before = detector.estimation if only_falls else np.inf
            detector.update(reads(value))
            if detector.drift_detected and (not only_falls or detector.estimation < before):
                found.append(t)
        return found

    return alarms


def error(value: float) -> float:
    """Return a value as an error between 0 and 1."""
    return float(np.clip(1 - value, 0, 1))


DETECTORS: dict[str, Alarms] = {
    "perturank.drift": ours,
    "PageHinkley(mode='down')": of_river(lambda: river.PageHinkley(mode="down")),
    "PageHinkley(delta=.01, threshold=15)": of_river(
        lambda: river.PageHinkley(mode="down", delta=0.01, threshold=15.0, alpha=1.0)
    ),
    "ADWIN()": of_river(river.ADWIN),
    "ADWIN(), falls only": of_river(river.ADWIN, only_falls=True),
    "HDDM_A()": of_river(river.binary.HDDMA, error),
    "HDDM_W()": of_river(river.binary.HDDMW, error),
    "DDM(): not first": of_river(river.binary.DDM, lambda value: value < 1),
    "never": lambda values: [],
}


class Score(NamedTuple):
    """How a detector did: changes that it told, alarms that were wrong, changes that it missed."""

    right: int
    wrong: int
    missed: int
    rounds: int
    delays: Sequence[int]

    @classmethod
    def of(cls, alarms: Alarms, runs: Iterable[tuple[Stream, np.ndarray]]) -> Score:
        """Return the score over these streams' signals. Alarms after a change, within the time, are one."""
        right = wrong = missed = n = 0
        delays = []
        for stream, values in runs:
            found, change = alarms(values), stream.change
            due = [] if change is None else [t - change for t in found if change < t <= change + AFTER]
            right, missed = right + bool(due), missed + (change is not None and not due)
            wrong, n = wrong + len(found) - len(due), n + len(values)
            delays += due[:1]
        return cls(right, wrong, missed, n, delays)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(2 * self.right + self.wrong + self.missed, 1)

    def row(self, name: str) -> str:
        """Return it as a row of a table."""
        delay = f"{np.mean(self.delays):.0f}, {max(self.delays)}" if self.delays else ""
        per = 1e4 * self.wrong / self.rounds
        return f"| {name} | {self.f1:.2f} | {self.right} | {self.missed} | {self.wrong} | {per:.1f} | {delay} |"


def always(runs: Sequence[tuple[Stream, np.ndarray]]) -> Score:
    """Return the score of somebody who says of each stream, once and in time, that it has changed."""
    n = sum(stream.change is not None for stream, _ in runs)
    return Score(n, len(runs) - n, 0, sum(len(values) for _, values in runs), [0])


def print_detectors(outcomes: dict[Stream, Outcome]) -> None:
    """Print how each detector did with the signal that the service watches, and how ours does with the others."""
    print("| detector | F1 | told | missed | false | false per 10,000 | delay: mean, longest |")
    print("|---|---|---|---|---|---|---|")
    runs = [(stream, clicked(outcome.signals)) for stream, outcome in outcomes.items()]
    for name, alarms in DETECTORS.items():
        print(Score.of(alarms, runs).row(name), flush=True)
    print(always(runs).row("always"))
    for i, other in enumerate(SIGNALS):
        runs = [(stream, outcome.signals[:, i]) for stream, outcome in outcomes.items()]
        print(Score.of(ours, runs).row(f"perturank.drift on: {other}"), flush=True)


def recovery(after: np.ndarray, target: float) -> int:
    """Return after how many rounds the NDCG reaches enough of a target; one more block if it never does."""
    reached = np.flatnonzero(after >= ENOUGH * target)
    return BLOCK * int(reached[0] if len(reached) else len(after))


def print_recoveries(study: Study, arms: Iterable[tuple[str, bool]], numbers: Sequence[int]) -> None:
    """Print how many rounds after an abrupt change each arm needs to be as good as a fresh one almost is."""
    print("| ranker | rounds: mean ± error | worst | never | to the default's own | NDCG@10 after 500 | after 1,500 |")
    print("|---|---|---|---|---|---|---|")
    for arm, reacts in arms:
        rows = []
        for number in numbers:
            stream = Stream("abrupt", number)
            assert stream.change is not None
            after = study.outcome(arm, stream, reacts).ndcg[stream.change // BLOCK - 1 :, 1]
            after = after[: AFTER // BLOCK + 1]
            targets = [study.outcome(each, Stream("fresh", number)).ndcg[-1, 1] for each in (arm, "default")]
            rows.append([*(recovery(after, target) for target in targets), after[500 // BLOCK], after[-1]])
        own, common, soon, late = np.array(rows).T
        error = own.std(ddof=1) / np.sqrt(len(numbers))
        print(
            f"| {arm}{', forgets' if reacts else ''} | {own.mean():.0f} ± {error:.0f} | {own.max():.0f} "
            f"| {np.mean(own > AFTER):.2f} | {common.mean():.0f}, worst {common.max():.0f} "
            f"| {soon.mean():.3f}, worst {soon.min():.3f} | {late.mean():.3f}, worst {late.min():.3f} |",
            flush=True,
        )


def print_losses(study: Study, numbers: Sequence[int]) -> None:
    """Print what a reaction costs where nothing changes: the NDCG@10 with it, less that without."""
    streams = [Stream("none", number) for number in numbers]
    forgets, stays = (
        np.stack([study.outcome("default", stream, reacts).ndcg[:, 0] for stream in streams])
        for reacts in (True, False)
    )
    lost = forgets - stays  # [streams, blocks]
    for name, each in (("mean over all rounds", lost.mean(axis=1)), ("at the end", lost[:, -1])):
        error = each.std(ddof=1) / np.sqrt(len(numbers))
        print(f"{name}: {each.mean():+.4f} ± {error:.4f}, worst {each.min():+.4f}, others than 0: {np.sum(each != 0)}")


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the intents")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--first", type=int, default=CHOSEN_ON, help="number of the first stream")
    parser.add_argument("--streams", type=int, default=N_STREAMS, help="of each kind")
    parser.add_argument("--arms", default=",".join(ARMS), help="rankers whose recovery is measured")
    parser.add_argument("--tables", default="detectors,recovery,losses")
    asked = parser.parse_args()
    machine.pin_threads(1)
    asked.out.mkdir(exist_ok=True)
    study = Study(asked.data, asked.out)
    numbers = range(asked.first, asked.first + asked.streams)
    print(f"streams of each kind: {numbers[0]} to {numbers[-1]}")
    if "detectors" in asked.tables:
        print("\ndetectors\n")
        every = [Stream(kind, number) for number in numbers for kind in KINDS]
        print_detectors({stream: study.outcome("default", stream) for stream in every})
    if "recovery" in asked.tables:
        print("\nrecovery after abrupt changes\n")
        arms = [(arm, False) for arm in asked.arms.split(",")]
        print_recoveries(study, [*arms, ("default", True)], numbers)
    if "losses" in asked.tables:
        print("\nthe default that forgets, less the default, where nothing changes\n")
        print_losses(study, numbers)


if __name__ == "__main__":
    main()
