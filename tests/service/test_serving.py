"""The service as processes: it starts, learns, drains, and its parts end and begin together."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from helpers.clicking import DOCUMENTS, User, exported, tally
from helpers.service_small import rows
from helpers.serving import SPEC, Serving, all_ended, children, is_running, rebuilding, run
from typer.testing import CliRunner, Result

from perturank import Client
from perturank.cli import app
from perturank.service.http import auth
from perturank.service.log.sqlite import SqliteLog


@pytest.fixture(autouse=True)
def all_end() -> Iterator[None]:
    with all_ended():
        yield


def test_it_serves_learns_and_stops_when_asked(tmp_path: Path) -> None:
    serving, log = Serving(tmp_path).ready(), f"sqlite:///{tmp_path}/perturank.db"
    with serving.client() as client:
        client.put_model("m", **SPEC)
        shown = client.rank_arrays([f"d{i}" for i in range(6)], rows(6), model="m", top=2)
        assert client.feedback(shown.impression, [shown.ids[1]], model="m", final=True) == "recorded"
        serving.until(lambda: client.model("m")["version"] == 1)
        assert np.isclose(client.rank(DOCUMENTS, model="m", mode="exploit").propensity or 0, 1)
        buy_later(serving, client)
    assert serving.stop() == 0
    assert "backend" not in (tmp_path / "err.txt").read_text()  # JAX would tell which machines it has not found
    assert [each["kind"] for each in exported(log)].count("settled") == 2
    for model in ("m", "settling"):
        assert run("replay", "--log", log, "--model", model, "--verify").returncode == 0
    assert run("log", "verify", "--log", log).returncode == 0


def test_a_bot_votes_once_for_its_product_and_a_replay_leaves_out_the_same_lists(tmp_path: Path) -> None:
    serving, ids = Serving(tmp_path).ready(), [f"d{i}" for i in range(4)]
    with serving.client() as client:
        client.put_model("m", **SPEC, votes=1, batch=5)
        given = [("bot", "d3"), ("bot", "d3"), ("somebody", "d3"), ("bot", "d3"), ("bot", "d2")]
        shown = [client.rank_arrays(ids, rows(4), model="m", source=source) for source, _ in given]
        for each, (_, document) in zip(shown, given, strict=True):
            assert client.feedback(each.impression, [document], model="m", final=True) == "recorded"
        serving.until(lambda: client.model("m")["version"] == 1)
        assert client.model("m")["learned"] == 3
    assert serving.stop() == 0
    log = f"sqlite:///{tmp_path}/perturank.db"
    assert [each["skipped"] for each in exported(log) if each["kind"] == "batch"] == [
        [shown[1].impression, shown[3].impression]
    ]
    assert run("replay", "--log", log, "--model", "m", "--verify").returncode == 0


def buy_later(serving: Serving, client: Client) -> None:
    """See that events are learned when they settle, and a later purchase again."""
    client.put_model("settling", **SPEC, settle=1.0)
    shown = client.rank(DOCUMENTS, model="settling")
    assert client.feedback(shown.impression, [shown.ids[1]], seen=2, model="settling") == "recorded"
    serving.until(lambda: client.model("settling")["version"] == 1)
    bought = [{"id": shown.ids[1], "action": "purchase", "value": 39.9}]
    assert client.feedback(shown.impression, events=bought, model="settling") == "recorded"
    serving.until(lambda: client.model("settling")["version"] == 2)
    assert client.model("settling")["learned"] == 2
    assert 'perturank_events_total{action="purchase",model="settling"} 1.0' in client.metrics()


def test_told_to_stop_under_load_it_answers_all_that_it_has_begun(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    with serving.client(retries=30) as client:
        client.put_model("m", **SPEC)
    users = [User(serving.url) for _ in range(4)]
    for user in users:
        user.start()
    serving.until(lambda: all(user.acknowledged for user in users))
    assert serving.stop() == 0
    for user in users:
        user.end()
    records = exported(f"sqlite:///{tmp_path}/perturank.db")
    clicked = {each["impression"] for each in records if each["kind"] == "feedback"}
    assert clicked == {name for user in users for name in user.acknowledged}
    asked = {each["impression"] for each in records if each["kind"] == "impression"}
    assert asked == {name for user in users for name in user.shown}


def test_a_full_disk_is_told_loses_nothing_and_all_goes_on_when_there_is_room(tmp_path: Path, small_disk: Path) -> None:
    log = f"sqlite:///{small_disk}/perturank.db"
    serving = Serving(tmp_path, log)
    with serving.client(retries=30) as client:
        client.put_model("m", **SPEC)
    users = [User(serving.url) for _ in range(3)]
    for user in users:
        user.start()
    serving.until(lambda: all(user.acknowledged for user in users))
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(4096))
    serving.until(lambda: all(user.refusals[507] > 2 for user in users))
    before = [user.answers.total() for user in users]
    ballast.unlink()
    serving.until(lambda: all(user.answers.total() > n + 5 for user, n in zip(users, before, strict=True)))
    for user in users:
        user.end()
    assert [user.surprises for user in users] == [[], [], []]
    with serving.client() as client:
        version = client.model("m")["version"]
        shown = client.rank(DOCUMENTS, model="m")
        users[0].acknowledged[shown.impression] = shown.ids[0]
        assert client.feedback(shown.impression, shown.ids[:1], model="m", final=True) == "recorded"
        serving.until(lambda: client.model("m")["version"] > version)  # the learner goes on too
    assert serving.stop() == 0
    assert tally(log, users).is_whole


@contextlib.contextmanager
def asked_for_a_file(serving: Serving) -> Iterator[tuple[int, Future[httpx.Response]]]:
    """Yield the child that makes a file, which waits for the log, and the answer that waits for the child."""
    with serving.client() as client:
        client.put_model("m", **SPEC)
        shown = client.rank(DOCUMENTS, model="m")
        assert client.feedback(shown.impression, shown.ids[:1], model="m", final=True) == "recorded"
        serving.until(lambda: client.model("m")["version"] == 1)
    with ThreadPoolExecutor(1) as threads, SqliteLog(serving.folder / "perturank.db").transaction():
        asked = threads.submit(httpx.get, f"{serving.url}/v1/models/m/file", timeout=60)
        yield rebuilding(serving.process.pid), asked


def test_a_learner_that_dies_is_started_again_and_children_end_with_their_parent(tmp_path: Path) -> None:
    serving = Serving(tmp_path).ready()
    (learner,) = children(serving.process.pid)
    os.kill(learner, signal.SIGKILL)
    with asked_for_a_file(serving) as (child, asked):  # somebody has learned
        assert "the learner ended with code -9; another one starts" in (tmp_path / "err.txt").read_text()
        family = children(serving.process.pid)
        assert learner not in family
        assert len({child, *family}) == 2
        serving.process.kill()  # the parent alone
        serving.process.wait()
        assert isinstance(asked.exception(60), httpx.TransportError)
        end = time.monotonic() + 20  # the log they would wait for longer
        while time.monotonic() < end and any(map(is_running, family)):
            time.sleep(0.05)
        assert not any(map(is_running, family))


def test_told_to_stop_it_ends_the_child_that_makes_a_file_and_says_so(tmp_path: Path) -> None:
    serving = Serving(tmp_path).ready()
    with asked_for_a_file(serving) as (child, asked):
        serving.process.terminate()
        answer = asked.result(60)
        assert (answer.status_code, answer.json()["title"]) == (503, "the service is about to stop")
        assert not is_running(child)
    assert serving.process.wait(60) == 0


def test_settings_are_shown_and_an_open_address_needs_keys(tmp_path: Path) -> None:
    def typed(*words: str) -> Result:
        return CliRunner().invoke(app, words, prog_name="perturank", catch_exceptions=False)

    shown = typed("serve", "--port", "99", "--show-settings")
    assert json.loads(shown.stdout)["port"] == 99
    refused = typed("serve", "--host", "0.0.0.0")
    assert refused.exit_code == 2
    assert "can be reached by others and no key is asked for" in refused.stderr
    key = typed("keys", "add", "me", "--keys", str(tmp_path / "keys"), "--scope", "admin").stdout.strip()
    assert key.startswith("pr_")
    assert key not in (tmp_path / "keys").read_text()
    assert json.loads(typed("keys", "list", "--keys", str(tmp_path / "keys")).stdout)["scopes"] == ["admin"]


def test_a_key_is_written_into_a_new_file_and_never_over_another(tmp_path: Path) -> None:
    keys, out = tmp_path / "keys", tmp_path / "page.key"

    def add(name: str) -> Result:
        return CliRunner().invoke(app, ["keys", "add", name, "--keys", str(keys), "--out", str(out)])

    added = add("page")
    assert (added.exit_code, added.stdout) == (0, "")
    written, known = out.read_text(), keys.read_text()
    assert auth.hashed(written.strip()) in known
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    refused = add("another")
    assert (refused.exit_code, "File exists; name a new file" in refused.stderr) == (2, True)
    assert (out.read_text(), keys.read_text()) == (written, known)
    out.unlink()
    assert "has a key 'page'" in add("page").stderr
    assert not out.exists()


def test_the_first_list_makes_a_model_and_is_answered_before_anything_is_compiled(tmp_path: Path) -> None:
    serving = Serving(tmp_path, PERTURANK_MAX_DOCUMENTS="128", PERTURANK_CACHE=str(tmp_path / "cache"))
    documents = [{"id": f"d{i}", "features": [i, 1.0], "prior": i % 2} for i in range(4)]
    with serving.client() as client:
        shown = client.rank(documents)
        assert client.ready()["status"] == "compiling"
        assert (shown.ids, shown.fallback, shown.propensity) == (["d1", "d3", "d0", "d2"], True, 1.0)
        assert client.model()["spec"]["n_features"] == 2
        assert client.feedback(shown.impression, ["d0"]) == "recorded"
        serving.until(lambda: client.model()["version"] == 1)
        serving.ready()
        assert not client.rank(documents).fallback
    assert serving.stop() == 0
    assert (
        run("replay", "--model", "default", "--verify", "--log", f"sqlite:///{tmp_path}/perturank.db").returncode == 0
    )
