"""The service as processes: it starts, learns, drains, and loses nothing when it is killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from database import Database
from service_small import rows
from serving import SPEC, STARTED, Serving, run

from perturank.client import ServiceProblem

DOCUMENTS = [{"id": f"d{i}", "features": row.tolist()} for i, row in enumerate(rows(6))]


@pytest.fixture(autouse=True)
def all_end() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().kill()


class Load(threading.Thread):
    """Ranks and clicks until the service is gone; remembers every feedback that was acknowledged."""

    def __init__(self, serving: Serving) -> None:
        super().__init__(daemon=True)
        self._serving = serving
        self.acknowledged: dict[str, str] = {}

    def run(self) -> None:
        with self._serving.client(retries=0, timeout=30) as client:
            try:
                while True:
                    shown = client.rank(DOCUMENTS, model="m")
                    click = random.choice(shown.ids)
                    if client.feedback(shown.impression, [click], model="m") == "recorded":
                        self.acknowledged[shown.impression] = click
            except (httpx.TransportError, ServiceProblem):
                return


def exported(url: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("log", "export", "--log", url).stdout.splitlines()]


def test_it_serves_learns_and_stops_when_asked(tmp_path: Path) -> None:
    serving = Serving(tmp_path).ready()
    with serving.client() as client:
        client.put_model("m", **SPEC)
        shown = client.rank_arrays([f"d{i}" for i in range(6)], rows(6), model="m", top=2)
        assert client.feedback(shown.impression, [shown.ids[1]], model="m") == "recorded"
        serving.until(lambda: client.model("m")["version"] == 1)
        assert np.isclose(client.rank(DOCUMENTS, model="m", mode="exploit").propensity or 0, 1)
    load = Load(serving)
    load.start()
    time.sleep(0.5)
    assert serving.stop() == 0
    load.join(30)
    assert load.acknowledged
    url = f"sqlite:///{tmp_path}/perturank.db"
    clicked = [each["impression"] for each in exported(url) if each["kind"] == "feedback"]
    assert set(load.acknowledged) <= set(clicked)
    assert run("replay", "--log", url, "--model", "m", "--verify").returncode == 0


@pytest.mark.kill
def test_nothing_acknowledged_is_lost_when_the_tree_is_killed(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    chance = random.Random(1)
    for turn in range(2):
        serving = Serving(tmp_path)
        with serving.client(retries=30) as client:
            client.put_model("m", **SPEC)
        loads = [Load(serving) for _ in range(3)]
        for load in loads:
            load.start()
        serving.until(lambda: all(load.acknowledged for load in loads))  # noqa: B023
        time.sleep(chance.uniform(0, 1.5))
        serving.kill()
        for load in loads:
            load.join(30)
            acknowledged |= load.acknowledged
        assert turn or acknowledged
    url = f"sqlite:///{tmp_path}/perturank.db"
    run("learn", "--log", url, "--once")
    feedback = [each for each in exported(url) if each["kind"] == "feedback"]
    names = [each["impression"] for each in feedback]
    assert len(set(names)) == len(names)
    found = {str(each["impression"]): each["clicks"] for each in feedback}
    assert all(found[name] == [click] for name, click in acknowledged.items())
    assert run("log", "verify", "--log", url).returncode == 0
    said = json.loads(run("replay", "--log", url, "--model", "m", "--verify").stdout)
    assert (said["same_bits"], said["learned"]) == (True, len(names))


def test_the_learner_ends_with_its_parent(tmp_path: Path) -> None:
    serving = Serving(tmp_path).ready()
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(serving.process.pid)], capture_output=True, text=True)
    children = [int(word) for word in listed.stdout.split()]
    assert len(children) == 1
    serving.process.kill()  # the parent alone
    serving.process.wait()
    serving_end = time.monotonic() + 60
    while time.monotonic() < serving_end and Path(f"/proc/{children[0]}").exists():
        time.sleep(0.05)
    assert not Path(f"/proc/{children[0]}").exists()


def test_settings_are_shown_and_an_open_address_needs_keys(tmp_path: Path) -> None:
    shown = run("serve", "--port", "99", "--show-settings")
    assert json.loads(shown.stdout)["port"] == 99
    refused = run("serve", "--host", "0.0.0.0")
    assert refused.returncode == 2
    assert "can be reached by others and no key is asked for" in refused.stderr
    os.environ.pop("PERTURANK_HOST", None)
    key = run("keys", "add", "me", "--keys", str(tmp_path / "keys"), "--scope", "admin").stdout.strip()
    assert key.startswith("pr_")
    assert key not in (tmp_path / "keys").read_text()
    assert json.loads(run("keys", "list", "--keys", str(tmp_path / "keys")).stdout)["scopes"] == ["admin"]


@pytest.mark.kill
def test_on_postgres_another_learner_takes_over_and_nothing_is_lost(tmp_path: Path, database: Database) -> None:
    url = database.fresh()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    trees = [Serving(tmp_path / name, url) for name in ("one", "two")]
    with trees[0].client(retries=30) as client:
        client.put_model("m", **SPEC)
    for tree in trees:
        tree.ready()
    loads = [Load(tree) for tree in trees]
    for load in loads:
        load.start()
    with trees[1].client(retries=30) as client:
        trees[1].until(lambda: client.model("m")["version"] > 0)
        trees[0].kill()  # with the first learner, which most likely leads
        version = client.model("m")["version"]
        trees[1].until(lambda: client.model("m")["version"] > version)
    assert trees[1].stop() == 0
    for load in loads:
        load.join(30)
    feedback = [each for each in exported(url) if each["kind"] == "feedback"]
    names = [str(each["impression"]) for each in feedback]
    assert len(set(names)) == len(names)
    assert {name for load in loads for name in load.acknowledged} <= set(names)
    run("learn", "--log", url, "--once")
    said = json.loads(run("replay", "--log", url, "--model", "m", "--verify").stdout)
    assert (said["same_bits"], said["learned"]) == (True, len(names))
