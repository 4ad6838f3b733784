"""A -wal file cut on either side of what was merged of it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from service_small import impression

from perturank.errors import BadInput
from perturank.service.log import merged
from perturank.service.log.checkpointing import PAGE_BYTES
from perturank.service.log.locking import open_here
from perturank.service.log.sqlite import SqliteLog

CONTENT_BYTES = 100 * PAGE_BYTES
HEADER, FRAME = 32, 24 + PAGE_BYTES


@dataclass(frozen=True)
class Commit:
    """How long the -wal file was after a commit, and what the log held."""

    wal_bytes: int
    names: tuple[bytes, ...]
    contents: dict[str, bytes]


@dataclass(frozen=True)
class Left:
    """What a killed process left: the file before a merge and after, and the -wal file, which has gone on since."""

    before: bytes
    after: bytes
    wal: bytes
    merged: Commit
    commits: list[Commit]


def write(log: SqliteLog, seed: int, last: Commit) -> Commit:
    """Commit a list and 100 pages, some in place of others."""
    name, chance = seed.to_bytes(12, "big"), random.Random(seed)
    contents = last.contents | {f"x{seed % 7}": chance.randbytes(CONTENT_BYTES)}
    with log.transaction() as transaction:
        transaction.append("m", impression(seed), name)
        transaction.store(f"x{seed % 7}", contents[f"x{seed % 7}"])
    wal = log.path.with_name("log.db-wal")
    return Commit(wal.stat().st_size, (*last.names, name), contents)


def checkpoint(log: SqliteLog) -> tuple[int, int]:
    busy, n_pages, n_merged = log._connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    assert not busy
    return n_pages, n_merged


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    path = tmp_path_factory.mktemp("left") / "log.db"
    log = SqliteLog(path)
    log._checkpointer.close()
    commits = [Commit(0, (), {})]
    for seed in range(4):
        commits.append(write(log, seed, commits[-1]))
    log._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before, commits = path.read_bytes(), [Commit(HEADER, commits[-1].names, commits[-1].contents)]
    for seed in range(4, 16):
        commits.append(write(log, seed, commits[-1]))
    with reading(path):  # the newest state: the merge is whole, but the -wal file cannot begin anew
        middle = commits[-1]
        n_pages, n_merged = checkpoint(log)
        assert n_merged == n_pages > 1000
        assert HEADER + n_merged * FRAME == middle.wal_bytes
        after = path.read_bytes()
        for seed in range(16, 22):
            commits.append(write(log, seed, commits[-1]))
        wal = path.with_name("log.db-wal").read_bytes()
    log.close()
    return Left(before, after, wal, middle, commits)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM log LIMIT 1").fetchall()
        yield


def put(folder: Path, content: bytes, wal: bytes) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "log.db").write_bytes(content)
    (folder / "log.db-wal").write_bytes(wal)
    return folder / "log.db"


def must_hold(log: SqliteLog, expected: Commit) -> None:
    assert log._connection().execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert tuple(record.impression for record in log.read()) == expected.names
    assert {name: log.stored(name) for name in log.names("x")} == expected.contents
    with log.transaction() as transaction:
        assert all(transaction.about(name) for name in expected.names)


def test_a_wal_cut_below_or_above_what_is_merged_loses_no_transaction_that_is_whole(
    left: Left, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chance, ends = random.Random(0), [commit.wal_bytes for commit in left.commits]
    cuts = {0, HEADER - 1, HEADER + FRAME, *ends, ends[1] - 1, left.merged.wal_bytes - 1, left.merged.wal_bytes + 1}
    cuts |= {chance.randrange(len(left.wal)) for _ in range(10)}
    for n in sorted(cuts):
        path = put(tmp_path / "cut", left.after, left.wal[:n])
        whole = max((c for c in left.commits if c.wal_bytes <= n), default=left.commits[0], key=lambda c: c.wal_bytes)
        is_below = whole.wal_bytes < left.merged.wal_bytes
        caplog.clear()
        with closing(SqliteLog(path)) as log:
            must_hold(log, left.merged if is_below else whole)
        dropped = [(n,)] if is_below and whole.wal_bytes > HEADER else []  # SQLite takes no notice of less
        assert [record.args for record in caplog.records] == dropped
        with closing(SqliteLog(path)) as log:
            must_hold(log, left.merged if is_below else whole)


def test_several_that_open_a_cut_log_at_once_drop_it_once_and_go_on(
    left: Left, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(tmp_path / "cut", left.after, left.wal[: left.commits[3].wal_bytes])

    def add(seed: int) -> None:
        with closing(SqliteLog(path)) as log, log.transaction() as transaction:
            transaction.append("m", impression(seed), seed.to_bytes(12, "big"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(100, 104)))
    assert len(caplog.records) == 1
    with closing(SqliteLog(path)) as log:
        assert len(list(log.read())) == len(left.merged.names) + 4


def mixed(left: Left, n_first: int) -> bytes:
    """Return the file as a merge leaves it that was killed after so many bytes."""
    return left.after[:n_first] + left.before[n_first:]


@pytest.mark.parametrize("n_first", [0, PAGE_BYTES, 100 * PAGE_BYTES])
@pytest.mark.parametrize("n_left", [None, 0, HEADER - 1, HEADER, HEADER + 3 * FRAME, HEADER + 300 * FRAME + 100])
def test_what_was_being_merged_is_put_back_from_the_copy(
    left: Left, n_first: int, n_left: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(tmp_path / "cut", mixed(left, n_first), b"" if n_left is None else left.wal[:n_left])
    if n_left is None:
        path.with_name("log.db-wal").unlink()
    torn = left.wal[left.merged.wal_bytes :][: FRAME // 2]  # of a copy that was being made longer
    path.with_name("log.db-merging").write_bytes(left.wal[: left.merged.wal_bytes] + torn)
    with closing(SqliteLog(path)) as log:
        must_hold(log, left.merged)
    whole = max(c.wal_bytes for c in left.commits if c.wal_bytes <= (n_left or 0) or c.wal_bytes == HEADER)
    n_put_back = left.merged.wal_bytes - (0 if (n_left or 0) < HEADER else whole)
    assert [record.args for record in caplog.records] == [(n_put_back,)]
    with closing(SqliteLog(path)) as log:
        must_hold(log, left.merged)
    assert len(caplog.records) == 1


def test_a_log_with_a_copy_goes_on_from_a_wal_file_that_is_longer(left: Left, tmp_path: Path) -> None:
    half = len(left.before) // PAGE_BYTES // 2 * PAGE_BYTES
    for commit in left.commits:
        if commit.wal_bytes >= left.merged.wal_bytes:
            path = put(tmp_path / "cut", mixed(left, half), left.wal[: commit.wal_bytes])
            path.with_name("log.db-merging").write_bytes(left.wal[: left.merged.wal_bytes])
            with closing(SqliteLog(path)) as log:
                must_hold(log, commit)


def test_a_copy_of_what_is_merged_long_since_is_not_put_back(
    left: Left, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, old = put(tmp_path / "old", left.after, b""), left.wal[: left.merged.wal_bytes]
    with closing(SqliteLog(path)) as log:
        log._checkpointer.close()
        newer = write(log, 50, left.merged)
        wal = path.with_name("log.db-wal").read_bytes()  # begun anew
    merged_newer = path.read_bytes()
    for content, rest, expected in [
        (left.after, wal, newer),
        (merged_newer, b"", newer),
        (merged_newer, wal[:-1], newer),
        (left.after, wal[:-1], left.merged),
        (left.after, b"", left.merged),  # put back, which changes nothing
    ]:
        path = put(tmp_path / "old", content, rest)
        path.with_name("log.db-merging").write_bytes(old)
        with closing(SqliteLog(path)) as log:
            must_hold(log, expected)
    assert ["put back" in message for message in caplog.messages] == [True]


def test_a_log_that_is_merged_in_part_and_lacks_its_copy_is_refused_and_left_as_it_is(
    left: Left, tmp_path: Path
) -> None:
    half = len(left.before) // PAGE_BYTES // 2 * PAGE_BYTES
    wal = left.wal[: left.commits[3].wal_bytes]
    path = put(tmp_path / "cut", mixed(left, half), wal)
    for _ in range(2):
        with pytest.raises(BadInput, match=r"no copy of it is there .*log\.db-merging back beside it"):
            SqliteLog(path)
    assert path.read_bytes() == mixed(left, half)
    assert path.with_name("log.db-wal").read_bytes() == wal
    path.with_name("log.db-merging").write_bytes(left.wal[: left.merged.wal_bytes])
    with closing(SqliteLog(path)) as log:
        must_hold(log, left.merged)


def test_an_older_copy_of_the_log_is_not_mixed_with_what_lies_beside_it(left: Left, tmp_path: Path) -> None:
    path = put(tmp_path / "older", b"", b"")
    with closing(SqliteLog(path)) as log:
        commit = write(log, 0, Commit(0, (), {}))
    older = path.read_bytes()
    path = put(tmp_path / "older", older, left.wal)
    with pytest.raises(BadInput, match=r"log\.db-wal goes on from a later state .*move away"):
        SqliteLog(path)
    assert path.read_bytes() == older
    path.with_name("log.db-wal").rename(path.with_name("log.db-merging"))
    with closing(SqliteLog(path)) as log:
        must_hold(log, commit)


def test_a_file_that_is_no_copy_is_passed_over(left: Left, tmp_path: Path) -> None:
    for content in (b"", b"no copy", bytes(HEADER), left.wal[: HEADER + FRAME]):
        path = put(tmp_path / "cut", left.before, left.wal)
        path.with_name("log.db-merging").write_bytes(content)
        with closing(SqliteLog(path)) as log:
            must_hold(log, left.commits[-1])
        assert not path.with_name("log.db-merging").exists()


def test_what_somebody_else_changed_is_not_undone_by_an_old_copy(left: Left, tmp_path: Path) -> None:
    path = put(tmp_path / "changed", left.after, b"")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DELETE FROM blobs WHERE name = 'x1'")
        other.execute("VACUUM")
    path.with_name("log.db-merging").write_bytes(left.wal[: left.merged.wal_bytes])
    with closing(SqliteLog(path)) as log:
        rest = {name: content for name, content in left.merged.contents.items() if name != "x1"}
        must_hold(log, Commit(0, left.merged.names, rest))


def test_a_log_that_somebody_opens_or_closes_for_long_is_refused(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perturank.service.log.sqlite.SECONDS_TO_WAIT", 0.01)
    path = put(tmp_path / "cut", left.after, left.wal)
    with closing(open_here(path)) as stopped:
        assert stopped.is_mine()
        with pytest.raises(BadInput, match="has been opening or closing"):
            SqliteLog(path)
    SqliteLog(path).close()


def test_what_others_have_open_is_not_mended(left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "open", left.after, b"")
    with closing(SqliteLog(path)) as log:
        monkeypatch.setattr(merged, "mend", pytest.fail)
        with closing(SqliteLog(path)) as other:
            must_hold(other, left.merged)
        must_hold(log, left.merged)


def test_only_what_writes_counts_and_the_count_begins_anew_at_its_end(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")

    def counted() -> int:
        return int(log._one("PRAGMA user_version")[0])

    assert counted() == 1
    with log.transaction() as transaction:
        transaction.about(b"nothing")
    assert counted() == 1
    log._connection().execute(f"PRAGMA user_version = {merged.COMMITS - 1}")
    with log.transaction() as transaction:
        transaction.remember("x", 1)
    assert counted() == 0
    assert not log.give_back()
    assert counted() == 0
    with log.transaction() as transaction:
        transaction.store("x", bytes(3 * PAGE_BYTES))
    with log.transaction() as transaction:
        transaction.remove("x")
    assert not log.give_back()
    assert counted() == 3
    log.close()
