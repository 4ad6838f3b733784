"""`python -m benchmarks speed` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from benchmarks.__main__ import app

READING = ["reading", "--quick", "--seconds", "0.01"]


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["speed", *map(str, args)], prog_name="benchmarks", catch_exceptions=False)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "old.json"
    result = run(*READING, "--json")
    assert result.exit_code == 0, result.output
    path.write_text(result.stdout)
    return path


def test_json_is_one_object_on_stdout(old: Path) -> None:
    report = json.loads(old.read_text())
    assert list(report["sections"]) == ["reading"]
    assert report["calibration"]["gflops"] > 0
    assert "cache, second reading" in report["sections"]["reading"]


def test_the_table_fits_a_hundred_columns_and_says_how_long_it_took(tmp_path: Path) -> None:
    result = run(*READING, "--out", tmp_path / "new.json")
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "s in all" in result.stdout
    assert "SVMrank text" in result.stdout
    assert json.loads((tmp_path / "new.json").read_text())["format"] == 1


def test_what_got_slower_is_marked_and_fails_only_when_asked(old: Path, tmp_path: Path) -> None:
    report = json.loads(old.read_text())
    for row in report["sections"]["reading"].values():
        row["documents_per_second"] *= 1e6
    report["sections"]["reading"]["tape"] = {"text_mb_per_second": 1.0}
    fast = tmp_path / "fast.json"
    fast.write_text(json.dumps(report))
    result = run(*READING, "--compare", fast)
    assert result.exit_code == 0
    assert "slower" in result.stdout
    assert "missing" in result.stdout
    failed = run(*READING, "--compare", fast, "--fail-if-slower", "--json")
    assert failed.exit_code == 1
    assert {change["verdict"] for change in json.loads(failed.stdout)["comparison"]} >= {"slower", "missing"}


@pytest.mark.parametrize(
    "args, said",
    [
        (["readin"], "unknown section 'readin'; did you mean 'reading'?"),
        (["rankers", "--rankers", "pdgd-linar"], "unknown ranker 'pdgd-linar'; did you mean 'pdgd-linear'?"),
        (["--quick", "--full"], "exclude each other"),
        (["reading", "--figure", "cost.png"], "--figure draws the section growth"),
        (["growth", "--figure", "nowhere/cost.png"], "there is no folder"),
        (["--compare", "nowhere.json"], "cannot read nowhere.json"),
        (["--seconds", "0"], "0"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(args: list[str], said: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
