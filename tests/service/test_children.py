"""Files with their history, made by real child processes."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.service_small import NOTHING, created, learned, spec
from helpers.serving import is_running, rebuilding

from perturank.service import children
from perturank.service.learner.replay import rebuild_version
from perturank.service.learner.retention import compact, finish
from perturank.service.log import Log, snapshots
from perturank.service.log.refusals import NotKnown, NotReady
from perturank.service.serving.models import VersionFiles


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def files(log: Log, stopping: threading.Event) -> VersionFiles:
    return VersionFiles(log.url, stopping)


@contextmanager
def under_way(log: Log, files: VersionFiles) -> Iterator[tuple[int, Future[bytes]]]:
    """Yield a child that waits for the log, and the file that it is to make."""
    with ThreadPoolExecutor(1) as threads, log.transaction():
        made = threads.submit(files.make, "m", 1)
        yield rebuilding(os.getpid()), made


def test_the_file_of_any_version_is_what_was_learned_to_the_last_byte(either: Log, stopping: threading.Event) -> None:
    created(either, ranker="p2linrank")
    learner = learned(either, spec("p2linrank"), 1)
    first = learner.states["m"].ranker
    learner = learned(either, spec("p2linrank"), 1, start=3)
    files = VersionFiles(either.url, stopping)
    for version, ranker in (1, first), (2, learner.states["m"].ranker):
        assert ranker is not None
        assert files.make("m", version) == snapshots.file_bytes(ranker, "m", version)


def test_what_the_child_refuses_is_refused_in_the_same_words(log: Log, files: VersionFiles) -> None:
    created(log, ranker="p2linrank")
    learned(log, spec("p2linrank"), 3)
    for model, version in ("m", 4), ("other", 1):
        with pytest.raises(NotKnown) as here:
            rebuild_version(log, model, version)
        with pytest.raises(NotKnown) as there:
            files.make(model, version)
        assert there.value.told() == here.value.told()
    compact(log, "m", NOTHING)
    assert finish(log, {"m": 0}, 10)
    with pytest.raises(NotKnown, match=r"version 1 of model 'm' cannot be rebuilt any more; versions from 3 on can be"):
        files.make("m", 1)


def test_one_file_is_made_at_a_time(log: Log, files: VersionFiles) -> None:
    created(log, ranker="p2linrank")
    learned(log, spec("p2linrank"), 1)
    with under_way(log, files) as (_, made), pytest.raises(NotReady, match="is being made; ask again"):
        files.make("m", 1)
    assert made.result() == files.make("m", 1)


def test_a_child_steps_back_and_its_command_line_holds_no_address(log: Log, files: VersionFiles) -> None:
    with under_way(log, files) as (child, made):
        assert log.url.encode() not in Path(f"/proc/{child}/cmdline").read_bytes()
        end = time.monotonic() + 20
        while len(os.sched_getaffinity(child)) > 1 or _niceness(child) < min(_niceness(0) + children.NICENESS, 19):
            assert time.monotonic() < end
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        assert made.exception(60) is not None


def _niceness(process: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, process)


def test_a_child_that_is_killed_is_told_in_a_line(
    log: Log, files: VersionFiles, caplog: pytest.LogCaptureFixture
) -> None:
    with under_way(log, files) as (child, made):
        os.kill(child, signal.SIGKILL)
        with pytest.raises(NotReady, match="the model's file could not be made"):
            made.result(60)
    assert "its process ended with code -9" in caplog.text


def test_a_child_that_fails_leaves_its_reason_in_the_log(
    tmp_path: Path, stopping: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NotReady) as refused:
        VersionFiles(f"sqlite:///{tmp_path}/gone.db", stopping).make("m", 1)
    assert "gone.db" not in str(refused.value)
    assert f"ended with code 2\nerror: there is no log {tmp_path}/gone.db" in caplog.text


def test_told_to_stop_it_ends_the_child_at_once(log: Log, files: VersionFiles, stopping: threading.Event) -> None:
    with under_way(log, files) as (child, made):
        stopping.set()
        with pytest.raises(NotReady, match="about to stop"):
            made.result(children.SECONDS_TO_END)
        assert not is_running(child)


def test_where_no_process_can_be_started_it_is_to_be_asked_again(
    files: VersionFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(subprocess, "Popen", never)
    for _ in range(2):  # the first leaves nothing locked
        with caplog.at_level(logging.ERROR), pytest.raises(NotReady, match="could not be made"):
            files.make("m", 1)
    assert "no process can be started ([Errno 24] Too many open files)" in caplog.text
