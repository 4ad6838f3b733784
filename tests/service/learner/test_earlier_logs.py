"""A log of the version that knew neither scales nor events: it opens, replays to the same bits, and goes on."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import msgspec
import pytest
from helpers.service_small import closed, learned, lived, served, spec

from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Transaction, changes, snapshots
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import KINDS, Changed, Event, Feedback, Impression, RolledBack
from perturank.service.log.spec import checked_spec
from perturank.service.log.sqlite import SqliteLog
from perturank.wire.specification import SpecRequest

FIELDS_THEN = {Changed: 2, Impression: 9, Feedback: 3, RolledBack: 1}  # the first ones; other kinds had all
TAG = 1
SPEC_THEN = {"n_features", "ranker", "settings", "places", "seed", "window", "cap", "exploration", "features", "chance"}


def shorten(path: Path) -> None:
    """Rewrite the records with the fields that they had then, and drop what the learner has stored beside them."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for kind, n in FIELDS_THEN.items():
            found = database.execute("SELECT position, body FROM log WHERE kind = ?", (KINDS[kind],)).fetchall()
            for position, body in found:
                fields = msgspec.msgpack.decode(body)[: TAG + n]
                if kind is Changed:
                    fields[-1] = {name: value for name, value in fields[-1].items() if name in SPEC_THEN}
                now = msgspec.msgpack.encode(fields)
                assert now != body
                database.execute("UPDATE log SET body = ? WHERE position = ?", (now, position))
        database.execute("DELETE FROM blobs WHERE name = ?", (snapshots.state_name("m"),))


def say(transaction: Transaction, name: bytes) -> str:
    """Say that somebody bought the last document of a list, and return what that did."""
    shown = transaction.about(name)[0].entry
    assert isinstance(shown, Impression)
    return record_feedback(transaction, "m", name, [], False, events=[Event(shown.ids[-1], "purchase")])


@pytest.mark.parametrize("ranker", ["p2linrank", "pdgd-linear"])
def test_it_opens_replays_to_the_same_bits_and_goes_on(tmp_path: Path, ranker: str) -> None:
    path, made = tmp_path / "log.db", spec(ranker)
    with contextlib.closing(SqliteLog(path)) as log:
        with log.transaction() as transaction:
            transaction.append("m", Changed(0, made))
        learned(log, made, 2)
        with log.transaction() as transaction:
            transaction.append("m", RolledBack(1))
        Learner(log).step()
        (last_word,) = lived(log, made, 1, 20)
        waiting = served(log, made, 30)
    shorten(path)
    with contextlib.closing(SqliteLog(path)) as log:
        assert list(faults(log)) == []
        assert rebuild(log, "m").differs is None
        learner = Learner(log)
        assert learner.step() == 1
        with log.transaction() as transaction:
            now = transaction.require_model("m").spec
            assert (now.scaling, now.settle, now.actions["purchase"]) == ("none", 30.0, 10.0)
            assert say(transaction, waiting) == "recorded"
            assert say(transaction, last_word) == "late"  # as it was then
            again = checked_spec(SpecRequest(n_features=made.n_features, places=made.places), now)
            assert not changes.put(transaction, "m", again)  # as a client sends it at every start
        lived(log, made, 3, 40)
        closed(log)
        assert learner.step() == 4
        report = rebuild(log, "m")
        assert (report.differs, report.state.learned) == (None, 11)
        assert list(faults(log)) == []
