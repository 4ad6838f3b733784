"""How the service starts: what is printed, and its learner."""

from __future__ import annotations

import errno
import logging
import shlex
import subprocess
import threading
from typing import Any

import msgspec
import pytest

from perturank.service.http import server
from perturank.service.http.app import application
from perturank.service.http.server import welcome
from perturank.service.log import Log
from perturank.service.log.spec import Spec
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.wire.requests import Rank


def test_a_learner_that_cannot_be_started_is_tried_again_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopping = threading.Event()
    started: list[Any] = []
    begin = subprocess.Popen

    def seldom(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(command)
        if len(started) < 4:
            raise OSError(errno.EMFILE, "Too many open files")
        stopping.set()
        return begin(["true"], **options)

    monkeypatch.setattr(subprocess, "Popen", seldom)
    monkeypatch.setattr(server, "SECONDS_TO_START_AGAIN", 0.01)
    monkeypatch.setattr(server, "MOST_SECONDS_TO_START_AGAIN", 0.03)
    with caplog.at_level(logging.ERROR):
        server.keep_learning(ServeSettings(), stopping)
    assert len(started) == 4
    said = [record.getMessage() for record in caplog.records]
    assert [each.rpartition(" in ")[2] for each in said] == ["0.01 seconds", "0.02 seconds", "0.03 seconds"]
    assert all("Too many open files" in each for each in said)


def commands(settings: ServeSettings, n_features: int | None) -> list[list[str]]:
    """Return the words of the commands that are printed."""
    words = shlex.split(welcome("http://127.0.0.1:1", settings, n_features).partition("try: ")[2])
    cut = words.index("&&") if "&&" in words else 0
    return [words[:cut], words[cut + 1 :]] if cut else [words]


def widths(command: list[str]) -> list[int]:
    asks = msgspec.json.decode(command[command.index("-d") + 1], type=Rank)
    return [len(each.features) for each in asks.documents]


@pytest.mark.parametrize("keys", [None, "file"])
def test_the_request_to_try_names_the_key_where_one_is_needed_and_never_holds_it(keys: str | None) -> None:
    (words,) = commands(ServeSettings(keys=keys), None)
    assert words[:2] == ["curl", "http://127.0.0.1:1/v1/models/default/rank"]
    assert ("authorization: Bearer $PERTURANK_KEY" in words) == (keys is not None)
    assert widths(words) == [2, 2]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_request_to_try_has_as_many_features_as_the_model_that_is_there(host: str) -> None:
    settings = ServeSettings(host=host, keys="file")
    (words,) = commands(settings, 5)
    assert widths(words) == [5, 5]
    (words,) = commands(settings, 700)  # nobody types so many
    assert words[:2] == ["curl", "http://127.0.0.1:1/v1/models/default"]


def test_where_no_request_makes_a_model_the_first_to_try_does() -> None:
    make, rank = commands(ServeSettings(host="0.0.0.0", keys="file"), None)
    assert make[:4] == ["curl", "-X", "PUT", "http://127.0.0.1:1/v1/models/default"]
    assert "authorization: Bearer $PERTURANK_KEY" in make
    assert [msgspec.json.decode(make[-1], type=Spec).n_features] * 2 == widths(rank)


def test_connections_outlive_the_minute_for_which_load_balancers_keep_theirs(log: Log) -> None:
    service = Service(log, ServeSettings())
    assert server.configured(application(service)).timeout_keep_alive > 60
    service.close()
