"""Live tests in the log: the records of a test, and its standing, which is a pure function of them.

The lists and the feedback of a test are records under a name that no model has. A list counts once, when its window
closes, with all that was heard of it. The standing is stored whenever windows close, in the same transaction: nobody
reads a million lists to learn who leads. `replayed` makes it again from the records alone.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from perturank import anytime
from perturank.anytime import PRIOR, Difference, Earnings
from perturank.interleaving import NOBODY, credits, pairs
from perturank.service.log import Log, Transaction
from perturank.service.log.records import (
    ID_POSITION_BYTES,
    ID_RANDOM_BYTES,
    Closed,
    Compacted,
    Drafted,
    Erased,
    EventKey,
    Feedback,
    Impression,
    LiveTestChanged,
    LiveTestStopped,
    Record,
    document_worths,
    source_seal,
)
from perturank.service.log.refusals import Contradiction, NotKnown
from perturank.wire.live_tests import OWN, LiveTest

PREFIX = "test:"  # of the name under which a test's records are
N_GROUPS = 1024  # of sources, in a split
MOST_POINTS = 200  # of a period's series
FIRST_STEP = 1000  # milliseconds between two of them; doubled when there are too many
PERIODS_KEPT = 20

Heard = Callable[[bytes], Iterable[EventKey]]  # the events of an impression


def stream(test: str) -> str:
    """Return the name under which a test's records are."""
    return PREFIX + test


def is_stream(name: str) -> bool:
    """Return whether records under this name are a test's, and no model's."""
    return name.startswith(PREFIX)


def name_in_model(impression: bytes, model: str) -> bytes:
    """Return the name of a test's list in the records of a model that learns from it."""
    rest = hashlib.blake2b(impression + model.encode(), digest_size=ID_RANDOM_BYTES).digest()
    return impression[:ID_POSITION_BYTES] + rest


def group_of(test: str, key: bytes, secret: bytes) -> int:
    """Return the group of a source (or of a list without one) in a split; group g is in arm g mod n."""
    hashed = hashlib.blake2b(stream(test).encode() + b"\0" + key, key=secret, digest_size=4, person=b"split").digest()
    return int.from_bytes(hashed, "big") % N_GROUPS


class ArmOf(NamedTuple):
    """An arm in words: a model, of which one version shows lists, or the newest; None: the caller's own order."""

    model: str | None
    version: int | None

    @classmethod
    def named(cls, arm: str) -> ArmOf:
        """Return the arm of this name."""
        if arm == OWN:
            return cls(None, None)
        model, _, version = arm.partition("@")
        return cls(model, int(version) if version else None)


class Moment(msgspec.Struct, array_like=True):
    """A period at some time: n, S and V of each pair of arms."""

    at: int
    lists: int
    pairs: list[tuple[float, float, float]]


class Ended(msgspec.Struct, array_like=True):
    """What stays of a period that is over."""

    number: int
    since: int | None
    lists: int
    leader: int | None
    winner: int | None


class Period(msgspec.Struct, array_like=True):
    """What a test has counted since an arm was last changed; lists by arm, sums by pair of arms."""

    number: int
    specs: list[int]  # as the lists have them that count; the first: where the test was changed
    lists: list[int]
    credit: list[float]
    learned: list[int]
    pairs: list[tuple[float, float]]  # of an interleaved test: S, V
    earnings: list[Earnings]  # of a split: by arm
    groups: dict[int, tuple[int, float]] = {}  # of a split: lists of each group, and what they earned
    winners: list[int | None] = []  # by pair: the arm that has won
    versions: list[int] = []  # that showed the last list
    n: int = 0
    uncounted: int = 0
    since: int | None = None  # when the first list was shown, in milliseconds since 1970
    until: int = 0  # and the last
    decided_at: int | None = None
    decided_after: int | None = None
    step: int = FIRST_STEP
    series: list[Moment] = []

    @classmethod
    def begun(cls, number: int, specs: list[int], spec: LiveTest) -> Period:
        """Return a period in which nothing has happened."""
        n = len(spec.arms)
        n_pairs = len(list(pairs(n)))
        return cls(
            number,
            specs,
            [0] * n,
            [0.0] * n,
            [0] * n,
            [(0.0, 0.0)] * n_pairs,
            [Earnings(0.0, 0.0, 0.0, 0.0, 0.0)] * n,
            winners=[None] * n_pairs,
        )

    def count(self, shown: Record, drafted: Drafted, earned: Sequence[float], spec: LiveTest) -> None:
        """Count a list, of which each arm has earned so much."""
        self.n, self.until = self.n + 1, shown.at
        self.since = shown.at if self.since is None else self.since
        self.versions = drafted.versions
        for arm in set(drafted.teams) - {NOBODY}:
            self.lists[arm] += 1
        for arm in drafted.learners:
            self.learned[arm] += 1
        self.credit = [have + more for have, more in zip(self.credit, earned, strict=True)]
        if spec.method == "split":
            self._grow(drafted.group, drafted.teams[0], sum(earned))
            return
        for i, (one, other) in enumerate(pairs(len(earned))):
            difference, (total, squares) = earned[one] - earned[other], self.pairs[i]
            self.pairs[i] = total + difference, squares + difference**2

    def _grow(self, group: int, arm: int, earned: float) -> None:
        n, worth = self.groups.get(group, (0, 0.0))
        self.earnings[arm] = self.earnings[arm].grown(n, worth, earned)
        self.groups[group] = n + 1, worth + earned

    def differences(self, spec: LiveTest) -> list[Difference]:
        """Return n, S and V of each pair of arms."""
        if spec.method == "interleave":
            return [Difference(self.n, total, squares) for total, squares in self.pairs]
        found = [
            anytime.split_difference(self.earnings[one], self.earnings[other]) for one, other in pairs(self.n_arms)
        ]
        return [Difference(*map(float, each)) for each in found]

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return len(self.lists)

    def look(self, at: int, spec: LiveTest) -> None:
        """Decide which pairs have a winner now, and add a point to the series."""
        found = self.differences(spec)
        for i, ((one, other), each) in enumerate(zip(pairs(self.n_arms), found, strict=True)):
            if self.winners[i] is None and is_decided(each, spec):
                self.winners[i] = one if each.total > 0 else other
        if self.decided_at is None and self.winner is not None:
            self.decided_at, self.decided_after = at, self.n
        self._note(Moment(at, self.n, [tuple(each) for each in found]))

    def _note(self, now: Moment) -> None:
        if len(self.series) > 1 and now.at - self.series[-2].at < self.step:
            self.series[-1] = now
            return
        self.series.append(now)
        while len(self.series) > MOST_POINTS:
            self.step *= 2
            self.series = [*self.series[:-1:2], self.series[-1]]

    @property
    def winner(self) -> int | None:
        """The arm that has won against each other one; None: there is none."""
        for arm in range(self.n_arms):
            own = [won for pair, won in zip(pairs(self.n_arms), self.winners, strict=True) if arm in pair]
            if all(won == arm for won in own):
                return arm
        return None

    def leader(self, spec: LiveTest) -> int | None:
        """Return the arm whose lists have earned most; None: several have."""
        n = self.lists if spec.method == "split" else [self.n] * self.n_arms
        means = [credit / max(lists, 1) for credit, lists in zip(self.credit, n, strict=True)]
        best = [arm for arm, mean in enumerate(means) if mean == max(means)]
        return best[0] if len(best) == 1 else None

    def ended(self, spec: LiveTest) -> Ended:
        """Return what stays of it."""
        return Ended(self.number, self.since, self.n, self.leader(spec), self.winner)


def prior_of(spec: LiveTest) -> float:
    """Return the prior in units of the test: squares of the least that an action is worth."""
    worths = [abs(worth) for worth in spec.actions.values() if worth]
    return PRIOR * min(worths, default=1.0) ** 2


def level_of(spec: LiveTest) -> float:
    """Return the level of one comparison: together they are wrong as often as the test may be (union bound)."""
    return spec.level / len(list(pairs(len(spec.arms))))


def is_decided(difference: Difference, spec: LiveTest) -> bool:
    """Return whether there is enough evidence that two arms differ."""
    found = anytime.log_evidence(difference.total, difference.squares, prior_of(spec))
    return bool(found >= -math.log(level_of(spec)))


class Standing(msgspec.Struct, array_like=True):
    """A test as its records have it."""

    spec: LiveTest
    since: int  # position at which it was last begun or changed
    began: int  # and when, in milliseconds since 1970
    period: Period
    running: bool = True
    promoted: str | None = None
    at: int = 0  # position of the last record taken, lists and feedback aside
    closed: int = 0  # position up to which lists have counted
    erased: dict[bytes, int] = {}  # sealed sources, and up to where, until the lists up to there are closed
    earlier: list[Ended] = []

    @classmethod
    def begun(cls, record: Record, spec: LiveTest, before: Standing | None) -> Standing:
        """Return a test that begins, or begins anew, with this record."""
        number = 1 if before is None else before.period.number + 1
        new = cls(spec, record.position, record.at, Period.begun(number, [record.position], spec), at=record.position)
        if before is not None:
            new.closed, new.erased = before.closed, before.erased
        return new

    def take(self, record: Record) -> Standing:
        """Return the standing after a record that is no list, no feedback and no closing."""
        if record.position <= self.at:
            return self
        self.at = record.position
        match record.entry:
            case LiveTestChanged(spec=spec):
                return Standing.begun(record, spec, self)
            case LiveTestStopped(promoted=promoted):
                self.running, self.promoted = False, promoted
            case Erased(source=source):
                self.erased[source] = record.position
        return self

    def close(self, closing: Record, shown: Iterable[Record], heard: Heard, secret: bytes) -> None:
        """Count the lists that this record closes, in order, and look."""
        assert isinstance(closing.entry, Closed)
        self.at, self.closed = closing.position, closing.entry.through
        for record in shown:
            entry = record.entry
            assert isinstance(entry, Impression)
            assert record.impression is not None
            if entry.drafted is not None and not self._is_erased(record, entry, secret):
                self._count(record, entry, entry.drafted, heard(record.impression))
        self.erased = {source: up_to for source, up_to in self.erased.items() if up_to > self.closed}
        if self.period.n:
            self.period.look(closing.at, self.spec)

    def _is_erased(self, record: Record, entry: Impression, secret: bytes) -> bool:
        if entry.source is None or not self.erased:
            return False
        return record.position <= self.erased.get(source_seal(entry.source, secret), 0)

    def _count(self, record: Record, entry: Impression, drafted: Drafted, events: Iterable[EventKey]) -> None:
        specs = drafted.specs
        if specs[0] != self.since:  # of the test as it was before
            return
        if len(self.period.specs) > 1 and specs != self.period.specs and _is_newer(specs, self.period.specs):
            self.earlier = [*self.earlier, self.period.ended(self.spec)][-PERIODS_KEPT:]
            self.period = Period.begun(self.period.number + 1, specs, self.spec)
        if not drafted.counts or (len(self.period.specs) > 1 and specs != self.period.specs):
            self.period.uncounted += 1
            return
        self.period.specs = specs
        worths = document_worths(events, self.spec.actions)
        earned = credits(worths, entry.ids, drafted.teams, self.period.n_arms)
        self.period.count(record, drafted, earned, self.spec)


def _is_newer(specs: Sequence[int], than: Sequence[int]) -> bool:
    return all(new >= old for new, old in zip(specs, than, strict=True))


def standing_name(test: str) -> str:
    """Return the name under which a test's standing is stored."""
    return f"{stream(test)}/standing"


def base_name(test: str) -> str:
    """Return the name under which the standing is stored from which a replay begins, where records were deleted."""
    return f"{stream(test)}/base"


_decoded = msgspec.msgpack.Decoder(Standing).decode


def stored(log: Log | Transaction, test: str) -> Standing | None:
    """Return the standing of a test; None: there is no such test."""
    content = log.stored(standing_name(test))
    return None if content is None else _decoded(content)


def required(log: Log | Transaction, test: str) -> Standing:
    """Return the standing of a test; refuse one that does not exist."""
    found = stored(log, test)
    if found is None:
        raise NotKnown(f"there is no test {test!r}", f"begin it: PUT /v1/tests/{test}")
    return found


def store(transaction: Transaction, test: str, standing: Standing) -> None:
    """Store the standing of a test."""
    transaction.store(standing_name(test), msgspec.msgpack.encode(standing))


def put(transaction: Transaction, test: str, spec: LiveTest) -> bool:
    """Begin a test, or change it, so that it counts anew; return whether it was. An equal one that runs goes on."""
    before = stored(transaction, test)
    if before is not None and before.running and before.spec == spec:
        return False
    for arm in map(ArmOf.named, spec.arms):
        if arm.model is not None:
            transaction.require_model(arm.model)
    entry = LiveTestChanged(spec)
    record = Record(transaction.append(stream(test), entry), transaction.at, stream(test), None, entry)
    store(transaction, test, Standing.begun(record, spec, before))
    return True


def check_running(transaction: Transaction, test: str) -> None:
    """Refuse a test that was stopped."""
    if not required(transaction, test).running:
        raise Contradiction(f"test {test!r} was stopped before", f"begin it again: PUT /v1/tests/{test}")


def stop(transaction: Transaction, test: str, promoted: str | None = None) -> None:
    """Stop a test; lists that were shown still count when their windows close."""
    check_running(transaction, test)
    take(transaction, test, LiveTestStopped(promoted))


def take(transaction: Transaction, test: str, entry: LiveTestStopped | Erased) -> int:
    """Write an entry of a test, and what it makes of its standing; return its position."""
    position = transaction.append(stream(test), entry)
    record = Record(position, transaction.at, stream(test), None, entry)
    store(transaction, test, required(transaction, test).take(record))
    return position


def closing(log: Log, test: str, position: int) -> Callable[[Transaction], int]:
    """Return the action that closes the windows of a test's lists up to this position, and counts them.

    It returns the position up to which they are closed. The lists are read before, since others wait for a transaction.
    """
    begins = required(log, test).closed
    shown = [record for record in log.read(begins, position, stream(test)) if isinstance(record.entry, Impression)]

    def close(transaction: Transaction) -> int:
        standing = required(transaction, test)
        if standing.closed != begins or position <= begins:  # another process was quicker
            return standing.closed
        transaction.prefetch([record.impression for record in shown if record.impression is not None])
        entry = Closed(position)
        record = Record(transaction.append(stream(test), entry), transaction.at, stream(test), None, entry)
        standing.close(record, shown, lambda name: _heard(transaction.about(name)), log.secret)
        store(transaction, test, standing)
        return position

    return close


def _heard(records: Iterable[Record]) -> list[EventKey]:
    said = [record.entry for record in records if isinstance(record.entry, Feedback)]
    return [key for entry in said if entry.effect != "late" for key in entry.event_keys]


def replayed(log: Log, test: str) -> Standing:
    """Return the standing of a test from its records alone, or from its base where the first ones were deleted."""
    base = log.stored(base_name(test))
    standing: Standing | None = None if base is None else _decoded(base)
    shown: list[Record] = []
    heard: dict[bytes, list[Record]] = {}
    for record in log.read(0 if standing is None else standing.closed, model=stream(test)):
        match record.entry:
            case Impression():
                shown.append(record)
            case Feedback() if record.impression is not None:
                heard.setdefault(record.impression, []).append(record)
            case Closed(through=through) if standing is not None and record.position > standing.at:
                over = [each for each in shown if each.position <= through]
                shown = shown[len(over) :]
                standing.close(record, over, lambda name: _heard(heard.pop(name, ())), log.secret)
            case LiveTestChanged(spec=spec) if standing is None:
                standing = Standing.begun(record, spec, None)
            case _ if standing is not None and not isinstance(record.entry, Closed | Compacted):
                standing = standing.take(record)
    if standing is None:
        raise NotKnown(f"the log knows no test {test!r}", "check its name")
    return standing


def names(log: Log) -> list[str]:
    """Return the names of all tests that the log knows."""
    found = log.control_records(kinds=(LiveTestChanged,))
    return list(dict.fromkeys(record.model.removeprefix(PREFIX) for record in found))


def erase(transaction: Transaction, source: bytes, known: Iterable[str]) -> dict[str, int]:
    """Request that a source (hashed) be deleted from these tests; return where, by the name of the records."""
    return {stream(test): take(transaction, test, Erased(source)) for test in known}


def with_model(log: Log, model: str | None) -> list[str]:
    """Return the tests in which a model ever was an arm; None: all tests."""
    found = log.control_records(kinds=(LiveTestChanged,))
    specs = [(record.model, record.entry.spec) for record in found if isinstance(record.entry, LiveTestChanged)]
    arms = [(name, {ArmOf.named(arm).model for arm in spec.arms}) for name, spec in specs]
    return list(dict.fromkeys(name.removeprefix(PREFIX) for name, of in arms if model is None or model in of))


def compact(log: Log, test: str, through: int, guard: Callable[[Transaction], None]) -> bool:
    """Let a replay begin at the present standing, and lists up to a position be deleted; return whether it was new."""
    with log.transaction() as transaction:
        guard(transaction)
        standing, newest = required(transaction, test), transaction.newest(stream(test), Compacted)
        base = None if newest is None else newest.entry
        before = base.through if isinstance(base, Compacted) else 0
        entry = Compacted(standing.at, max(before, min(through, standing.closed)), 0, 0, b"")
        if entry == base:
            return False
        transaction.append(stream(test), entry)
        transaction.store(base_name(test), msgspec.msgpack.encode(standing))
    return True


def closed_before(log: Log, test: str, at: int) -> int:
    """Return the position up to which lists had counted at a time, in milliseconds since 1970."""

    def is_later(position: int) -> bool:
        found = log.newest(stream(test), Closed, 1, position)
        return bool(found) and found[0].at > at

    last = bisect_left(range(log.tail() + 1), True, key=is_later) - 1
    found = next(iter(log.newest(stream(test), Closed, 1, last)), None)
    return found.entry.through if found is not None and isinstance(found.entry, Closed) else 0


def running(log: Log) -> dict[str, LiveTest]:
    """Return the tests that run, by name."""
    found: dict[str, LiveTest] = {}
    for record in log.control_records(kinds=(LiveTestChanged, LiveTestStopped)):
        name = record.model.removeprefix(PREFIX)
        if isinstance(record.entry, LiveTestChanged):
            found[name] = record.entry.spec
        else:
            found.pop(name, None)
    return found


def versions_in_use(log: Log, model: str) -> set[int]:
    """Return the versions of a model that are arms of tests that run."""
    arms = [ArmOf.named(arm) for spec in running(log).values() for arm in spec.arms]
    return {arm.version for arm in arms if arm.model == model and arm.version is not None}
