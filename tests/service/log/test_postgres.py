from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from helpers.database import Database
from helpers.service_small import created, lived, shown, spec

from perturank.errors import BadInput
from perturank.service.learner.lead import EPOCH, Superseded
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.log import open_log, postgres
from perturank.service.log.group_commit import Committer
from perturank.service.log.postgres import PostgresLog, reason
from perturank.service.log.records import Pinned, Snapshot
from perturank.service.log.refusals import NotReady


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


@pytest.fixture(scope="module")
def strict(database: Database) -> Database:
    """Return the database with one user who has a password, and one who may make no tables."""
    with psycopg.connect(database.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE known LOGIN PASSWORD 'another'")
        connection.execute("CREATE ROLE poor LOGIN")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        rules = database.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all known scram-sha-256\n{rules.read_text()}")
        connection.execute("SELECT pg_reload_conf()")
    end = time.monotonic() + 60
    while time.monotonic() < end:  # until it has read them
        try:
            psycopg.connect(f"postgresql://known@/postgres?host={database.folder}").close()
        except psycopg.OperationalError:
            break
    return database


def test_a_host_that_is_part_of_a_misread_password_is_not_shown() -> None:
    error = psycopg.OperationalError("failed to resolve host 'secret@host':\n[Errno -2] Name not known")
    said = reason(error, "postgresql://me:a@secret@host/log")
    assert said == "failed to resolve host ***: [Errno -2] Name not known"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("postgresql://me:secret@/log?host={folder}&port=5999", r"{folder}/\.s\.PGSQL\.5999"),
        ("postgresql://me:secret@/log?host={folder}&prot=1", 'invalid URI query parameter: "prot"'),
        ("postgresql://nobody:secret@/log?host={folder}", 'role "nobody" does not exist'),
        ("postgresql://postgres:secret@/nowhere?host={folder}", 'database "nowhere" does not exist'),
        ("postgresql://known:secret@/postgres?host={folder}", 'password authentication failed for user "known"'),
        ("postgresql://me:secret@127.0.0.1:1/log", "Connection refused"),
        ("postgresql://me:secret@127.0.0.1:99999/log", 'invalid port number: "99999"'),
        ("postgresql://me:secret@127.0.0.1/log?sslmode=strictly", 'invalid sslmode value: "strictly"'),
        ("postgresql://me:secret%zz@127.0.0.1/log", r"invalid percent-encoded token: \*\*\*"),
        ("postgresql://me:a'secret@127.0.0.1/log", "its address cannot be read"),
        ('postgresql://me:a"secret%zz@127.0.0.1/log', "its address cannot be read"),
        ("postgresql://poor:secret@/postgres?host={folder}", "permission denied for schema public"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_why_in_one_line_without_its_password(
    address: str, says: str, strict: Database
) -> None:
    folder = str(strict.folder)
    with pytest.raises(BadInput, match=says.replace("{folder}", re.escape(folder))) as refused:
        PostgresLog(address.replace("{folder}", folder))
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None


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
    for _ in range(600):
        if other.try_to_lead():
            break
        time.sleep(0.1)
    assert other.try_to_lead()
    new = Learner(other)
    with pytest.raises(Superseded):  # its connection for writing still works: the epoch keeps it out
        old.step()
    assert new.step() == 2
    versions = [record.entry for record in other.control_records() if isinstance(record.entry, Snapshot)]
    assert [(each.version, each.epoch) for each in versions] == [(1, 2)]
    assert rebuild(other, "m").differs is None
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


def test_a_database_that_may_only_be_read_is_looked_for_again(database: Database) -> None:
    log = PostgresLog(database.fresh())
    with log.borrow() as connection:
        connection.execute("SET default_transaction_read_only = on")  # as a database that is now a copy of another
    with pytest.raises(NotReady), log.transaction():
        pass
    shown(log)
    assert log.tail() == 1
    log.close()


def test_a_transaction_that_the_database_ended_is_refused_and_the_log_goes_on(database: Database) -> None:
    log, other = PostgresLog(database.fresh()), psycopg.connect(database.url("postgres"), autocommit=True)
    with log.borrow() as connection:
        connection.execute("SET idle_in_transaction_session_timeout = 50")
        mine = connection.info.backend_pid

    def write_slowly() -> None:
        with log.transaction() as transaction:
            transaction.append("m", Pinned(1))
            end = time.monotonic() + 60
            while (
                time.monotonic() < end
                and other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (mine,)).fetchone()
            ):
                time.sleep(0.02)

    with pytest.raises(NotReady):
        write_slowly()
    assert log.tail() == 0
    shown(log)
    assert log.tail() == 1
    other.close()
    log.close()


def test_connections_give_up_soon_unless_the_address_says_otherwise(database: Database) -> None:
    log = PostgresLog(f"{database.fresh()}&connect_timeout=9&target_session_attrs=any")
    with log.borrow() as connection:
        used = connection.info.get_parameters()
    assert {name: used[name] for name in postgres.TIMEOUTS if name in used} == {
        "connect_timeout": "9",
        "keepalives_idle": "3",
        "keepalives_interval": "1",
        "keepalives_count": "3",
        "tcp_user_timeout": "5000",
    }
    assert log.rows("SHOW idle_in_transaction_session_timeout") == [("5s",)]
    log.close()


def test_a_process_stopped_inside_a_transaction_keeps_nobody_from_writing_for_long(
    database: Database, say: Callable[[str], None]
) -> None:
    log = PostgresLog(database.fresh())
    program = (
        "import sys, time\n"
        "from perturank.service.log.postgres import PostgresLog\n"
        "with PostgresLog(sys.argv[1]).transaction():\n"
        "    print('here', flush=True)\n"
        "    time.sleep(1000)\n"
    )
    stopped = subprocess.Popen([sys.executable, "-c", program, log.url], stdout=subprocess.PIPE, text=True)
    assert stopped.stdout is not None
    assert stopped.stdout.readline() == "here\n"
    stopped.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    shown(log)
    took = time.monotonic() - begun
    stopped.kill()
    stopped.wait()
    say(f"a stopped process held the log for {took:.1f} s")
    log.close()


def test_another_learner_takes_over_soon_after_the_one_that_leads_is_killed(
    database: Database, say: Callable[[str], None]
) -> None:
    log = PostgresLog(database.fresh())
    command = [sys.executable, "-c", "from perturank.cli import main; main()", "learn", "--log", log.url]

    def wait(holds: Callable[[], bool]) -> float:
        begun = time.monotonic()
        while not holds():
            time.sleep(0.02)
            assert time.monotonic() - begun < 120
        return time.monotonic() - begun

    def epoch() -> int:
        with log.transaction() as transaction:
            return transaction.remembered(EPOCH)

    def n_that_tried() -> int:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_try_advisory_lock%%'"
        return int(log.rows(query)[0][0])

    before, learners = n_that_tried(), [subprocess.Popen(command)]  # of the whole server, which others use too
    wait(lambda: epoch() == 1)
    learners.append(subprocess.Popen(command))
    wait(lambda: n_that_tried() >= before + 2)
    learners[0].kill()
    took = wait(lambda: epoch() == 2)
    for learner in learners:
        learner.kill()
        learner.wait()
    say(f"another learner took over after {took:.1f} s")
    log.close()


def test_room_is_given_back_beside_what_else_is_done(database: Database) -> None:
    url = database.fresh()
    log = PostgresLog(url)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE perturank_log IN SHARE UPDATE EXCLUSIVE MODE")  # VACUUM waits for it
        assert not log.give_back()
        assert log.give_back()  # it is under way, and will have to be done again
    while log.give_back():
        pass
    log.close()


def test_a_log_of_an_earlier_version_gets_the_index_of_what_is_few(database: Database) -> None:
    url = database.fresh()
    query = "SELECT to_regclass('perturank_few_by_position')"
    for _ in range(2):
        PostgresLog(url).close()
        with psycopg.connect(url) as connection:
            assert connection.execute(query).fetchone() != (None,)
            connection.execute("DROP INDEX perturank_few_by_position")


def test_an_address_without_a_log_is_refused(database: Database) -> None:
    with pytest.raises(BadInput, match="the database holds no log"):
        open_log(database.fresh())
    with pytest.raises(BadInput, match="cannot be reached"):
        open_log("postgresql://postgres@/none?host=/nowhere")
