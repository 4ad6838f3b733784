"""User Behavior Insights (UBI) logs as past lists: what a query showed, put together from its records.

| the query has              | its list                                              | how far was seen            |
|----------------------------|-------------------------------------------------------|-----------------------------|
| query records with hit ids | the hits, of the record that most of its events name  | up to the last hit with an  |
|                            |                                                       | impression, if there is one |
| impressions alone          | their documents by ordinal, from 0 or 1 on; of two at | all of it                   |
|                            | the same place, the later one                         |                             |
| neither                    | none: nothing is learned                              |                             |

Every record is counted: it belongs to a list that was imported, was there already or was refused, or it is refused
itself with a reason.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perturank.errors import BadInput
from perturank.service.history.features import Resolver, document
from perturank.service.history.files import converted, opened
from perturank.service.history.importer import Fate, GivenList, Importer
from perturank.service.history.report import ImportReport, deleted_lists, reason
from perturank.service.log import Log, open_log
from perturank.service.log.refusals import Refused
from perturank.service.log.spec import Spec
from perturank.wire.specification import UBI_ACTIONS
from perturank.wire.ubi import EventRecord, QueryRecord, decode_event, decode_query

BULK = ("index", "create", "update", "delete")  # lines of the bulk format that say what is done with the next one
SOURCE = "_source"  # of a search hit, as dumps of an index hold it
END_OF_TIME = 1 << 62
NO_LIST = "its query has neither hit ids nor impressions: nothing says what was shown"
NOT_SHOWN = "its document is not in the list that the query showed"
NO_FEATURES = "there are no features of its document"


class Deed(NamedTuple):
    """An event of a query: an action of the model, or None for an impression."""

    document: str
    action: str | None
    ordinal: int | None
    at: int


@dataclass
class PastQuery:
    """All records of one query_id."""

    query_id: str
    queries: list[QueryRecord] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    at: int = END_OF_TIME
    client: str | None = None
    text: str | None = None
    # By reason, how many of its records are not part of the list; of the others, how many are.
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def n_records(self) -> int:
        """How many records it has."""
        return len(self.queries) + len(self.deeds)

    def note(self, record: QueryRecord | EventRecord) -> None:
        """Note when the query was, whose it was, and what was typed: the first record that says it counts."""
        at = record.at
        self.at = min(self.at, END_OF_TIME if at is None else at)
        self.client = self.client or record.client or _text(record.session_id)
        self.text = self.text or record.user_query

    def shown(self) -> tuple[list[str], int]:
        """Return the documents of its list in their places, and how many top places were seen; 0: it is not known."""
        named = {deed.document for deed in self.deeds}
        seen = [deed for deed in self.deeds if deed.action is None]
        lists = [list(dict.fromkeys(each.hits)) for each in self.queries if each.hits]
        if lists:  # the last of those with the most
            hits = max(reversed(lists), key=lambda each: len(named.intersection(each)))
            return hits, max((hits.index(deed.document) + 1 for deed in seen if deed.document in hits), default=0)
        places: dict[int, str] = {}
        for deed in sorted(seen, key=lambda each: each.at):
            if deed.ordinal is not None:
                places[deed.ordinal] = deed.document
        ids = list(dict.fromkeys(places[ordinal] for ordinal in sorted(places)))
        return ids, len(ids)


@dataclass
class UbiReport:
    """What became of the records, and of the lists that were put together from them."""

    lists: ImportReport
    read: int = 0
    imported: int = 0  # records of lists that were imported
    known: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by reason

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        records = {
            "read": self.read,
            "imported": self.imported,
            "already_there": self.known,
            "refused": self.refused.total(),
            "refused_by_reason": dict(self.refused.most_common()),
        }
        return {"records": records, "lists": self.lists.as_dict()}


def import_ubi(
    paths: Sequence[str | Path],
    features: Resolver,
    *,
    log: str,
    model: str = "default",
    application: str | None = None,
    dry_run: bool = False,
    on_progress: Callable[[float], None] = lambda share: None,
) -> UbiReport:
    """Write the lists of UBI logs into the log at this address, and return what became of every record.

    `application`: only its records; by default that of the model's `ubi`, or else all.
    """
    with contextlib.closing(open_log(log)) as opened_log:
        return import_records(
            opened_log, model, [Path(path) for path in paths], features, application, dry_run, on_progress
        )


def import_records(
    log: Log,
    model: str,
    paths: Sequence[Path],
    features: Resolver,
    application: str | None,
    dry_run: bool,
    on_progress: Callable[[float], None],
) -> UbiReport:
    """Write the lists of UBI logs into an open log, in the order of their times."""
    importer = Importer(log, model, is_dry=dry_run)
    report = UbiReport(ImportReport(model, dry_run, notes=deleted_lists(log, model)))
    queries = _queries(paths, importer.spec, application, report)
    ordered = sorted(queries.values(), key=lambda each: each.at)  # those without a time come last
    given = [GivenList(f"query {each.query_id}", partial(_past, each, features, importer)) for each in ordered]
    for done, (each, (place, fate)) in enumerate(zip(ordered, importer.fates(given), strict=True), start=1):
        report.lists.add(place, fate)
        _count(report, each, fate)
        on_progress(done / len(ordered))
    return report


def _count(report: UbiReport, query: PastQuery, fate: Fate) -> None:
    """Count the records of a query."""
    report.refused.update(query.refused)
    n = query.n_records - query.refused.total()
    match fate:
        case "imported":
            report.imported += n
        case "known":
            report.known += n
        case BadInput():
            report.refused[reason(fate)] += n


def _queries(paths: Sequence[Path], spec: Spec, application: str | None, report: UbiReport) -> dict[str, PastQuery]:
    """Return the queries of these files by their ids; a record that cannot be used is counted as refused."""
    queries: dict[str, PastQuery] = {}
    wanted = application or spec.ubi.application
    for path in paths:
        for where, content in records_in(path):
            report.read += 1
            try:
                _add(queries, content, spec, wanted)
            except BadInput as refused:
                report.refused[reason(refused)] += 1
                report.lists.note_example(f"{path}, {where}", refused)
    return queries


def _add(queries: dict[str, PastQuery], content: bytes, spec: Spec, wanted: str | None) -> None:
    try:
        is_event = "action_name" in msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        record: QueryRecord | EventRecord = decode_event(content) if is_event else decode_query(content)
        query_id, at = record.query, record.at
    except (ValueError, OverflowError) as error:  # msgspec's errors among them
        raise Refused(f"it cannot be read: {error}") from None
    if wanted is not None and record.application != wanted:
        raise Refused("it is of another application")
    if query_id is None:
        raise Refused("it has no query_id")
    deed = _deed(record, spec, at) if isinstance(record, EventRecord) else None
    query = queries.setdefault(query_id, PastQuery(query_id))
    query.note(record)
    if isinstance(record, QueryRecord):
        query.queries.append(record)
    elif deed is not None:
        query.deeds.append(deed)


def _deed(event: EventRecord, spec: Spec, at: int | None) -> Deed:
    given = event.action_name
    action = spec.ubi.actions.get(given) or (given if given in spec.actions else UBI_ACTIONS.get(given, given))
    if action not in spec.actions and given not in spec.ubi.seen:
        raise Refused(f"the model has no action {given}")
    if event.document is None:
        raise Refused("it names no document")
    try:
        ordinal = event.ordinal
    except (ValueError, OverflowError):
        raise Refused("its ordinal is no number") from None
    return Deed(event.document, action if action in spec.actions else None, ordinal, at or 0)


def _past(query: PastQuery, features: Resolver, importer: Importer) -> Any:
    """Return the list of a query with the features of its documents; documents without any are left out."""
    ids, seen = query.shown()
    query.refused = Counter()
    if not ids:
        raise Refused(NO_LIST)
    are_named = importer.spec.features is not None
    found = [document(each, known, are_named) for each, known in zip(ids, features(query.text, ids), strict=True)]
    documents = {each.id: each for each in found if each is not None}
    if not documents:
        raise Refused("there are no features of any document of its list")
    events = []
    for deed in query.deeds:
        if deed.document not in documents:
            query.refused[NO_FEATURES if deed.document in ids else NOT_SHOWN] += 1
        elif deed.action is not None:
            events.append({"id": deed.document, "action": deed.action})
    return converted(
        {
            "query_id": query.query_id,
            "documents": [msgspec.to_builtins(each) for each in documents.values()],
            "events": list({(each["id"], each["action"]): each for each in events}.values()),
            "seen": sum(each in documents for each in ids[:seen]) or None,
            "source": query.client,
            "time": None if query.at == END_OF_TIME else query.at,
        }
    )


def records_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the records of a file, unread, each with where it stands.

    The file is JSON lines, the bulk format of OpenSearch, a dump of an index, or one JSON array; compressed or not.
    """
    if not path.is_file():
        raise BadInput(f"there is no file {path}", "check the path")
    with opened(path) as (lines, _):
        first = next((line for line in lines if not line.isspace()), b"")
        is_array = first.lstrip()[:1] == b"["
        lines.seek(0)
        if is_array:
            for number, content in enumerate(_array(path, lines.read()), start=1):
                yield f"record {number}", _inside(content)
            return
        for number, line in enumerate(lines, start=1):
            if not line.isspace() and not _is_bulk_action(line):
                yield f"line {number}", _inside(line)


def _array(path: Path, content: bytes) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(content, type=list[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise BadInput(f"{path} is no JSON array ({error})", "check the file") from None


def _is_bulk_action(line: bytes) -> bool:
    with contextlib.suppress(msgspec.MsgspecError):
        said = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return len(said) == 1 and next(iter(said)) in BULK
    return False


def _inside(content: bytes | msgspec.Raw) -> bytes:
    """Return the record itself, where a dump has wrapped it."""
    with contextlib.suppress(msgspec.MsgspecError):
        fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        return bytes(fields.get(SOURCE, content))
    return bytes(content)


def _text(key: object) -> str | None:
    return None if key in (None, "") else str(key)
