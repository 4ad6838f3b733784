"""A stored version that is damaged on the disk, between two runs of the service or while one runs."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.clicking import DOCUMENTS, User, exported
from helpers.serving import SPEC, Serving, all_ended, run

from perturank.service.http.background import DAMAGED
from perturank.service.log.snapshots import version_name


@pytest.fixture(autouse=True)
def all_end() -> Iterator[None]:
    with all_ended():
        yield


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def damage(folder: Path, version: int, damaged: Callable[[bytes], bytes]) -> None:
    """Change the bytes of a stored version behind everybody's back."""
    with contextlib.closing(sqlite3.connect(folder / "perturank.db", timeout=60)) as database, database:
        named = (version_name("m", version),)
        (content,) = database.execute("SELECT content FROM blobs WHERE name = ?", named).fetchone()
        database.execute("UPDATE blobs SET content = ? WHERE name = ?", (damaged(content), *named))


def learn(serving: Serving, user: User) -> int:
    """Let the user click once; return the version that comes of it, which is served."""
    with serving.client() as client:
        before = max((each["version"] for each in client.versions("m")["versions"]), default=0)
        user.turn(client)
        serving.until(lambda: client.model("m")["version"] > before)
        return client.model("m")["version"]


def scores(serving: Serving) -> Any:
    """Return the version that is served and what it makes of the documents."""
    with serving.client() as client:
        found = client.explain(DOCUMENTS, model="m")
        return found["version"], found["ranking"]


def faults(serving: Serving) -> Any:
    """Return what a service that is ready says is wrong."""
    answer = httpx.get(f"{serving.ready().url}/readyz", timeout=60)
    assert answer.status_code == 200
    return answer.json()["faults"]


def must_say(serving: Serving, version: int) -> None:
    """Check that whoever asks is told of a damaged version: anybody that there is one, and who may know, which."""
    assert faults(serving) == [DAMAGED]
    said = f"version {version} of 'm' is damaged"
    assert said in (serving.folder / "err.txt").read_text()
    with serving.client() as client:
        alarms = [each for each in client.overview()["alarms"] if each["name"] == "damaged version"]
    assert [(each["model"], said.capitalize() in each["says"]) for each in alarms] == [("m", True)]


def test_a_damaged_version_gives_way_to_the_last_whole_one_until_the_next_is_learned(tmp_path: Path) -> None:
    serving, user = Serving(tmp_path), User()
    with serving.client() as client:
        client.put_model("m", **SPEC)
    learn(serving, user)
    whole = scores(serving)
    for end, how in ((Serving.stop, flipped), (Serving.kill, cut)):
        newest = learn(serving, user)
        assert scores(serving) != whole
        end(serving)
        damage(tmp_path, newest, how)
        serving = Serving(tmp_path)
        assert scores(serving) == whole  # a version is read when somebody asks for it
        must_say(serving, newest)
        assert learn(serving, user) == newest + 1
        assert faults(serving) == []
        whole = scores(serving)

    newest = learn(serving, user)
    damage(tmp_path, newest, flipped)  # while one serves it
    second = Serving(tmp_path, PERTURANK_LEARNER="none")
    assert scores(second) == whole
    must_say(second, newest)
    assert faults(serving) == []
    assert scores(serving)[0] == newest
    assert learn(second, user) == newest + 1
    assert faults(second) == []
    assert [each.stop() for each in (serving, second)] == [0, 0]

    log = f"sqlite:///{tmp_path}/perturank.db"
    verified = run("log", "verify", "--log", log)
    assert (verified.returncode, (verified.stdout + verified.stderr).count("is damaged")) == (1, 3)
    assert run("replay", "--log", log, "--model", "m", "--verify").returncode == 0
    feedback = [each for each in exported(log) if each["kind"] == "feedback"]
    assert sorted((each["impression"], each["clicks"]) for each in feedback) == sorted(
        (name, [click]) for name, click in user.acknowledged.items()
    )
