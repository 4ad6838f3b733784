"""A clock that is set back under running processes, or before they start again, and at last put right."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest
from helpers.clicking import DOCUMENTS, User, tally
from helpers.serving import SPEC, Serving, all_ended
from moved_clock import sitecustomize

DAY = 86_400  # seconds


class Clock:
    """The clock of all processes that are started from now on; of ours it is not."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = folder / "clock"
        self.move(0)
        paths = [str(Path(sitecustomize.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        monkeypatch.setenv(sitecustomize.FILE, str(self._file))

    def move(self, seconds: int) -> None:
        """Set it so far from the true time."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)  # at once: others read it at any moment


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    with all_ended():
        yield Clock(tmp_path, monkeypatch)


def go_on(serving: Serving, user: User) -> None:
    """Let the user click until that is learned."""
    with serving.client() as client:
        version = client.model("m")["version"]
        for _ in range(5):
            user.turn(client)
        serving.until(lambda: client.model("m")["version"] > version)


def show(serving: Serving) -> None:
    """Show a list that nobody clicks on."""
    with serving.client() as client:
        client.rank(DOCUMENTS, model="unclicked")


def until_closed(serving: Serving, n: int) -> None:
    """Wait until the windows of so many lists have closed, and that is learned."""
    with serving.client() as client:
        serving.until(lambda: [each["learned"] for each in client.versions("unclicked")["versions"][:1]] == [n])


def seconds_told(serving: Serving) -> dict[str, float]:
    """Return all that Prometheus is told in seconds."""
    samples = [line for line in httpx.get(f"{serving.url}/metrics", timeout=60).text.splitlines() if line[0] != "#"]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in samples) if "seconds" in name}


def now() -> int:
    """Return the true time, as the log has it: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def test_a_clock_set_back_a_day_changes_nothing(tmp_path: Path, clock: Clock) -> None:
    serving = Serving(tmp_path, PERTURANK_KEEP="1h")
    with serving.client() as client:
        client.put_model("m", **SPEC)
        client.put_model("unclicked", **SPEC | {"window": 0.5})
    user = User()
    go_on(serving, user)
    show(serving)
    clock.move(-DAY)  # while it runs, and while a window is open
    set_back = now()
    go_on(serving, user)
    until_closed(serving, 1)
    with serving.client() as client:
        assert client.overview()["at"] < set_back
    told = seconds_told(serving)
    assert 'perturank_version_age_seconds{model="m"}' in told
    assert min(told.values()) >= 0
    show(serving)
    assert serving.stop() == 0
    clock.move(-2 * DAY)
    serving = Serving(tmp_path, PERTURANK_KEEP="1h")
    go_on(serving, user)
    until_closed(serving, 2)
    put_right = now()
    clock.move(0)  # now nothing may look older than the hour that is kept
    go_on(serving, user)
    assert serving.stop() == 0

    found = tally(f"sqlite:///{tmp_path}/perturank.db", [user])
    assert found.is_whole, found
    assert found.acknowledged == found.logged == user.answers["recorded"]
    assert [each["position"] for each in found.records] == list(range(1, len(found.records) + 1))
    times = [round(1000 * datetime.fromisoformat(each["at"]).timestamp()) for each in found.records]
    assert times == sorted(times)
    assert [at for at in times if set_back < at < put_right] == []  # server and learner had the wrong clock
    closings = [each["through"] for each in found.records if each["kind"] == "closed"]
    assert len(closings) > 1
    assert closings == sorted(set(closings))
