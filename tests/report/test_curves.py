from __future__ import annotations

import csv
import io
import math
import statistics

import numpy as np
from helpers.made_up import drawing, finding, outcome
from pytest import approx
from scipy import stats

from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Arm
from perturank.report import curves

ARMS = (Arm("ours", "p2linrank", is_ours=True), Arm("other", "pdgd"))
ROUNDS = [1, 10, 100]


def evidence(data: str = "synthetic") -> Evidence:
    """Return four runs (two folds, two seeds) of two arms and one user."""
    draw = np.random.default_rng(1)
    runs = {
        arm.label: {
            "perfect": [
                outcome({"ndcg": draw.uniform(0, 1, 3), "regret": [0.0, 1.0, 2.0]}, ROUNDS, fold=fold, seed=seed)
                for fold in (1, 2)
                for seed in (0, 1)
            ]
        }
        for arm in ARMS
    }
    return Evidence(data, runs)


def test_the_csv_holds_the_mean_and_interval_over_all_folds_and_seeds() -> None:
    found = evidence()
    content = curves.to_csv(curves.panels(finding([found], ARMS), drawing()))
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert len(rows) == len(ARMS) * len(ROUNDS)
    for row in rows:
        runs = found.runs[row["curve"]]["perfect"]
        values = [float(run.measures["ndcg"][ROUNDS.index(int(row["round"]))]) for run in runs]
        half = stats.t.ppf(0.975, 3) * statistics.stdev(values) / math.sqrt(4)
        assert float(row["mean"]) == approx(statistics.mean(values))
        assert float(row["low"]) == approx(statistics.mean(values) - half)
        assert float(row["high"]) == approx(statistics.mean(values) + half)
        assert (row["runs"], row["data"], row["user"], row["kind"]) == ("4", "synthetic", "perfect", "arm")


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show() -> None:
    (panel,) = curves.panels(finding([evidence()], ARMS), drawing("regret", log_y=True))
    assert panel.lines[0].rounds.tolist() == [10, 100]


def test_an_unknown_measure_a_user_or_data_set_without_runs_makes_no_panel() -> None:
    empty = Evidence("empty", {"ours": {"perfect": []}})
    both = finding([evidence(), empty], ARMS)
    assert [panel.data for panel in curves.panels(both, drawing())] == ["synthetic"]
    assert curves.panels(both, drawing("uncertain")) == []


def test_references_are_in_the_csv_and_marked_as_such() -> None:
    rounds = np.array([1.0, 100.0])
    shown = drawing("ndcg", references=lambda evidence, user: {f"bound of {user}": (rounds, np.array([1.0, np.inf]))})
    content = curves.to_csv(curves.panels(finding([evidence()], ARMS), shown))
    rows = [row for row in csv.DictReader(io.StringIO(content.decode())) if row["kind"] == "reference"]
    assert [(row["curve"], row["round"], row["mean"], row["low"]) for row in rows] == [
        ("bound of perfect", "1", "1.0", "")
    ]


def test_a_measure_can_stand_in_for_rounds_and_a_control_beside_each_arm() -> None:
    draw = np.random.default_rng(4)
    shares = {name: draw.uniform(0, 1, (2, 3)) for name in ("uncertain", "ndcg", "regret")}
    runs = [outcome({name: shares[name][seed] for name in shares}, ROUNDS, seed=seed) for seed in (0, 1)]
    shown = drawing("ndcg", against="uncertain", control="regret", x_label="share of uncertain pairs")
    found = curves.panels(finding([Evidence("synthetic", {"ours": {"perfect": runs}})], ARMS), shown)
    ((line,), (control,)) = found[0].lines, found[0].controls
    assert line.rounds == approx(shares["uncertain"].mean(axis=0))
    assert line.means == approx(shares["ndcg"].mean(axis=0))
    assert control.name == "ours"
    assert control.means == approx(shares["regret"].mean(axis=0))
    rows = list(csv.DictReader(io.StringIO(curves.to_csv(found, "uncertain").decode())))
    assert [row["kind"] for row in rows] == ["arm"] * 3 + ["control"] * 3
    assert float(rows[0]["uncertain"]) == approx(float(line.rounds[0]))
