"""How the service starts: what is printed, and its learner."""

from __future__ import annotations

import errno
import logging
import shlex
import subprocess
import threading
from typing import Any

import pytest

from perturank.service import starting
from perturank.service.settings import ServeSettings
from perturank.service.starting import welcome


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
    monkeypatch.setattr(starting, "SECONDS_TO_START_AGAIN", 0.01)
    monkeypatch.setattr(starting, "MOST_SECONDS_TO_START_AGAIN", 0.03)
    with caplog.at_level(logging.ERROR):
        starting._keep_learning(ServeSettings(), stopping)
    assert len(started) == 4
    said = [record.getMessage() for record in caplog.records]
    assert [each.rpartition(" in ")[2] for each in said] == ["0.01 seconds", "0.02 seconds", "0.03 seconds"]
    assert all("Too many open files" in each for each in said)


@pytest.mark.parametrize("asks_for_keys", [False, True])
def test_the_request_to_try_names_the_key_where_one_is_needed_and_never_holds_it(asks_for_keys: bool) -> None:
    words = shlex.split(welcome("http://127.0.0.1:1", asks_for_keys=asks_for_keys).partition("try: ")[2])
    assert words[:2] == ["curl", "http://127.0.0.1:1/v1/models/default/rank"]
    assert ("authorization: Bearer $PERTURANK_KEY" in words) == asks_for_keys
