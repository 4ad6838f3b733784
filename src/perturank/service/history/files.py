"""Files of past lists: JSON lines, compressed or not, and Parquet."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from perturank.errors import BadInput
from perturank.service.history.importer import GivenList, Importer
from perturank.service.history.report import ImportReport, deleted_lists
from perturank.service.log import Log, open_log
from perturank.service.log.refusals import Refused
from perturank.wire.history import PastList

BUFFER = 1 << 20  # bytes
FORMAT = "`perturank import lists --help` shows a line"
ROWS_AT_ONCE = 500  # of a Parquet file
OnProgress = Callable[[float], None]  # told the share of a file that was read

_decode = msgspec.json.Decoder(PastList).decode


def import_file(
    path: str | Path,
    *,
    log: str,
    model: str = "default",
    strict: bool = False,
    dry_run: bool = False,
    on_progress: OnProgress = lambda share: None,
) -> ImportReport:
    """Write the past lists of a file into the log at this address, and return what became of them.

    `strict`: the first list that is refused ends the import; those before it stay. `dry_run`: nothing is written.
    """
    with contextlib.closing(open_log(log)) as opened_log:
        return import_lists(opened_log, model, lists_in(Path(path), on_progress), strict=strict, dry_run=dry_run)


def import_lists(
    log: Log, model: str, lists: Iterable[GivenList], *, strict: bool = False, dry_run: bool = False
) -> ImportReport:
    """Write past lists into an open log, and return what became of them."""
    report = ImportReport(model, dry_run, notes=deleted_lists(log, model))
    for given, fate in Importer(log, model, is_dry=dry_run).fates(lists, strict=strict):
        report.add(given, fate)
        if strict and isinstance(fate, BadInput):
            n, are = report.imported + report.known, "would be" if dry_run else "are"
            raise BadInput(f"{given.where}: {fate}", f"the {n} lists before it {are} in the log")
    return report


def lists_in(path: Path, on_progress: OnProgress = lambda share: None) -> Iterator[GivenList]:
    """Yield the lists of a file in their order."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}", "check the path")
    if path.suffix == ".parquet":
        return _in_parquet(path, on_progress)
    if path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        return _in_lines(path, on_progress)
    raise BadInput(f"{path} is neither JSON lines nor Parquet", "name it .jsonl, .jsonl.gz or .parquet")


def _in_lines(path: Path, on_progress: OnProgress) -> Iterator[GivenList]:
    with opened(path) as (lines, file):
        size = path.stat().st_size or 1
        for number, line in enumerate(lines, start=1):
            if not line.isspace():
                yield GivenList(f"line {number}", partial(decoded, line))
            if number % ROWS_AT_ONCE == 0:
                on_progress(file.tell() / size)
        on_progress(1.0)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Yield what a file holds, decompressed if its name ends with .gz, and the file itself."""
    with path.open("rb", BUFFER) as file:
        content = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
        try:
            yield content, file
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BadInput(f"{path} cannot be decompressed ({error})", "check that the file is whole") from None


def decoded(line: bytes) -> PastList:
    """Return the list of a line."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(str(error), FORMAT) from None


def converted(row: Any) -> PastList:
    """Return the list that these values are; null is as if the field were not there."""
    try:
        return msgspec.convert(without_nulls(row), PastList)
    except msgspec.ValidationError as error:
        raise Refused(str(error), FORMAT) from None


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are given, in documents and events too: a Parquet file has every column in every row."""
    given = {name: value for name, value in row.items() if value is not None}
    for name in ("documents", "events"):
        if isinstance(given.get(name), list):
            given[name] = [without_nulls(each) if isinstance(each, dict) else each for each in given[name]]
    return given


def _in_parquet(path: Path, on_progress: OnProgress) -> Iterator[GivenList]:
    for number, row in enumerate(parquet_rows(path, on_progress), start=1):
        yield GivenList(f"row {number}", partial(converted, row))


def parquet_rows(path: Path, on_progress: OnProgress = lambda share: None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file by column."""
    from pyarrow import ArrowException, parquet

    try:
        file = parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise BadInput(f"{path} cannot be read as Parquet ({error})") from None
    with file:
        done = 0
        for batch in file.iter_batches(ROWS_AT_ONCE):
            yield from batch.to_pylist()
            done += batch.num_rows
            on_progress(done / file.metadata.num_rows)
