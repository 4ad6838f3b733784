"""Retention and erasure: a stored state becomes the base of a model, and records before it are deleted.

One transaction stores the base with its record in the log. Only then are records deleted, a page at a time, which
can be interrupted and repeated at any point.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from perturank.errors import BadInput
from perturank.parts.standardised import Standardised
from perturank.service.learner import checkpoint, preservation, replay
from perturank.service.learner.lead import Lead
from perturank.service.learner.state import State
from perturank.service.log import Log, Transaction, changes, erasure, live_tests, snapshots
from perturank.service.log.records import (
    Batch,
    Changed,
    Closed,
    Compacted,
    Deleted,
    Erased,
    Feedback,
    Imported,
    Impression,
    Record,
    RolledBack,
    Scaled,
    Settled,
    Snapshot,
    source_seal,
)
from perturank.service.log.refusals import NotKnown
from perturank.service.settings import Retention

REMOVED = "records removed"  # how many positions are empty: `log verify` counts them
REMOVED_BEFORE = "end at removal"  # where the log ended when records were last deleted: none is missing behind it
AT_ONCE = 500  # records looked at, and deleted while others wait
SECONDS_TO_DELETE = 0.05  # of a look: by pages of a few milliseconds, between which others write
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_TESTS = 5.0  # looks at live tests, which change little
SLACK_OF_TESTS = 0.1  # of the span, so that a test which runs is not compacted at every look

Guard = Callable[[Transaction], None]  # stops a process that no longer leads


def known(log: Log) -> list[str]:
    """Return the names of all models that the log has ever known."""
    return list(dict.fromkeys(record.model for record in log.control_records(kinds=(Changed,))))


def n_removed(log: Log) -> int:
    """Return how many records were ever deleted."""
    with log.transaction() as transaction:
        return transaction.remembered(REMOVED)


def removed_before(log: Log) -> int:
    """Return the position behind which no record was deleted."""
    with log.transaction() as transaction:
        return transaction.remembered(REMOVED_BEFORE)


def compact(
    log: Log, model: str, retention: Retention, guard: Guard | None = None, content: bytes | None = None
) -> Compacted | None:
    """Give a model a base, and let what the retention does not keep be deleted; None: nothing changes.

    `content`: the stored state that becomes the base; without one, the newest that the retention allows is rebuilt.
    """
    horizon, base = _horizon(log, model, retention), checkpoint.base_of(log, model)
    if horizon is None:
        return None
    if content is None and (base is None or base.at < horizon):
        state = replay.follow(log, model, horizon)
        content = None if state.ranker is None else checkpoint.pack(state)
    elif content is None and base is not None and base.digest:  # after an erasure it is newer than need be
        content = log.stored(snapshots.base_name(model)) or b""
    return promote(log, model, content, max(horizon, base.at if base is not None else 0), horizon, guard)


def _horizon(log: Log, model: str, retention: Retention) -> int | None:
    """Return the newest position that is old enough: of a version, or of the model's deletion; None: none is."""
    now = next((record.at for record in log.read(after=log.tail() - 1)), 0)
    end, newest = (next(iter(log.newest(model, kind, 1)), None) for kind in (Deleted, Snapshot))
    ended = 0 if end is None else end.position
    n = retention.impressions or 0  # nothing more is learned of a deleted model
    if newest is not None and isinstance(newest.entry, Snapshot) and newest.position > ended:
        head, n = newest.entry, newest.entry.learned
        found = snapshots.last(
            log, model, lambda each: retention.lets_go(now - each.at, n_between(each.snapshot, head))
        )
        if found is not None and found.position > ended:
            return found.position
    return ended if end is not None and retention.lets_go(now - end.at, n) else None


def n_between(then: Snapshot, now: Snapshot) -> int:
    """Return how many impressions were learned between two versions, at least."""
    return now.learned - then.learned if now.generation == then.generation else now.learned


def promote(
    log: Log,
    model: str,
    content: bytes | None,
    at: int,
    horizon: int,
    guard: Guard | None = None,
    *,
    erases: bool = False,
) -> Compacted | None:
    """Make a stored state the base of a model, and let records up to the horizon be deleted; None: nothing changes.

    Without content the model was deleted, and its base is empty at this position. `erases`: it ends an erasure.
    """
    header: dict[str, Any] = {} if content is None else checkpoint.header(content, f"the base of model {model!r}")
    at, waiting = header.get("at", at), header.get("waiting_from")
    is_behind = checkpoint.position(log, snapshots.state_name(model)) <= at
    with log.transaction() as transaction:
        if guard is not None:
            guard(transaction)
        base = _entry(transaction.newest(model, Compacted))
        version = header["version"] + bool(header["unpublished"]) if header else 0
        if (base is not None and base.at > at) or _is_contradicted(log, model, at, version, header):
            return None
        if not erases and erasure.unlearning(log, model):  # the model is rebuilt from the records
            return None
        if not header:  # should the model come back, its versions count on
            version = max((each.snapshot.version for each in snapshots.newest(log, model, 1, at)), default=0)
        through = max(min(horizon, at if waiting is None else waiting - 1), 0 if base is None else base.through)
        entry = Compacted(at, through, version, header.get("learned", 0), bytes.fromhex(header.get("digest", "")))
        if entry == base:
            return None
        transaction.append(model, entry)
        _store(log, transaction, model, content, through)
        preservation.drop(log, transaction, model, at, horizon)
        if is_behind:  # it is of no more use, and may hold clicks of a source that is to be erased
            transaction.remove(snapshots.state_name(model))
    return entry


def _is_contradicted(log: Log, model: str, at: int, version: int, header: Mapping[str, Any]) -> bool:
    """Return whether the model has ended since, or has gone back to a version that the base does not know."""
    generation, whole = header.get("generation", 0), snapshots.whole_versions(log, model)
    backs = [record.entry for record in log.all_of(model, RolledBack, after=at)]
    return bool(log.all_of(model, Deleted, after=at)) or any(
        isinstance(back, RolledBack)
        and (back.version < version or back.generation not in (0, generation))
        and back.version not in whole
        for back in backs
    )


def _store(log: Log, transaction: Transaction, model: str, content: bytes | None, through: int) -> None:
    """Store the base in place of the one before, and drop what only led up to records that are deleted."""
    if content is None:
        transaction.remove(snapshots.base_name(model))
    else:
        transaction.store(snapshots.base_name(model), content)
    transaction.remove(snapshots.next_name(model))
    transaction.remove_all(f"{model}/mark/")  # earlier versions stored several states that could become the base
    later = {r.entry.blob for r in log.all_of(model, Imported, after=through) if isinstance(r.entry, Imported)}
    for name in log.names(f"{model}/imported/"):
        if name not in later:
            transaction.remove(name)


def request_erasure(log: Log, source: str, model: str | None = None, *, unlearn: bool = False) -> dict[str, int]:
    """Record that a source is to be erased, from one model or all; return the positions of the requests.

    Those models `unlearn` it too that are not deleted.
    """
    names = known(log)
    if model is not None and model not in names:
        raise NotKnown(f"the log knows no model {model!r}", "check its name")
    seal, tests, lives = source_seal(source, log.secret), live_tests.with_model(log, model), checkpoint.living(log)
    names = names if model is None else [model]
    before = {name: erasure.unlearned_before(log, name, source) for name in names if unlearn and name in lives}
    wishes = {name: position for name, position in before.items() if position}
    if len(wishes) == len(names):  # the source may have come back in a test from which no model learns
        tests = erasure.tests_with(log, source, tests)
    unlearning = {name: live_tests.with_model(log, name) for name in before if name not in wishes}
    # Here, since it may read the whole log: in the transaction everybody else would wait for it.
    strangers = [name for name, its in unlearning.items() if not erasure.is_known(log, name, source, its)]
    with log.transaction() as transaction:
        for name in [each for each in names if each not in wishes]:
            if name in unlearning:
                erasure.check_unlearnable(log, transaction, name)
            if name not in strangers:
                wishes[name] = changes.erase(transaction, name, seal, unlearn=name in unlearning)
        if unlearn and not wishes:
            raise erasure.unknown_source(source)
        return wishes | live_tests.erase(transaction, seal, tests)


def erase(log: Log, state: State, guard: Guard, retention: Retention | None = None) -> None:
    """Make the present state the base, so that records of sources that are to be erased can be deleted.

    Records of others stay, as far as the retention keeps them.
    """
    horizon = None if retention is None else _horizon(log, state.model, retention)
    content = None if state.ranker is None else checkpoint.pack(state)
    promote(log, state.model, content, state.at, horizon or 0, guard, erases=True)


@dataclass(frozen=True)
class Superfluous:
    """The records of a model that are to be deleted: those that the base does without, and those of erased sources."""

    base: Compacted
    erased: erasure.ErasedSources
    closed: int  # the newest closing, which says what is late
    stored: frozenset[int]  # versions whose bytes are there

    @property
    def end(self) -> int:
        """The position after which there are none."""
        return max(self.base.through, self.erased.end)

    def __contains__(self, record: Record) -> bool:
        old = record.position <= self.base.through
        match record.entry:
            case Impression() | Feedback():
                return old or self.erased.name(record)
            case Settled() | Batch():
                return old
            case Closed():
                return old and record.position != self.closed
            case Snapshot(version=version):
                return old and version < self.base.version and version not in self.stored
            case Compacted():  # an earlier one: the newest lies behind the end; those of a model are few
                return live_tests.is_stream(record.model)
            case _:
                return False


def _superfluous(log: Log, model: str, base: Compacted) -> Superfluous:
    erased = erasure.erased_up_to(log, model, base.at)
    closed = next((record.position for record in log.newest(model, Closed, 1)), 0)
    return Superfluous(base, erased, closed, frozenset(snapshots.versions(log, model)))


def delete(log: Log, model: str, guard: Guard, up_to: int | None = None) -> Iterator[int]:
    """Delete what the newest base up to a position makes superfluous; yield after each page how many records went."""
    found = next(iter(log.newest(model, Compacted, 1, up_to)), None)
    base = _entry(found)
    if found is None or base is None or found.position <= _deleted_for(log, model):
        return
    goes = _superfluous(log, model, base)
    records = log.read(up_to=goes.end, model=model)
    while page := list(islice(records, AT_ONCE)):
        old = [record for record in page if record in goes]
        whole = [each.impression for each in old if isinstance(each.entry, Impression) or goes.erased.own(each)]
        yield _cut(log, old, whole, guard) if old else 0
    with log.transaction() as transaction:
        guard(transaction)
        transaction.remember(_name(model), found.position)
    while log.give_back():
        yield 0


def _cut(log: Log, records: Sequence[Record], names: Sequence[bytes | None], guard: Guard) -> int:
    """Delete these records, and all that the log has of these impressions; return how many went."""
    with log.transaction() as transaction:
        guard(transaction)
        n = transaction.cut([record.position for record in records], [name for name in names if name is not None])
        transaction.remember(REMOVED, transaction.remembered(REMOVED) + n)
        transaction.remember(REMOVED_BEFORE, log.tail())
    return n


def _name(model: str) -> str:
    """Return the name for the position of the record of the last base for which everything is deleted.

    Earlier versions remembered a smaller position there, so that what they have deleted is looked through once more.
    """
    return f"{model} swept"


def _deleted_for(log: Log, model: str) -> int:
    with log.transaction() as transaction:
        return transaction.remembered(_name(model))


def _entry(record: Record | None) -> Compacted | None:
    return record.entry if record is not None and isinstance(record.entry, Compacted) else None


def is_done(log: Log, model: str, request: int = 0) -> bool:
    """Return whether everything is deleted that the newest base asks for, and that base lies after a request."""
    newest = next(iter(log.newest(model, Compacted, 1)), None)
    base = _entry(newest)
    if newest is None or base is None:
        return request == 0
    return base.at >= request and newest.position <= _deleted_for(log, model)


def finish(log: Log, requests: Mapping[str, int], seconds: float) -> bool:
    """Delete what the bases of models ask for, or wait for the learner that leads; return whether it is done.

    `requests`: by model the position of a request to erase a source; 0: there is none. Only the process that leads
    deletes, since it has read past the base before. A model that unlearns a source needs a learner.
    """
    end = time.monotonic() + seconds
    while not all(is_done(log, model, request) for model, request in requests.items()):
        is_learning = any(erasure.unlearning(log, model) for model in requests)  # which only a learner does
        if not is_learning and log.try_to_lead():
            lead = Lead.take(log)
            for model, request in requests.items():
                base = checkpoint.base_of(log, model)
                if request > (0 if base is None else base.at):
                    if live_tests.is_stream(model):
                        live_tests.compact(log, model.removeprefix(live_tests.PREFIX), 0, lead.check)
                    else:
                        state = replay.follow(log, model, log.tail())
                        for _ in preservation.preserve(log, model, state.at, lead.check):
                            pass
                        erase(log, state, lead.check)
                for _ in delete(log, model, lead.check):
                    pass
        elif time.monotonic() > end:
            return False
        else:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return True


def compact_tests(
    log: Log, retention: Retention | None, guard: Guard = lambda _: None, slack: float = 0.0
) -> list[str]:
    """Let lists of tests be deleted that the retention does not keep, and those of erased sources.

    Return the names under which the records of all tests are. A test goes on from its standing. Lists that are kept by
    their number, not by time, stay until the test is stopped. `slack`: lists may stay this share of the span longer.
    """
    now = next((record.at for record in log.read(after=log.tail() - 1)), 0)
    tests = live_tests.names(log)
    for test in tests:
        _compact_test(log, test, retention, guard, slack, now)
    return [live_tests.stream(test) for test in tests]


def _compact_test(log: Log, test: str, retention: Retention | None, guard: Guard, slack: float, now: int) -> None:
    standing, name = live_tests.stored(log, test), live_tests.stream(test)
    base, asked = checkpoint.base_of(log, name), next(iter(log.newest(name, Erased, 1)), None)
    if standing is None:
        return
    through, before = 0, 0 if base is None else base.through
    if retention is not None and retention.seconds is not None:
        span = 1000 * retention.seconds
        if live_tests.closed_before(log, test, now - int(span * (1 + slack))) > before:
            through = live_tests.closed_before(log, test, now - int(span))
    elif retention is not None and not standing.running:
        through = standing.closed
    is_asked = asked is not None and asked.position > (0 if base is None else base.at)
    if is_asked or through > before:
        live_tests.compact(log, test, through, guard)


class Next(NamedTuple):
    """What is to be known of the state that was stored as a model's next base."""

    version: int
    when: int
    learned: int
    generation: int

    @classmethod
    def of(cls, state: State) -> Next:
        """Return that of a state."""
        return cls(state.version, state.when, state.learned, state.generation)


class Housekeeper:
    """Retention and erasure beside learning: a little at each look, so that learning never waits long.

    With a retention, the state of a version is stored as the next base. When it is old enough it becomes the base,
    and the present state takes its place: at least the span that is asked for is kept, and about twice that at most.
    """

    def __init__(self, log: Log, retention: Retention | None, guard: Guard) -> None:
        self._log, self._retention, self._guard = log, retention, guard
        self._next: dict[str, Next] = {}
        self._gone: set[tuple[str, int]] = set()  # deleted models that are compacted, with where each ended
        self._deletions: dict[str, tuple[int, Iterator[int]]] = {}  # by model, with the record of the base
        self._preservations: dict[str, tuple[int, Iterator[None]]] = {}  # by model, with the request to erase
        self._unfinished: set[str] = set()
        self._until = 0.0
        self._tests_looked_at = 0.0
        self._test_deletions: Iterator[int] = iter(())
        self._is_tidying_tests = False

    def is_busy(self, state: State) -> bool:
        """Return whether a look at this model would find something to do."""
        is_looked_at = self._deletions.get(state.model, (-1,))[0] == state.compacted
        return state.model in self._unfinished or not is_looked_at or state.erased > state.based

    def look(self, states: Sequence[State]) -> bool:
        """Do what is next for each of the models, all of which have read the log; return whether there is more."""
        now = max((state.when for state in states), default=0)
        self._until = time.monotonic() + SECONDS_TO_DELETE
        self._unfinished = {state.model for state in states if self._look_at(state, now)}
        if not self._is_tidying_tests and time.monotonic() >= self._tests_looked_at + SECONDS_BETWEEN_TESTS:
            self._tests_looked_at, self._test_deletions = time.monotonic(), self._tidy_tests()
        self._is_tidying_tests = self._goes_on(self._test_deletions)
        return bool(self._unfinished) or self._is_tidying_tests

    def _tidy_tests(self) -> Iterator[int]:
        """Compact the tests, and delete what that lets go; yield after each page."""
        for name in compact_tests(self._log, self._retention, self._guard, SLACK_OF_TESTS):
            yield from delete(self._log, name, self._guard)

    def _look_at(self, state: State, now: int) -> bool:
        if state.erased > state.based:
            is_published = not state.unpublished and not state.is_relearning
            is_ready = is_published or state.unlearned <= state.based
            if is_ready and not self._preserve(state) and is_published:
                erase(self._log, state, self._guard, self._retention)
                self._preservations.pop(state.model)
                self._next[state.model] = Next.of(state)  # the base is as new as a next one would be
            return True
        base = None
        if self._retention is not None and state.spec is None:
            base = self._compact_deleted(state, now, self._retention)
        elif self._retention is not None and state.version > 0 and not state.unpublished:
            base = self._rotate(state, self._retention)
        return self._delete(state) or base is not None

    def _compact_deleted(self, state: State, now: int, retention: Retention) -> Compacted | None:
        """Give a model that was deleted long enough ago an empty base, and return it."""
        end = state.model, state.generation
        if end in self._gone or not retention.lets_go(now - state.when, retention.impressions or 0):
            return None
        self._gone.add(end)
        return compact(self._log, state.model, retention, self._guard)

    def _rotate(self, state: State, retention: Retention) -> Compacted | None:
        """Promote the next base if it is old enough, store the present state in its place, and return the base."""
        if state.is_scale_open:  # the first impressions are needed, unless they are too old already
            if retention.lets_go(state.when - state.shown_since, state.learned):
                self._end_scaling(state)
            return None
        model, name, base = state.model, snapshots.next_name(state.model), None
        content = self._log.stored(name) if model not in self._next else None
        with contextlib.suppress(BadInput):  # what is damaged is replaced below
            if content is not None:
                header = checkpoint.header(content, name)
                self._next[model] = Next(*(header[field] for field in Next._fields))
            candidate = self._next.get(model)
            if candidate is not None:
                n_learned = state.learned_since(candidate.generation, candidate.learned)
                if state.version <= candidate.version or not retention.lets_go(state.when - candidate.when, n_learned):
                    return None
            content = self._log.stored(name) or self._log.stored(snapshots.base_name(model))
            if content is not None:
                base = compact(self._log, model, retention, self._guard, content)
        content = checkpoint.pack(state)  # before others must wait
        with self._log.transaction() as transaction:
            self._guard(transaction)
            if transaction.find_model(model) is None:
                return base  # deleted meanwhile, with all that was stored for it
            transaction.store(name, content)
        self._next[model] = Next.of(state)
        return base

    def _end_scaling(self, state: State) -> None:
        """Let the scale stay as it is: to estimate it again would need impressions that a base lets go."""
        ranker = state.ranker
        assert isinstance(ranker, Standardised)
        scale = np.asarray(ranker.location).tolist(), np.asarray(ranker.spread).tolist()
        with self._log.transaction() as transaction:
            self._guard(transaction)
            transaction.append(state.model, Scaled(state.scaled, *scale, is_last=True))

    def _preserve(self, state: State) -> bool:
        """Store versions whole, or withdraw them, until this look's time is over; return whether there is more."""
        request, records = self._preservations.get(state.model, (-1, iter(())))
        if request != state.erased:
            request = state.erased
            if state.unlearned > state.based:
                records = preservation.withdraw(self._log, state, self._guard)
            else:
                records = preservation.preserve(self._log, state.model, request, self._guard)
            self._preservations[state.model] = request, records
        return self._goes_on(records)

    def _delete(self, state: State) -> bool:
        """Delete for the newest base that was read until this look's time is over; return whether there is more."""
        base, pages = self._deletions.get(state.model, (-1, iter(())))
        if base != state.compacted:
            base, pages = state.compacted, delete(self._log, state.model, self._guard, state.at)
            self._deletions[state.model] = base, pages
        return self._goes_on(pages)

    def _goes_on(self, steps: Iterator[object]) -> bool:
        """Take steps until this look's time is over, or there are none; return whether there may be more."""
        return any(time.monotonic() >= self._until for _ in steps)
