"""`perturank import` as a user meets it: beside a running service, killed in the middle, on both kinds of logs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.past_lists import line, written
from helpers.service_small import created, rows
from helpers.serving import SECONDS, Serving, all_ended, run
from typer.testing import CliRunner

from perturank.cli import app
from perturank.service.learner.verify import faults
from perturank.service.log import Log
from perturank.service.log.records import Feedback, Impression

SPEC: dict[str, Any] = {"n_features": 5, "ranker": "p2linrank", "places": 4}
IMPORT = [sys.executable, "-c", "from perturank.cli import main; main()", "import"]


@pytest.fixture(autouse=True)
def all_end() -> Iterator[None]:
    with all_ended():
        yield


def test_a_running_service_learns_from_a_file_that_is_imported(tmp_path: Path) -> None:
    path = written(tmp_path, [*(line(number) for number in range(60)), line(60, clicks=["z"])])
    serving, log = Serving(tmp_path), f"sqlite:///{tmp_path}/perturank.db"
    with serving.client() as client:
        client.put_model("shop", **SPEC)
        dry = run("import", str(path), "--log", log, "--model", "shop", "--dry-run", "--json")
        assert (dry.returncode, json.loads(dry.stdout)["imported"]) == (1, 60)
        done = run("import", str(path), "--log", log, "--model", "shop")
        assert done.returncode == 1  # a line was refused
        assert [row.split() for row in done.stdout.splitlines()[2:6]] == [
            ["read", "61"],
            ["imported", "60"],
            ["already", "there", "0"],
            ["refused", "1"],
        ]
        assert "document … was clicked but not shown" in done.stdout
        assert "line 61: document 'z' was clicked but not shown; send ids of this impression's ranking" in done.stderr
        serving.until(lambda: client.model("shop")["learned"] == 60)
        documents = [{"id": f"n{i}", "features": row} for i, row in enumerate(rows(4, seed=99).tolist())]
        shown = client.rank(documents, model="shop")
        client.feedback(shown.impression, [shown.ids[0]], final=True, model="shop")
        serving.until(lambda: client.model("shop")["learned"] == 61)
        again = run("import", str(path), "--log", log, "--model", "shop", "--json")
        assert {name: json.loads(again.stdout)[name] for name in ("imported", "already_there")} == {
            "imported": 0,
            "already_there": 60,
        }
    assert serving.stop() == 0
    replayed = run("replay", "--log", log, "--model", "shop", "--verify")
    assert (replayed.returncode, json.loads(replayed.stdout)["same_bits"]) == (0, True)


def test_an_import_that_is_killed_goes_on_where_it_was(either: Log, tmp_path: Path) -> None:
    created(either, ranker="p2linrank")
    n = 3000
    path = written(tmp_path, [line(number) for number in range(n)])
    command = [*IMPORT, str(path), "--log", either.url, "--model", "m"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + SECONDS
    while either.tail() < 2 and time.monotonic() < end:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    n_before = sum(isinstance(record.entry, Impression) for record in either.read())
    assert n_before > 0
    done = run(*command[len(IMPORT) - 1 :], "--json")
    report = json.loads(done.stdout)
    assert (report["read"], report["imported"], report["already_there"]) == (n, n - n_before, n_before)
    records = list(either.read())
    shown = [record for record in records if isinstance(record.entry, Impression)]
    assert [record.entry.ids[0] for record in shown if isinstance(record.entry, Impression)] == [
        f"d{number}-0" for number in range(n)
    ]
    said = [record.impression for record in records if isinstance(record.entry, Feedback)]
    assert said == [record.impression for record in shown]
    assert list(faults(either)) == []


@pytest.mark.parametrize(
    "words, says",
    [
        (["clicks.jsonl", "--log", "sqlite:///no/perturank.db"], "there is no log"),
        (["ubi", "events.ndjson"], "Missing option '--features'"),
        (["lists"], "Missing argument"),
    ],
)
def test_mistakes_are_answered_in_one_line(words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["import", *words], prog_name="perturank", catch_exceptions=False)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_help_shows_examples_and_the_format() -> None:
    for words, says in ((["--help"], "perturank import clicks.jsonl"), (["lists", "--help"], '"query_id": "s1"')):
        done = CliRunner().invoke(app, ["import", *words], prog_name="perturank", catch_exceptions=False)
        assert says in done.stdout
