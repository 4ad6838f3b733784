"""The command as people and machines use it: a real process, killed for real."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import fenced
from typer.testing import CliRunner

from perturank.cli import app

PROGRAM = [sys.executable, "-c", "from perturank.cli import main; main()"]
SMALL = ["--experiment", "regret", "--users", "perfect", "--rounds", "600", "--seeds", "2", "--scale", "quick"]


def run(*words: str, code: int = 0) -> str:
    ended = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=900)
    assert ended.returncode == code, ended.stderr
    return ended.stdout if code == 0 else ended.stderr


def as_json(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def said(*words: str, code: int = 0) -> str:
    """Return what a command says where a process of its own would not matter."""
    ended = CliRunner().invoke(app, words, prog_name="perturank", catch_exceptions=False)
    assert ended.exit_code == code, ended.output
    return ended.stdout if code == 0 else ended.stderr


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("unbroken") / "results"
    return folder, as_json("reproduce", *SMALL, "--out", str(folder), "--jobs", "2")


def test_runs_become_figures_numbers_and_a_report(unbroken: tuple[Path, Any]) -> None:
    folder, printed = unbroken
    assert printed["runs"] == 4 * 2
    (regret,) = printed["experiments"]
    assert {row["arm"] for row in regret["final"]} == {"P²LinRank N=2", "PairRank", "PDGD", "random"}
    exponent, order = (claim["holds"] for claim in regret["claims"])  # two runs can leave the first undecided
    assert (exponent is not False, order) == (True, True), regret["claims"]
    assert (folder / "report.html").read_text(encoding="utf-8").count("<img") + (folder / "report.html").read_text(
        encoding="utf-8"
    ).count("<svg") >= 2
    assert {path.suffix for path in (folder / "figures").iterdir()} == {".png", ".pdf", ".csv"}
    assert not list((folder / "running").iterdir())


def test_what_is_finished_is_not_run_again(unbroken: tuple[Path, Any]) -> None:
    folder, printed = unbroken
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    again = json.loads(said("reproduce", *SMALL, "--out", str(folder), "--json"))
    assert again["digest"] == printed["digest"]
    assert {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()} == before


def kept(folder: Path) -> set[Path]:
    """Return what runs have left in a folder of results."""
    return {path for name in ("runs", "running") for path in (folder / name).glob("*")}


@pytest.mark.long
def test_killed_again_and_again_and_finished_it_has_the_same_bits(
    unbroken: tuple[Path, Any], tmp_path: Path, is_long: bool
) -> None:
    chance = random.Random(1)
    folder = tmp_path / "killed"
    for n in range(10 if is_long else 2):
        before = kept(folder)
        started = subprocess.Popen(
            [*PROGRAM, "reproduce", *SMALL, "--out", str(folder), "--jobs", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while n % 2 == 1 and kept(folder) == before and started.poll() is None:
            time.sleep(0.02)  # every other time until something was kept
        time.sleep(chance.uniform(0, 2))
        started.kill()  # its workers notice by themselves
        started.wait()
    assert as_json("reproduce", *SMALL, "--out", str(folder), "--jobs", "2")["digest"] == unbroken[1]["digest"]


def test_a_report_needs_neither_data_nor_the_place_where_the_runs_were_made(
    unbroken: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, printed = unbroken
    halves = [tmp_path / "a", tmp_path / "b"]
    for i, half in enumerate(halves):
        (half / "runs").mkdir(parents=True)
        (half / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
        for path in sorted((folder / "runs").iterdir())[i::2]:
            (half / "runs" / path.name).write_bytes(path.read_bytes())
    again = json.loads(said("report", *map(str, halves), "--out", str(tmp_path / "together"), "--json"))
    assert again["digest"] == printed["digest"]
    assert again["experiments"] == printed["experiments"]
    merged = said("merge", *map(str, halves), "--out", str(tmp_path / "merged"))
    assert printed["digest"] in merged


def test_a_ranker_of_ones_own_is_compared_by_its_full_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = fenced.ROOT / "docs/how-to/add-a-ranker.md"
    tally = next(block.text for block in fenced.blocks(page) if "file" in block.how)
    odd = 'widths: int = hyper(1, "no list")\n    n_rankers: str = hyper("two", "no number")\n    step: float'
    (tmp_path / "my_odd_tally.py").write_text(tally.replace("step: float", odd, 1))
    monkeypatch.chdir(tmp_path)
    few = ["--data", "synthetic:12", "--users", "perfect", "--seeds", "1", "--rounds", "30", "--evaluate-at", "10"]
    words = ["--rankers", "my_odd_tally:tally,pdgd-linear", *few, "--out", "o"]
    (row,) = json.loads(said("reproduce", *words, "--dry-run", "--json"))["rows"]
    assert (row["experiment"], row["n_runs"]) == ("comparison", 2)
    (found,) = as_json("reproduce", *words)["experiments"]
    assert [each["arm"] for each in found["final"]] == ["my_odd_tally:tally", "pdgd-linear"]
    assert json.loads((tmp_path / "o" / "manifest.json").read_text())["asked"]["rankers"][0] == "my_odd_tally:tally"
    assert "my_odd_tally:tally" in (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert json.loads(said("report", "o", "--json"))["experiments"] == [found]
    assert "no ranker 'taly' in my_odd_tally" in said(
        "reproduce", "--rankers", "my_odd_tally:taly", *few, "--out", "p", code=2
    )


@pytest.fixture
def imitation(tmp_path: Path) -> Path:
    """Return a small imitation of MSLR-WEB10K: its layout, 136 features, raw magnitudes up to 10^8."""
    folder, rng = tmp_path / "MSLR-WEB10K", np.random.default_rng(0)
    for fold in range(1, 6):
        (folder / f"Fold{fold}").mkdir(parents=True)
        for split, n_queries in (("train", 12), ("vali", 4), ("test", 4)):
            lines = []
            for query in range(n_queries):
                for _ in range(int(rng.integers(1, 30))):
                    x = rng.lognormal(3, 5, 136).clip(0, 1e8)
                    label = int(rng.integers(0, 5))
                    features = " ".join(f"{i}:{value:.6g}" for i, value in enumerate(x, 1))
                    lines.append(f"{label} qid:{fold}{split[0]}{query} {features}".replace("t", "1").replace("v", "2"))
            (folder / f"Fold{fold}" / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_the_papers_protocol_starts_on_mslr_with_no_further_setting(imitation: Path, tmp_path: Path) -> None:
    whole = ["--data", str(imitation), "--scale", "paper", "--dry-run", "--out", str(tmp_path / "o")]
    told = json.loads(said("reproduce", *whole, "--json"))
    rows = {(row["experiment"], row["role"]): row for row in told["rows"]}
    arms, folds, users, seeds = 11, 5, 3, 10
    assert rows["linear-rankers", "final"]["n_runs"] == (arms + 4) * folds * users * seeds  # four arms twice
    assert told["seconds_of_one_core"] > 3600
    assert not (tmp_path / "o").exists()
    shown = said("reproduce", *whole, "--experiment", "neural-rankers")
    assert "days" in shown
    assert "neural-rankers" in shown


def test_a_staged_search_is_planned(imitation: Path, tmp_path: Path) -> None:
    small = ["--scale", "paper", "--grid", "paper", "--staged", "--rounds", "20", "--seeds", "1", "--folds", "1"]
    words = [*small, "--experiment", "linear-rankers", "--users", "perfect", "--out", str(tmp_path / "o")]
    told = json.loads(said("reproduce", "--data", str(imitation), *words, "--dry-run", "--json"))
    assert sum(row["n_runs"] for row in told["rows"]) > 50


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--experiment", "linear-ranker"], "did you mean 'linear-rankers'"),
        (["--data", "syntetic"], "did you mean 'synthetic'"),
        (["--scale", "papr"], "did you mean 'paper'"),
        (["--grid", "wid"], "did you mean 'wide'"),
        (["--users", "perfct"], "did you mean 'perfect'"),
    ],
)
def test_bad_words_get_one_line(words: list[str], expected: str, tmp_path: Path) -> None:
    message = said("reproduce", *words, "--out", str(tmp_path / "o"), code=2)
    assert expected in message
    assert len(message.strip().splitlines()) == 1
    assert list(tmp_path.rglob("runs/*")) == []


def test_a_cluster_that_does_not_answer_is_told_in_one_line(tmp_path: Path) -> None:
    message = run("reproduce", "--ray", "127.0.0.1:1", *SMALL, "--out", str(tmp_path / "o"), code=2)
    assert "no Ray cluster answers" in message
    assert len(message.strip().splitlines()) == 1
    assert list(tmp_path.rglob("runs/*")) == []


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "not empty" in said("reproduce", *SMALL, "--out", str(tmp_path), code=2)


def test_a_report_of_no_results_is_refused(tmp_path: Path) -> None:
    assert "holds no results" in said("report", str(tmp_path), code=2)
