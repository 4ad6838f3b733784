"""A live test from its beginning to the promoted winner, on a real service and its command line."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.serving import SPEC, Serving, all_ended, run

from perturank.service.learner import verify
from perturank.service.learner.replay import rebuild
from perturank.service.log import live_tests, open_log

WANTED = "d0"
DOCUMENTS = [{"id": f"d{i}", "features": [float(i == j) for j in range(5)], "prior": float(-i)} for i in range(6)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_test_is_run_killed_judged_again_from_its_log_and_its_winner_promoted(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_sqlite = kind == "sqlite"
    url = f"sqlite:///{tmp_path}/perturank.db" if is_sqlite else request.getfixturevalue("database").fresh()
    with all_ended():
        service = Serving(tmp_path, url)
        with service.client() as client:
            client.put_model("old", **SPEC | {"ranker": "random"})
            client.put_model("new", **SPEC | {"settle": 0.0})
            client.put_test("t", ["old", "own", "new"], window=0.5, learns="all")
            service.ready()
            show(client, 30)
            service.until(lambda: client.test("t")["lists"] == 30)
            service.until(lambda: client.model("new")["version"] > 0)
        service.kill()
        service = Serving(tmp_path, url).ready()
        with service.client() as client:
            show(client, 30)
            service.until(lambda: client.test("t")["lists"] == 60)
            found = client.test("t")
            assert found["leader"] != "old"  # None: the others have earned the same
            assert [each["learned"] for each in found["arms"]] == [60, 0, 60]
            promoted = client.promote("t", "new")
            assert (promoted["arm"], promoted["model"]) == ("new", "old")
            assert client.model("old")["spec"]["ranker"] == "p2linrank"
            assert not client.rank(DOCUMENTS, model="old").fallback
            told = client.test("t")
            if is_sqlite:
                said = run("test", "show", "t", "--url", service.url)
                assert (said.returncode, "new was promoted" in said.stdout) == (0, True), said.stderr
        assert service.stop() == 0
        if is_sqlite:
            verdict = run("test", "verdict", "t", "--log", url, "--json")
            assert verdict.returncode == 0, verdict.stderr
            assert json.loads(verdict.stdout) == told
        with contextlib.closing(open_log(url)) as log:
            assert live_tests.replayed(log, "t") == live_tests.required(log, "t")
            assert list(verify.faults(log)) == []
            assert all(rebuild(log, model).differs is None for model in ("old", "new"))


def show(client: Any, n: int) -> None:
    for i in range(n):
        shown = client.rank(DOCUMENTS, test="t", source=f"s{i}")
        if WANTED in shown.ids:
            client.feedback(shown.impression, [WANTED], test="t", final=True)
