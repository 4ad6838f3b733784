from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from helpers.service_small import (
    IDS,
    NOTHING,
    SECONDS,
    bits,
    created,
    forget_state,
    impression,
    n_impressions,
    served,
    shown,
    spec,
    versions,
)
from msgspec.structs import replace

from perturank.service.learner import retention
from perturank.service.learner.lead import Lead
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log, Transaction, changes, erasure, snapshots
from perturank.service.log.feedback import close_windows, record_feedback, settle
from perturank.service.log.generations import generations
from perturank.service.log.records import Batch, Event, Feedback, Impression, new_id, source_seal
from perturank.service.log.refusals import Contradiction, NotKnown
from perturank.service.log.spec import checked_spec, patched
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.models import LoadedModels

ALICE = "alice@example.org"
SOURCES = [ALICE, "bob", None, "carol", "bob", ALICE, "bob"]
LEARN = [sys.executable, "-c", "from perturank.cli import main; main()", "learn", "--log"]
KIND: dict[str, Any] = {"ranker": "p2linrank", "scaling": "auto", "cap": 5}


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Log]:
    """Return the log that never holds Alice."""
    opened = SqliteLog(tmp_path / "other.db")
    yield opened
    opened.close()


def live(log: Log, turns: range, learner: Learner | None = None, *, without: str = "", generation: int = 1) -> None:
    """Show seven lists in each turn, with clicks, purchases, places seen and windows; learn after each."""
    for turn in turns:
        settled, middle = [], 0
        for i, source in enumerate(SOURCES):
            if source == without:
                continue
            mode = ["learn", "own", "shadow"][i % 3]
            name = shown(log, impression(7 * turn + i, source=source, mode=mode, generation=generation))
            settled += [name] * (i % 2 == 0)
            middle = log.tail() if i == 3 else middle
            with log.transaction() as transaction:
                bought = [Event(IDS[(turn + i) % 4], "purchase")] if i % 2 else []
                clicks = [IDS[i % 4]]
                record_feedback(transaction, "m", name, clicks, i == 3, events=bought, seen=4 * (i == 2))
        with log.transaction() as transaction:
            settle(transaction, "m", settled)
            if turn % 2:
                close_windows(transaction, "m", middle)
        if learner is not None:
            learner.step()


def close_all(log: Log) -> None:
    with log.transaction() as transaction:
        close_windows(transaction, "m", log.tail())


def tidied(learner: Learner) -> None:
    while learner.step() or not learner.is_tidy:
        pass


def unlearned(log: Log, learner: Learner) -> None:
    retention.request_erasure(log, ALICE, unlearn=True)
    tidied(learner)


def rebuilt(log: Log, learner: Learner, source: str) -> None:
    """Let a model be rebuilt as after unlearning, also without a source that was never there."""
    with log.transaction() as transaction:
        changes.erase(transaction, "m", source_seal(source, log.secret), unlearn=True)
    tidied(learner)


def learned_anew(log: Log) -> bytes:
    """Return the bits of a learner that begins with this log."""
    learner = Learner(log)
    tidied(learner)
    return bits(learner)


def sources(log: Log) -> set[str | None]:
    return {record.entry.source for record in log.read() if isinstance(record.entry, Impression)}


@pytest.mark.parametrize("changed", [{}, {"batch": 4}, {"settings": {"memory": 32}}], ids=["all", "fixed", "memory"])
def test_the_bits_are_those_of_a_log_that_never_held_the_source(
    either: Log, other: Log, changed: dict[str, Any]
) -> None:
    for log in (either, other):
        created(log, **KIND | changed)
    learner = Learner(either)
    live(either, range(6), learner)
    live(other, range(6), without=ALICE)
    before, n = bits(learner), len(versions(either))
    skipped = [record.entry.skipped for record in either.all_of("m", Batch) if isinstance(record.entry, Batch)]
    assert n > 3
    assert sum(map(len, skipped)) > 3
    unlearned(either, learner)
    assert bits(learner) != before
    assert bits(learner) == learned_anew(other)
    assert sources(either) == {"bob", "carol", None}
    assert list(faults(either)) == []
    assert len(versions(either)) == n + 1  # none of them with half of it
    report = rebuild(either, "m")
    assert (report.checked, report.differs) == (1, None)
    assert matches_stored(either, report)
    live(either, range(6, 8), learner)  # she may come back
    assert ALICE in sources(either)
    assert rebuild(either, "m").differs is None
    forget_state(either)
    again = Learner(either)
    tidied(again)
    assert bits(again) == bits(learner)


def test_with_batches_of_a_fixed_size_the_bits_are_those_of_a_learner_that_was_there_all_the_time(
    log: Log, other: Log
) -> None:
    kind = KIND | {"scaling": "none", "batch": 4}
    learners = []
    for each, without in ((log, ""), (other, ALICE)):
        created(each, **kind)
        learners.append(Learner(each))
        live(each, range(6), learners[-1], without=without)
    assert bits(learners[0]) != bits(learners[1])
    unlearned(log, learners[0])
    assert bits(learners[0]) == bits(learners[1])


def operate(log: Log, learner: Learner, without: str) -> None:
    """Let an operator roll back, add a feature, begin anew and restore, with traffic between."""

    def write(change: Callable[[Transaction], object]) -> None:
        with log.transaction() as transaction:
            change(transaction)
        learner.step()

    def change_spec(transaction: Transaction, **patch: object) -> None:
        found = checked_spec(patched(transaction.require_model("m").spec, patch), is_whole=True)
        changes.put(transaction, "m", found, begin_anew=True)

    live(log, range(3), learner, without=without)
    write(lambda each: changes.roll_back(log, each, "m", 2))
    live(log, range(3, 5), learner, without=without)
    last = versions(log)[-1]
    write(lambda each: changes.roll_back(log, each, "m", last - 1))
    write(lambda each: change_spec(each, seed=7))
    live(log, range(5, 6), learner, without=without, generation=generations(log, "m")[-1].generation)
    write(lambda each: changes.restore(log, each, "m", 1))
    live(log, range(6, 8), learner, without=without)


def test_what_an_operator_dropped_stays_dropped(log: Log, other: Log) -> None:
    learners = []
    for each, without in ((log, ""), (other, ALICE)):
        created(each, **KIND)
        learners.append(Learner(each))
        operate(each, learners[-1], without)
    assert bits(learners[0]) != bits(learners[1])
    unlearned(log, learners[0])
    rebuilt(other, learners[1], ALICE)  # who was never there: the same rule makes the same batches
    assert bits(learners[0]) == bits(learners[1])
    assert learners[0].states["m"].learned == learners[1].states["m"].learned > 0
    assert rebuild(log, "m").differs is None
    assert [each.refusal for each in generations(log, "m")] == ["it is the present one", "a source was unlearned since"]


def test_versions_that_learned_from_it_are_withdrawn_and_others_stay(either: Log) -> None:
    created(either, **KIND)
    learner = Learner(either)
    live(either, range(1), learner, without=ALICE)
    live(either, range(1, 4), learner)
    first, last = versions(either)[0], versions(either)[-1]
    servers = [LoadedModels(either, 16) for _ in range(2)]
    with either.transaction() as transaction:
        changes.pin(either, transaction, "m", last - 1)
    request = retention.request_erasure(either, ALICE, unlearn=True)["m"]
    for server in servers:  # it serves on, and what would bring a version back is refused
        server.refresh()
        assert (server.get("m").version, server.get("m").unlearning) == (last - 1, (request, 0))
        with pytest.raises(Contradiction, match="is unlearning a source since position"):
            server.with_version(server.get("m"), first)
    doing: list[Callable[[Transaction], object]] = [
        lambda each: changes.pin(either, each, "m", last),
        lambda each: changes.roll_back(either, each, "m", last),
        lambda each: changes.restore(either, each, "m", 1),
    ]
    for do in doing:
        with pytest.raises(Contradiction, match="withdraws versions"), either.transaction() as transaction:
            do(transaction)
    tidied(learner)
    for server in [*servers, LoadedModels(either, 16)]:
        server.refresh()
        now = server.get("m")
        assert (now.version, now.pinned, now.unlearning, now.fault) == (last + 1, None, None, None)
    assert snapshots.versions(either, "m") == [first, last + 1]
    for version in range(first + 1, last + 1):
        with pytest.raises(NotKnown, match="no longer stored"), either.transaction() as transaction:
            changes.pin(either, transaction, "m", version)
        with (
            pytest.raises(NotKnown, match="was withdrawn: a source was unlearned"),
            either.transaction() as transaction,
        ):
            changes.roll_back(either, transaction, "m", version)
    with either.transaction() as transaction:
        changes.roll_back(either, transaction, "m", first)
    learner.step()
    assert rebuild(either, "m").differs is None


def test_learning_begins_again_at_an_imported_file_as_often_as_need_be(log: Log, other: Log) -> None:
    learners = []
    for each, without in ((log, ""), (other, ALICE)):
        created(each, **KIND)
        learners.append(Learner(each))
        live(each, range(2), learners[-1], without=without)
    ranker = learners[1].states["m"].ranker
    assert ranker is not None
    file = changes.read_ranker_file("m", spec(**KIND), snapshots.file_bytes(ranker, "m", 1))
    for each, learner, without in zip((log, other), learners, ("", ALICE), strict=True):
        with each.transaction() as transaction:
            changes.import_ranker(each, transaction, "m", file)
        live(each, range(2, 4), learner, without=without)
    for source in (ALICE, "carol"):  # the file is needed again, though there is a base behind it
        for each, learner in zip((log, other), learners, strict=True):
            rebuilt(each, learner, source)
        assert bits(learners[0]) == bits(learners[1])
        assert learners[0].states["m"].learned > 0
    with log.transaction() as transaction:
        transaction.remove(file.blob)
    with pytest.raises(Contradiction, match=r"the file imported at position \d+ is not stored"):
        retention.request_erasure(log, "bob", unlearn=True)


def test_a_source_that_nobody_named_is_refused_and_nothing_is_rebuilt(log: Log) -> None:
    created(log, **KIND)
    created(log, "empty", **KIND)
    learner = Learner(log)
    live(log, range(2), learner)
    end = log.tail()
    with pytest.raises(NotKnown, match="no record names the source 'browser nobody'"):
        retention.request_erasure(log, "browser nobody", unlearn=True)
    assert log.tail() == end
    retention.request_erasure(log, ALICE, "m")  # its records go, and what was learned from them stays
    tidied(learner)
    assert ALICE not in sources(log)
    assert list(retention.request_erasure(log, ALICE, unlearn=True)) == ["m"]
    with pytest.raises(NotKnown):
        retention.request_erasure(log, "bob", "empty", unlearn=True)


def test_asked_twice_it_does_nothing_more(log: Log) -> None:
    created(log, **KIND)
    learner = Learner(log)
    live(log, range(2), learner)
    first = retention.request_erasure(log, ALICE, unlearn=True)
    end = log.tail()
    assert retention.request_erasure(log, ALICE, unlearn=True) == first
    assert log.tail() == end
    tidied(learner)
    end = log.tail()
    assert retention.request_erasure(log, ALICE, unlearn=True) == first
    assert log.tail() == end
    live(log, range(2, 3), learner)
    unlearned(log, learner)  # she had come back
    assert ALICE not in sources(log)
    assert rebuild(log, "m").differs is None


def test_where_records_were_compacted_it_is_refused_and_nothing_is_written(either: Log) -> None:
    created(either, **KIND | {"scaling": "none"})
    created(either, "n", **KIND)
    learner = Learner(either)
    live(either, range(4), learner)
    close_all(either)
    learner.step()
    base = retention.compact(either, "m", NOTHING)
    assert base is not None
    tidied(learner)
    end = either.tail()
    what = f"model 'm' cannot unlearn: its records up to position {base.through} were compacted into its base"
    for model in ("m", None):
        with pytest.raises(Contradiction, match=what):
            retention.request_erasure(either, ALICE, model, unlearn=True)
    assert either.tail() == end
    with either.transaction() as transaction:  # a generation that began later has all its records
        changes.put(transaction, "m", spec(**KIND), begin_anew=True)
    generation = generations(either, "m")[-1].generation
    live(either, range(4, 6), learner, generation=generation)
    unlearned(either, learner)
    assert ALICE not in sources(either)
    assert rebuild(either, "m").differs is None


def test_no_base_is_made_while_a_source_is_unlearned(log: Log) -> None:
    created(log, **KIND | {"scaling": "none"})
    learner = Learner(log)
    live(log, range(4), learner)
    retention.request_erasure(log, ALICE, unlearn=True)
    assert retention.compact(log, "m", NOTHING) is None
    erased = retention.request_erasure(log, "carol")  # this needs the learner too
    assert not retention.finish(log, erased, 0)
    tidied(learner)
    assert retention.finish(log, erased, 0)
    assert sources(log) == {"bob", None}
    assert rebuild(log, "m").differs is None


def test_a_source_that_only_feedback_names_goes_with_its_lists(log: Log, other: Log) -> None:
    for each, hers in ((log, True), (other, False)):
        created(each, **KIND)
        live(each, range(1), without=ALICE)
        for source in ["dora"] * hers + ["bob"]:
            name = shown(each, impression(99))
            with each.transaction() as transaction:
                record_feedback(transaction, "m", name, ["a"], True)  # who did it is not known yet
                record_feedback(transaction, "m", name, ["b"], False, source=source)
                record_feedback(transaction, "m", name, ["c"], True, source=source)
    learner = Learner(log)
    learner.step()
    retention.request_erasure(log, "dora", unlearn=True)
    tidied(learner)
    assert n_impressions(log) == n_impressions(other) == 6
    assert bits(learner) == learned_anew(other)


def test_a_deleted_model_and_one_that_begins_anew_meanwhile_have_nothing_to_rebuild(log: Log) -> None:
    created(log, **KIND)
    learner = Learner(log)
    live(log, range(2), learner)
    retention.request_erasure(log, ALICE, unlearn=True)
    with log.transaction() as transaction:
        changes.put(transaction, "m", spec(**KIND | {"seed": 7}), begin_anew=True)
    tidied(learner)
    assert (ALICE in sources(log), snapshots.versions(log, "m"), erasure.unlearning(log, "m")) == (False, [], 0)
    live(log, range(2, 4), learner, generation=generations(log, "m")[-1].generation)
    with log.transaction() as transaction:
        changes.delete(transaction, "m")
    unlearned(log, learner)
    assert ALICE not in sources(log)
    assert list(faults(log)) == []


class Killed(BaseException):
    """The learner died."""


def test_a_learner_may_die_between_any_two_writes(log: Log, other: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log, **KIND)
    created(other, **KIND)
    learner = Learner(log)
    live(log, range(5), learner)
    live(other, range(5), without=ALICE)
    learner.close()
    retention.request_erasure(log, ALICE, unlearn=True)
    check, before, n_lives = Lead.check, versions(log), 0
    while not (retention.is_done(log, "m", 1) and erasure.unlearning(log, "m") == 0):
        n_lives += 1
        left = n_lives

        def check_or_die(self: Lead, transaction: Transaction) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            check(self, transaction)

        monkeypatch.setattr(Lead, "check", check_or_die)
        with suppress(Killed):
            tidied(Learner(log))
        assert versions(log) in (before, [*before, before[-1] + 1])
    assert n_lives > 2
    monkeypatch.undo()
    assert bits(Learner(log)) == learned_anew(other)
    assert (ALICE in sources(log), list(faults(log)), rebuild(log, "m").differs) == (False, [], None)


def test_a_learner_that_is_killed_while_it_rebuilds_leaves_the_rest_to_the_next(log: Log, other: Log) -> None:
    for each, whose in ((log, [ALICE, "bob", "carol"]), (other, ["bob", "carol"])):
        created(each)
        entries = [each.about([served(each, spec(), seed)])[0].entry for seed in range(4)]
        with each.transaction() as transaction:
            for turn, source in product(range(3000), whose):
                name, entry = new_id(transaction.position), entries[turn % 4]
                assert isinstance(entry, Impression)
                transaction.append("m", replace(entry, source=source), name)
                transaction.append("m", Feedback([entry.ids[turn % 3]], True, "counted", []), name)
    Learner(log).step()
    (before,) = versions(log)
    request = retention.request_erasure(log, ALICE, unlearn=True)["m"]
    learner, end = subprocess.Popen([*LEARN, log.url]), time.monotonic() + 2 * SECONDS
    while log.newest("m", Batch, 1)[0].position < request:
        assert time.monotonic() < end
        time.sleep(0.002)
    os.kill(learner.pid, signal.SIGKILL)
    learner.wait()
    assert (versions(log), erasure.unlearning(log, "m"), ALICE in sources(log)) == ([before], request, True)
    for each in (log, other):
        subprocess.run([*LEARN, each.url, "--once"], check=True)
    rebuilt, never = (snapshots.newest(each, "m", 1)[0].snapshot for each in (log, other))
    assert (rebuilt.version, rebuilt.learned, rebuilt.digest) == (before + 1, 6000, never.digest)
    assert (erasure.unlearning(log, "m"), ALICE in sources(log)) == (0, False)
