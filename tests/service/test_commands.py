"""`perturank learn`, `replay` and `log`."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from helpers.service_small import begun_test, closed, counted_in_test, created, learned, lived, n_impressions, spec
from helpers.serving import run as as_process
from typer.testing import CliRunner, Result

from perturank import storage
from perturank.cli import app
from perturank.service.learner.learner import Learner
from perturank.service.log import snapshots
from perturank.service.log.records import Compacted, Impression
from perturank.service.log.sqlite import SqliteLog


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "log.db"
    log = SqliteLog(path)
    created(log, "default")
    lived(log, spec(), 4, model="default")
    log.close()
    url = f"sqlite:///{path}"
    done = as_process("learn", "--log", url, "--once")
    assert json.loads(done.stdout) == {"model": "default", "version": 1, "learned": 4}, done.stderr
    return url


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_replay_in_another_process_meets_the_same_bits(url: str, tmp_path: Path) -> None:
    out = tmp_path / "ranker.safetensors"
    done = as_process("replay", "--log", url, "--model", "default", "--verify", "--out", str(out))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["versions_compared"], said["same_bits"], said["learned"]) == (1, True, 4)
    assert snapshots.digest(storage.load(out), whole=True).hex() == said["digest"]


def test_a_model_that_is_not_what_the_log_says_is_told_by_the_exit_code(url: str, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(Path(url.removeprefix("sqlite:///")).read_bytes())
    log = SqliteLog(path)
    with log.transaction() as transaction:
        transaction.store(snapshots.version_name("default", 1), snapshots.version_bytes(spec().start()))
    log.close()
    done = run("replay", "--log", f"sqlite:///{path}", "--verify")
    assert done.exit_code == 1
    assert "is not what the log makes of model 'default'" in done.stderr
    assert run("log", "verify", "--log", f"sqlite:///{path}").exit_code == 1


def test_a_published_version_is_rebuilt_into_a_file_or_to_stdout(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log, ranker="p2linrank")
    first = learned(log, spec("p2linrank"), 1).states["m"].ranker
    assert first is not None
    learned(log, spec("p2linrank"), 1, start=3)
    words, out = ("replay", "--log", log.url, "--model", "m", "--version", "1"), tmp_path / "first"
    log.close()
    done = run(*words, "--out", str(out))
    digest = snapshots.digest(first, whole=True).hex()
    assert json.loads(done.stdout) == {"model": "m", "version": 1, "digest": digest}
    assert snapshots.digest(storage.load(out), whole=True).hex() == digest
    piped = run(*words, "--out", "-")
    assert piped.stdout_bytes == out.read_bytes() == snapshots.file_bytes(first, "m", 1)
    assert piped.stderr == done.stdout
    newest = run(*words[:-2], "--out", "-")
    assert json.loads(newest.stderr)["version"] == 2
    assert storage.unpacked(newest.stdout_bytes, "it")[1]["ranker"] == "p2linrank"


def test_what_another_ranker_would_have_learned(url: str) -> None:
    done = run("replay", "--log", url, "--ranker", "p2linrank", "--set", "n_rankers=3")
    assert json.loads(done.stdout)["learned"] == 4, done.stderr


def test_the_log_is_exported_shown_and_verified(url: str) -> None:
    lines = run("log", "export", "--log", url, "--format", "jsonl").stdout.splitlines()
    objects = [json.loads(line) for line in lines]
    assert [each["position"] for each in objects] == list(range(1, 12))
    assert sum(each["kind"] == "feedback" for each in objects) == 4
    assert "11 records" in run("log", "show", "--log", url).stdout
    assert json.loads(run("log", "verify", "--log", url).stdout) == {"records": 11, "faults": 0}


def test_a_verification_that_could_compare_nothing_says_so(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log, "default")
    lived(log, spec(), 1, model="default")
    log.close()
    done = run("replay", "--log", f"sqlite:///{tmp_path}/log.db", "--verify")
    assert done.exit_code == 3
    assert "nothing was compared: the log holds no version of model 'default' yet" in done.stderr
    said = json.loads(done.stdout)
    assert (said["versions_compared"], said["same_bits"]) == (0, None)


def test_a_log_is_compacted_and_a_source_erased(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log)
    learned(log, spec(), 2, source="alice")
    log.close()
    url = f"sqlite:///{tmp_path}/log.db"
    model, sizes = map(json.loads, run("log", "compact", "--log", url, "--keep-impressions", "3").stdout.splitlines())
    assert (model["model"], model["version"], model["learned"]) == ("m", 1, 3)
    assert sizes["bytes_after"] <= sizes["bytes_before"]
    assert json.loads(run("replay", "--log", url, "--model", "m", "--verify").stdout)["begins"] == model["base"]
    assert run("replay", "--log", url, "--model", "m", "--at", "2").exit_code == 2
    assert run("log", "compact", "--log", url, "--keep", "30d").exit_code == 0
    done = run("log", "erase", "alice", "--log", url)
    assert json.loads(done.stdout)["done"] is True, done.stderr
    assert "alice" not in run("log", "export", "--log", url).stdout
    assert run("log", "verify", "--log", url).exit_code == 0
    assert run("replay", "--log", url, "--model", "m", "--verify").exit_code == 0


def test_lists_of_a_test_are_deleted_by_the_process_that_leads_alone(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    counted_in_test(log, begun_test(log), 3)
    compact = ("log", "compact", "--log", f"sqlite:///{tmp_path}/log.db", "--keep", "0s", "--wait", "0")
    assert log.try_to_lead()
    assert (run(*compact).exit_code, n_impressions(log)) == (1, 3)
    log.close()
    assert run(*compact).exit_code == 0
    log = SqliteLog(tmp_path / "log.db")
    assert n_impressions(log) == 0
    log.close()


def test_a_source_is_unlearned_by_all_models_or_by_none(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log)
    learned(log, spec(), 1, source="alice")
    learned(log, spec(), 1, 3, source="bob").close()
    url = f"sqlite:///{tmp_path}/log.db"
    done = run("log", "erase", "alice", "--unlearn", "--log", url)
    assert json.loads(done.stdout)["done"] is True, done.stderr
    assert [version.snapshot.learned for version in snapshots.newest(log, "m", 2)] == [3, 6]
    assert snapshots.versions(log, "m") == [3]
    assert "alice" not in run("log", "export", "--log", url).stdout
    assert json.loads(run("replay", "--log", url, "--model", "m", "--verify").stdout)["same_bits"] is True
    assert run("log", "compact", "--log", url, "--keep-impressions", "0").exit_code == 0
    created(log, "n")
    end = log.tail()
    done = run("log", "erase", "bob", "--unlearn", "--log", url)
    assert (done.exit_code, log.tail()) == (2, end)
    assert "model 'm' cannot unlearn" in done.stderr
    done = run("log", "erase", "bob", "--unlearn", "--model", "n", "--log", url)
    assert (done.exit_code, "no record names the source 'bob'" in done.stderr, log.tail()) == (2, True, end)
    log.close()


def test_a_learner_that_is_told_what_to_keep_compacts_by_itself(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log)
    learned(log, spec(), 1).close()
    url = f"sqlite:///{tmp_path}/log.db"
    for turn in range(1, 4):
        lived(log, spec(), 2, 10 * turn)
        closed(log)  # what waits for further events is kept
        assert run("learn", "--log", url, "--once", "--keep-impressions", "2").exit_code == 0
    assert log.all_of("m", Compacted)
    assert sum(isinstance(record.entry, Impression) for record in log.read()) <= 4
    assert run("replay", "--log", url, "--model", "m", "--verify").exit_code == 0
    log.close()


def test_mistakes_are_one_line(url: str, tmp_path: Path) -> None:
    for words in (
        ("replay", "--log", f"sqlite:///{tmp_path}/none.db"),
        ("replay", "--log", url, "--model", "other"),
        ("replay", "--log", url, "--verify", "--at", "3"),
        ("replay", "--log", url, "--set", "a=1"),
        ("replay", "--log", url, "--version", "2"),
        ("replay", "--log", url, "--version", "0"),
        ("replay", "--log", url, "--version", "1", "--at", "3"),
        ("replay", "--log", url, "--version", "1", "--verify"),
        ("replay", "--log", url, "--version", "1", "--ranker", "random"),
        ("log", "compact", "--log", url),
        ("log", "compact", "--log", url, "--keep", "soon"),
        ("log", "erase", "alice", "--log", url, "--model", "other"),
    ):
        done = run(*words)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
        assert done.stderr.startswith("error: ")


def test_a_backup_is_whole_and_nobody_else_can_read_it(url: str, tmp_path: Path) -> None:
    copy, before = tmp_path / "copy.db", os.umask(0)
    try:
        done = run("log", "backup", str(copy), "--log", url)
    finally:
        os.umask(before)
    assert json.loads(done.stdout) == {"file": str(copy), "bytes": copy.stat().st_size}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    mine, theirs = (run("log", "export", "--log", each).stdout for each in (url, f"sqlite:///{copy}"))
    assert mine == theirs
    assert run("replay", "--log", f"sqlite:///{copy}", "--verify").exit_code == 0
    for words, says in ((copy, "is there already"), (tmp_path / "no" / "where.db", "cannot copy the log")):
        refused = run("log", "backup", str(words), "--log", url)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert says in refused.stderr


def test_verify_without_a_model_checks_all_models(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    generations = {model: created(log, model) for model in ("a", "b", "new")}
    for model in ("a", "b"):
        lived(log, spec(), 2, 0, model, generations[model])
    Learner(log).step()
    log.close()
    done = run("replay", "--log", f"sqlite:///{tmp_path}/log.db", "--verify")
    assert done.exit_code == 0
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["model"], each["same_bits"]) for each in said] == [("a", True), ("b", True), ("new", None)]
