"""The command line as a user meets it: what it prints, where, and how it fails."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import fenced
from rich.console import Console
from typer.testing import CliRunner, Result

from perturank import catalogue, clicks, datasets, storage
from perturank.__about__ import __version__
from perturank.cli import app
from perturank.cli.simulate import results_tables
from perturank.service.settings import ServeSettings

# Limits on requests, and how it starts: set in a file or as PERTURANK_NAME.
NO_FLAGS = {
    "body_bytes",
    "file_bytes",
    "max_documents",
    "max_batch",
    "requests_per_second",
    "client_records_per_second",
    "body_timeout",
    "compile_first",
}
QUICK = ["simulate", "--ranker", "pdgd-linear", "--rounds", "20", "--evaluate-at", "10"]
GOOD = "".join(
    f"{(q + d) % 3} qid:{q} 1:{0.1 * d:.1f} 2:{(q * d) % 5} # document {d}\n" for q in range(1, 11) for d in range(4)
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PERTURANK_CACHE", str(folder))
    return folder


@pytest.fixture
def small(tmp_path: Path) -> str:
    """Ten queries of four documents, two features, three grades."""
    return str(written(tmp_path / "small.txt", GOOD))


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="perturank", catch_exceptions=False)


def objects(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def started(*args: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", "from perturank.cli import main; main()", *args]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


# What it prints


def test_a_simulation_prints_one_json_object_per_seed(small: str) -> None:
    results = objects(
        run(*QUICK, "--data", small, "--seed", "3", "--seeds", "2", "--set", "learning_rate=0.2", "--json")
    )
    assert [result["seed"] for result in results] == [3, 4]
    for result in results:
        assert (result["ranker"], result["data"], result["clicks"]) == ("pdgd-linear", small, "perfect")
        assert (result["rounds"], result["version"]) == (20, __version__)
        assert result["settings"]["learning_rate"] == 0.2
        assert result["rounds_per_second"] > 0
        assert result["conventions"]
        assert 0 < result["random_ndcg"] < 1
        assert [checkpoint["round"] for checkpoint in result["checkpoints"]] == [10, 20]
        for checkpoint in result["checkpoints"]:
            measured = {"ndcg@10", "cumulative_ndcg", "regret", "uncertain", "width", "certain_wrong"}
            assert set(checkpoint) == {"round", "seconds", *measured}
            assert 0 <= checkpoint["ndcg@10"] <= 1


def test_a_seed_has_the_same_result_alone_beside_others_and_in_a_worker_process(small: str) -> None:
    alone = without_times(objects(run(*QUICK, "--data", small, "--seed", "2", "--json")))
    beside = without_times(objects(run(*QUICK, "--data", small, "--seeds", "2", "--json")))
    process = started(*QUICK, "--data", small, "--seeds", "2", "--jobs", "2", "--json")
    printed, _ = process.communicate(timeout=240)
    workers = without_times([json.loads(line) for line in printed.splitlines()])
    assert alone == beside[1:] == workers[1:]
    assert beside == workers


def without_times(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for result in results:
        del result["rounds_per_second"]
        for checkpoint in result["checkpoints"]:
            del checkpoint["seconds"]
    return results


@pytest.mark.parametrize("seeds", ["1", "3"])
def test_a_simulation_without_json_prints_a_table_of_at_most_80_columns(small: str, seeds: str) -> None:
    result = run(*QUICK, "--data", small, "--seeds", seeds)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "NDCG@10" in result.stdout
    assert ("±" in result.stdout) == ("worst" in result.stdout) == ("10 %" in result.stdout) == (seeds == "3")
    assert f"of {seeds} run" in result.stdout


def test_a_table_of_many_seeds_shows_the_worst_run_the_tenth_percentile_and_collapses() -> None:
    last = [0.1 * i for i in range(11)]
    checkpoint = {"regret": 123456.0, "uncertain": 0.1, "certain_wrong": None, "seconds": 1234.5}
    results = [
        {"ranker": "p2neurrank", "data": "synthetic", "clicks": "informational", "seed": i, "rounds_per_second": 9.0}
        | {"random_ndcg": 0.25}
        | {"checkpoints": [checkpoint | {"round": 10000, "ndcg@10": ndcg, "cumulative_ndcg": 1000 + 100 * ndcg}]}
        for i, ndcg in enumerate(last)
    ]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(results_tables(results, 10))
    shown = console.export_text()
    row = next(line for line in shown.splitlines() if line.startswith("10,000"))
    assert " ".join(row.split()) == "10,000 0.500 ± 0.100 0.000 0.100 1,050.0 ± 10.0 1,000.0 1,010.0"
    assert "3 of 11 runs ended below a random ranker (expected NDCG@10: 0.250)" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_listings_name_everything_as_tables_and_as_json() -> None:
    for command, known in (
        ("rankers", catalogue.rankers()),
        ("users", clicks.users()),
        ("datasets", datasets.available()),
    ):
        assert [row["name"] for row in objects(run(command, "--json"))[0]] == list(known)
        table = run(command).stdout
        assert all(name in table for name in known)
        assert max(map(len, table.splitlines())) <= 80


@pytest.mark.parametrize("name", catalogue.rankers())
def test_a_ranker_lists_its_hyperparameters_with_meaning_and_default(name: str) -> None:
    described = objects(run("rankers", name, "--json"))[0]
    assert {row["name"]: row["default"] for row in described["settings"]} == catalogue.published(
        name
    ).settings.as_dict()
    assert all(row["doc"] for row in described["settings"])
    table = run("rankers", name).stdout
    assert all(row["name"] in table and row["symbol"] in table for row in described["settings"])


def test_data_says_what_is_in_each_split(small: str) -> None:
    described = objects(run("data", small, "--json"))[0]
    assert [row["split"] for row in described["splits"]] == ["train", "validation", "test"]
    assert sum(row["queries"] for row in described["splits"]) == 10
    assert sum(row["documents"] for row in described["splits"]) == 40
    assert {row["features"] for row in described["splits"]} == {2}
    table = run("data", small).stdout
    assert all(word in table for word in ("queries", "documents", "features", "grade 2", "%"))


@pytest.mark.parametrize(
    "command", ["simulate", "check", "rankers", "users", "datasets", "data", "reproduce", "report", "merge", "replay"]
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"perturank {command}" in result.stdout.partition("Example")[2]


def test_every_setting_of_a_service_is_a_flag_but_for_the_limits_on_requests() -> None:
    settings = {name: value for name, value in ServeSettings().as_dict().items() if name not in NO_FLAGS}
    helped = run("serve", "--help").stdout
    assert "[serve]" in helped  # which Rich takes for markup unless it is escaped
    assert "pip install 'perturank[service]'" in helped
    flags = set(re.findall(r"--[a-z-]+", helped))
    assert {f"--{name.replace('_', '-')}" for name in settings} == flags - {"--settings", "--show-settings", "--help"}
    others = {"host": "h", "log": "l", "learner": "none", "keep": "1d", "keys": "k", "port": 1, "keep_impressions": 7}
    others |= {"log_lines": "json"}
    assert others.keys() == settings.keys()
    for name, value in others.items():  # each reaches the setting of its name
        said = objects(run("serve", f"--{name.replace('_', '-')}", str(value), "--show-settings"))
        assert said == [ServeSettings().changed(**{name: value}).shown()]


def test_a_query_of_one_document_and_lists_shorter_than_the_places_are_ranked(tmp_path: Path) -> None:
    lonely = written(tmp_path / "lonely.txt", GOOD + "1 qid:77 1:0.5 2:1\n")
    assert objects(run(*QUICK, "--data", lonely, "--json"))[0]["rounds"] == 20


@pytest.fixture
def tally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the ranker of the how-to page into the working directory."""
    file = next(block for block in fenced.blocks(fenced.ROOT / "docs/how-to/add-a-ranker.md") if "file" in block.how)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))  # `check` sets it for its own process
    return written(tmp_path / "my_tally.py", file.text)


def test_a_ranker_of_ones_own_is_checked(tally: Path) -> None:
    kept = run("check", "my_tally:tally")
    assert kept.exit_code == 0, kept.output
    assert "✗" not in kept.stdout
    written(tally.with_name("my_sum.py"), tally.read_text().replace("+ query.prior", ""))
    broken = run("check", "my_sum:tally", "--json")
    assert broken.exit_code == 1
    found = json.loads(broken.stdout)["contracts"]
    assert {name: why for name, why in found.items() if why} == {
        "a prior is part of the score": "score does not add query.prior; add it to the scores"
    }
    written(tally.with_name("my_fault.py"), tally.read_text().replace("preferences.preferred(", "preferences.prefer("))
    faulty = run("check", "my_fault:tally")
    assert faulty.exit_code == 1
    assert re.search(r"AttributeError: .*prefer.* \(.*my_fault.py:\d+\)", " ".join(faulty.stdout.split()))


def test_a_contract_that_does_not_apply_is_said_not_to(tally: Path) -> None:
    found = json.loads(run("check", "random", "--json").stdout)
    assert found["does_not_apply"]["it learns an easy problem from perfect users"] == "the ranker has no settings"
    assert not found["contracts"].keys() & found["does_not_apply"].keys()


@pytest.mark.parametrize("name", ["my_tally", "my_tally.py", "my_tally.py:tally"])
def test_a_module_alone_is_no_ranker_and_the_error_says_how_one_is_named(tally: Path, name: str) -> None:
    must_be_refused(run("check", name), "my_tally:NAME")


def test_a_ranker_without_a_network_takes_no_scorer(small: str) -> None:
    refused = run("simulate", "--ranker", "pairrank", "--data", small, "--scorer", "helpers.scorers:Attention")
    must_be_refused(refused, "pairrank takes no scorer", "pdgd-neural")


def test_a_ranker_of_ones_own_runs_in_worker_processes(tally: Path, small: str) -> None:
    words = ["simulate", "--ranker", "my_tally:tally", "--rounds", "20", "--data", small, "--json"]
    process = started(*words, "--seeds", "2", "--jobs", "2")
    printed, said = process.communicate(timeout=240)
    assert [json.loads(line)["ranker"] for line in printed.splitlines()] == ["my_tally:tally"] * 2, said


def test_eager_rounds_are_those_of_compiled_ones(small: str) -> None:
    words = ["simulate", "--ranker", "pdgd-linear", "--rounds", "4", "--data", small, "--json"]
    compiled, eager = (objects(run(*words, *more))[0] for more in ((), ("--eager",)))
    assert eager["eager"]
    for mine, other in zip(compiled["checkpoints"], eager["checkpoints"], strict=True):
        for measure in ("ndcg@10", "cumulative_ndcg", "regret"):
            assert mine[measure] == pytest.approx(other[measure], rel=1e-4)


# How it fails

Arguments = Callable[[Path], list[str | Path]]


def data_with(line: str) -> Arguments:
    return lambda folder: ["data", written(folder / "bad.txt", GOOD + line)]


def simulated(*options: str) -> Arguments:
    return lambda folder: [*QUICK, "--data", written(folder / "small.txt", GOOD), *options]


def splits_that_differ(folder: Path) -> list[str | Path]:
    for split in ("train", "vali", "test"):
        written(folder / "data" / f"{split}.txt", GOOD if split != "test" else GOOD.replace(" #", " 3:1 #"))
    return ["data", folder / "data"]


def under_a_file(folder: Path) -> Path:
    """Return a folder that cannot be made, not even by root."""
    return written(folder / "file", "") / "below"


BAD: dict[str, tuple[Arguments, tuple[str, ...]]] = {
    "a NaN": (data_with("1 qid:11 1:nan 2:1\n"), ("41", "nan")),
    "a ragged line": (data_with("1 qid:11 1:0.5 2\n"), ("41",)),
    "a line that is not numeric": (data_with("one qid:11 1:0.5 2:1\n"), ("41", "one")),
    "a missing query id": (data_with("1 1:0.5 2:1\n"), ("41", "qid")),
    "an empty file": (lambda folder: ["data", written(folder / "empty.txt", "")], ("empty",)),
    "a file that does not exist": (lambda folder: ["data", folder / "none.txt"], ("none.txt",)),
    "a folder without data": (lambda folder: ["data", folder], ("layout",)),
    "a fold that does not exist": (simulated("--fold", "9"), ("fold 9",)),
    "splits with different features": (splits_that_differ, ("2 features", "3")),
    "labels that the users do not know": (
        lambda folder: [*QUICK, "--data", written(folder / "high.txt", GOOD + "7 qid:11 1:0.5 2:1\n")],
        ("8 grades",),
    ),
    "an unknown ranker": (lambda _: ["simulate", "--ranker", "p2neurank"], ("did you mean 'p2neurrank'?",)),
    "an unknown ranker to list": (lambda _: ["rankers", "pdgd-linaer"], ("did you mean 'pdgd-linear'?",)),
    "an unknown data set": (lambda _: ["data", "sinthetic"], ("did you mean 'synthetic'?",)),
    "unknown users": (simulated("--clicks", "perfekt"), ("did you mean 'perfect'?",)),
    "users who need a truth": (simulated("--clicks", "preferences"), ("use data with a known truth",)),
    "a stream that ends": (
        simulated("--data", "synthetic-stream:20", "--rounds", "30"),
        ("has 20 new queries, too few for 30 rounds", "synthetic-stream:30"),
    ),
    "an unknown stop rule": (simulated("--stop", "never"), ("never",)),
    "an unknown hyper-parameter": (simulated("--set", "learning_rat=1"), ("did you mean 'learning_rate'?",)),
    "an impossible hyper-parameter": (simulated("--set", "learning_rate=-1"), ("learning_rate", "above 0")),
    "a hyper-parameter that is not a number": (simulated("--set", "learning_rate=x"), ("learning_rate", "a number")),
    "a hyper-parameter without a value": (simulated("--set", "learning_rate"), ("name=value",)),
    "no rounds": (simulated("--rounds", "0"), ("--rounds",)),
    "rounds to evaluate at that never come": (simulated("--evaluate-at", "21"), ("21", "1 to 20")),
    "rounds to evaluate at that are no numbers": (simulated("--evaluate-at", "10;20"), ("100,500,1000",)),
    "an unknown option": (simulated("--sed", "1"), ("--seed",)),
    "an unknown command": (lambda _: ["simulat"], ("'simulate'",)),
    "results in a folder that cannot be made": (
        lambda folder: ["reproduce", "--experiment", "regret", "--out", under_a_file(folder)],
        ("below",),
    ),
    "a checkpoint in a folder that cannot be made": (
        lambda folder: [*simulated()(folder), "--checkpoint", under_a_file(folder) / "run.ckpt"],
        ("below",),
    ),
    "a checkpoint that is none": (
        lambda folder: [*simulated()(folder), "--checkpoint", written(folder / "bad.ckpt", "{")],
        ("bad.ckpt",),
    ),
}


@pytest.mark.parametrize("mistake", BAD)
def test_bad_input_is_one_line_that_names_it(mistake: str, tmp_path: Path) -> None:
    arguments, named = BAD[mistake]
    must_be_refused(run(*arguments(tmp_path)), *named)


def must_be_refused(result: Result, *named: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert all(word in line for word in named), line


def test_a_truncated_cache_is_refused_with_what_to_delete(small: str, own_cache: Path) -> None:
    assert run("data", small).exit_code == 0
    (features,) = own_cache.rglob("features.npy")
    os.truncate(features, features.stat().st_size - 1)
    must_be_refused(run("data", small), "damaged", "delete")


def test_a_cache_that_cannot_be_written_is_refused(small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERTURANK_CACHE", str(under_a_file(tmp_path)))
    must_be_refused(run("data", small), "PERTURANK_CACHE")


def test_a_truncated_checkpoint_is_refused_and_left_alone(small: str, tmp_path: Path) -> None:
    file = tmp_path / "run.ckpt"
    assert run(*QUICK, "--data", small, "--checkpoint", file).exit_code == 0
    parts = [path for path in tmp_path.iterdir() if path.name.startswith("run.ckpt")]
    largest = max(parts, key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)
    before = largest.read_bytes()
    must_be_refused(run(*QUICK, "--data", small, "--checkpoint", file), "run.ckpt")
    assert largest.read_bytes() == before


def test_an_interrupted_run_says_how_to_go_on_and_goes_on_to_the_same_result(small: str, tmp_path: Path) -> None:
    file = tmp_path / "run.ckpt"
    command = ["simulate", "--ranker", "pdgd-linear", "--data", small, "--json"]
    process = started(*command, "--rounds", "1000000000", "--checkpoint", str(file))
    deadline = time.monotonic() + 120
    while not file.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert printed == ""
    assert said.splitlines() == [
        f"interrupted after 0 of 1 runs; go on with the same command: {file} knows how far it came"
    ]
    longer = ["--rounds", str(storage.read(file)[0]["ndcgs"].size + 500)]
    resumed = without_times(objects(run(*command, *longer, "--checkpoint", file)))
    assert resumed == without_times(objects(run(*command, *longer)))


def test_a_service_that_does_not_answer_is_named_after_a_second() -> None:
    process = started("test", "show", "t", "--url", "http://127.0.0.1:1")
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting for http://127.0.0.1:1 …\n"
    process.kill()
    process.communicate()


def test_a_broken_pipe_is_no_traceback() -> None:
    process = started("rankers")
    assert process.stdout is not None
    process.stdout.close()
    process.wait(timeout=60)
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
