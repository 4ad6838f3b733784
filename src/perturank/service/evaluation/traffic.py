"""The traffic on which rankers are judged: lists of a model whose candidates were kept, with what came of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from perturank.service.log import Log, snapshots
from perturank.service.log.candidates import Candidates, candidates_of
from perturank.service.log.records import (
    Changed,
    Closed,
    EventKey,
    Feedback,
    Impression,
    Record,
    document_worths,
)
from perturank.service.log.refusals import NotKnown
from perturank.service.log.snapshots import PublishedVersion
from perturank.service.log.spec import Spec


@dataclass(frozen=True)
class JudgedList:
    """A list that a model drew, with all its candidates: `log_p` [k] of its places, what its documents were worth."""

    position: int
    at: int  # milliseconds since 1970
    name: bytes
    version: int
    spec: Spec  # of the model when it was shown
    candidates: Candidates
    log_p: list[float]
    worth: list[float]


@dataclass(frozen=True)
class Traffic:
    """Lists of a model in the order of the log, and how many could not be judged, by reason."""

    model: str
    spec: Spec
    generation: int
    lists: list[JudgedList]
    left_out: dict[str, int]

    def spec_of(self, log: Log, published: PublishedVersion) -> Spec:
        """Return the spec that makes a ranker of a version: of an earlier generation, the one of then."""
        is_present = published.snapshot.generation == self.generation
        return self.spec if is_present else snapshots.spec_at(log, self.model, published.position)


@dataclass
class _Heard:
    """What was said of one impression."""

    events: list[EventKey] = field(default_factory=list)
    is_final: bool = False


def read_traffic(log: Log, model: str, up_to: int | None = None) -> Traffic:
    """Return the lists of a model since it began to learn with the features of now, up to a position.

    People may still click on the newest lists: those from the first one on that is not complete are left out.
    """
    changes = [record for record in log.all_of(model, Changed) if up_to is None or record.position <= up_to]
    if not changes or not isinstance(changes[-1].entry, Changed):
        raise NotKnown(f"the log knows no model {model!r}", "name one with --model")
    now = changes[-1].entry
    generation = now.generation or changes[-1].position
    since = _since(changes, generation, now.spec)
    shown, heard, closed = _gathered(log.read(after=since, up_to=up_to, model=model), generation)
    specs = [(record.position, record.entry.spec) for record in changes if isinstance(record.entry, Changed)]
    lists, left_out = [], dict.fromkeys(("not complete yet", "not drawn", "no candidates kept"), 0)
    is_open = False
    while shown:
        record = shown.popleft()  # once decoded, its packed documents are not kept
        entry, name = record.entry, record.impression
        assert isinstance(entry, Impression)
        assert name is not None
        said = heard.get(name, _Heard())
        is_open = is_open or not (record.position <= closed or said.is_final)
        reason = _reason(entry, is_open)
        if reason:
            left_out[reason] += 1
            continue
        candidates, log_p = candidates_of(entry), entry.place_log_p
        assert candidates is not None
        assert log_p is not None
        spec = next(spec for position, spec in reversed(specs) if position < record.position)
        worths = document_worths(said.events, now.spec.actions)
        worth = [worths.get(document, 0.0) for document in entry.ids]
        lists.append(JudgedList(record.position, record.at, name, entry.version, spec, candidates, log_p, worth))
    return Traffic(model, now.spec, generation, lists, {why: n for why, n in left_out.items() if n})


def _since(changes: list[Record], generation: int, spec: Spec) -> int:
    """Return the position since which the model has learned on and has had the features that it has now."""
    since, had_others = generation, False
    for record in changes:
        if isinstance(record.entry, Changed) and record.position >= generation:
            has_others = record.entry.spec.layout != spec.layout
            since = record.position if had_others and not has_others else since
            had_others = has_others
    return since


def _gathered(records: Iterable[Record], generation: int) -> tuple[deque[Record], dict[bytes, _Heard], int]:
    """Return the first pages of a generation, what was said of impressions, and up to where windows are closed."""
    shown, heard, closed = deque[Record](), dict[bytes, _Heard](), 0
    for record in records:
        match record.entry:
            case Impression() as entry if entry.generation == generation and not entry.earlier:
                shown.append(_without_documents(record, entry) if _reason(entry, is_open=False) else record)
            case Feedback(effect="counted" | "early") as said if record.impression is not None:
                about = heard.setdefault(record.impression, _Heard())
                about.events += said.event_keys
                about.is_final |= said.final
            case Closed(through=through):
                closed = max(closed, through)
    return shown, heard, closed


def _without_documents(record: Record, entry: Impression) -> Record:
    """Return what is needed of a list that cannot be judged: of a million lists, few may have candidates."""
    short = Impression(entry.generation, entry.version, entry.mode, [], None, b"", log_p=entry.log_p)
    return replace(record, entry=short)


def _reason(entry: Impression, is_open: bool) -> str:
    """Return why a list cannot be judged; empty: it can."""
    if is_open:
        return "not complete yet"
    if entry.mode != "learn" or entry.log_p is None:
        return "not drawn"
    return "" if entry.candidates is not None else "no candidates kept"
