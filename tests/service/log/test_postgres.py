from __future__ import annotations

import threading

import psycopg
import pytest
from database import Database
from service_small import created, lived, shown, spec

from perturank.errors import BadInput
from perturank.service.entries import Pinned, Snapshot
from perturank.service.leading import Superseded
from perturank.service.learner import Learner
from perturank.service.log.committing import Committer
from perturank.service.log.opening import open_log
from perturank.service.log.postgres import PostgresLog
from perturank.service.refusals import NotReady
from perturank.service.replaying import rebuilt


def test_positions_follow_the_order_of_commits(database: Database) -> None:
    url = database.fresh()
    logs = [PostgresLog(url) for _ in range(4)]
    seen: list[int] = []
    done = threading.Event()

    def watch() -> None:
        # Going on from the last position seen must never miss one that is committed later.
        reader, after = PostgresLog(url), 0
        while not done.is_set() or reader.tail() > after:
            for record in reader.read(after):
                seen.append(record.position)
                after = record.position
        reader.close()

    def write(log: PostgresLog) -> None:
        for i in range(50):
            with log.transaction() as transaction:
                transaction.append("m", Pinned(i))

    watcher = threading.Thread(target=watch)
    watcher.start()
    writers = [threading.Thread(target=write, args=(log,)) for log in logs]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    watcher.join()
    assert seen == list(range(1, 201))
    for log in logs:
        log.close()


def test_one_learner_leads_and_another_takes_over_when_its_connection_ends(database: Database) -> None:
    url = database.fresh()
    one, other = PostgresLog(url), PostgresLog(url)
    assert one.try_to_lead()
    assert one.try_to_lead()
    assert not other.try_to_lead()
    created(one)
    lived(one, spec(), 2)
    old = Learner(one)
    with psycopg.connect(database.url("postgres"), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted")
    for _ in range(50):
        if other.try_to_lead():
            break
        threading.Event().wait(0.1)
    assert other.try_to_lead()
    new = Learner(other)
    with pytest.raises(Superseded):  # its connection for writing still works: the epoch keeps it out
        old.step()
    assert new.step() == 2
    versions = [record.entry for record in other.rare() if isinstance(record.entry, Snapshot)]
    assert [(each.version, each.epoch) for each in versions] == [(1, 2)]
    assert rebuilt(other, "m").differs is None
    one.close()
    other.close()


def test_a_database_that_dies_loses_nothing_and_the_log_goes_on(database: Database) -> None:
    log = PostgresLog(database.fresh())
    committer = Committer(log)
    names = [shown(log) for _ in range(3)]
    database.kill()
    with pytest.raises(NotReady):
        committer.submit(lambda transaction: transaction.append("m", Pinned(1))).result()
    with pytest.raises(NotReady):
        log.tail()
    database.start()
    assert committer.submit(lambda transaction: transaction.append("m", Pinned(1))).result() == 4
    assert [record.impression for record in log.read()] == [*names, None]
    committer.close()
    log.close()


def test_room_is_given_back_beside_what_else_is_done(database: Database) -> None:
    url = database.fresh()
    log = PostgresLog(url)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE perturank_log IN SHARE UPDATE EXCLUSIVE MODE")  # VACUUM waits for it
        assert not log.give_back()
        assert log.give_back()  # it is under way, and will have to be done again
    assert log._vacuum is not None
    log._vacuum.join(60)
    assert not log.give_back()
    log._vacuum.join(60)
    log.close()


def test_a_log_of_an_earlier_version_gets_the_index_of_what_is_few(database: Database) -> None:
    url = database.fresh()
    query = "SELECT to_regclass('perturank_few_position')"
    for _ in range(2):
        PostgresLog(url).close()
        with psycopg.connect(url) as connection:
            assert connection.execute(query).fetchone() != (None,)
            connection.execute("DROP INDEX perturank_few_position")


def test_an_address_without_a_log_is_refused(database: Database) -> None:
    with pytest.raises(BadInput, match="the database holds no log"):
        open_log(database.fresh())
    with pytest.raises(BadInput, match="cannot be reached"):
        open_log("postgresql://postgres@/none?host=/nowhere")
