"""A change of people's wishes in the traffic of a real service: one alarm, the reaction, and the same bits again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.serving import SPEC, Serving, all_ended, run

from perturank.service.learner import verify
from perturank.service.learner.replay import rebuild
from perturank.service.log import open_log
from perturank.service.log.records import Drifted

DOCUMENTS = [{"id": f"d{i}", "features": [float(i == j) for j in range(5)]} for i in range(6)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_change_of_wishes_gives_one_alarm_and_the_reaction_and_is_replayed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/perturank.db" if kind == "sqlite" else request.getfixturevalue("database").fresh()
    with all_ended():
        service = Serving(tmp_path, url)
        with service.client() as client:
            client.put_model("m", **SPEC, on_drift="forget")
            service.ready()
            click(service, client, 0, 40)
            assert alarms(service) == []
            click(service, client, 3, 30)
            service.until(lambda: alarms(service) == ["drift"])
            told = client.overview()["models"][0]["drift"]
            assert told["reaction"] == "forget"
            assert told["after"] < told["before"]
            assert 'perturank_alarm{model="m",name="drift"} 1.0' in client.metrics()
        assert service.stop() == 0
        with contextlib.closing(open_log(url)) as log:
            found = [record.entry for record in log.control_records() if isinstance(record.entry, Drifted)]
            assert [each.lists for each in found] == [told["lists"]]
            assert list(verify.faults(log)) == []
            assert rebuild(log, "m").differs is None
        if kind == "sqlite":
            assert run("replay", "--log", url, "--model", "m", "--verify").returncode == 0


def alarms(service: Serving) -> list[str]:
    return [each["name"] for each in httpx.get(f"{service.url}/v1/overview", timeout=60).json()["alarms"]]


def click(service: Serving, client: Any, place: int, n: int) -> None:
    """Show n lists of the best estimate to people who click this place, and wait until that is learned.

    All lists are shown before the first click, so that one version has drawn them.
    """
    learned = client.model("m")["learned"]
    lists = [client.rank(DOCUMENTS, model="m", mode="exploit") for _ in range(n)]
    for shown in lists:
        client.feedback(shown.impression, [shown.ids[place]], model="m", final=True)
    service.until(lambda: client.model("m")["learned"] == learned + n)
