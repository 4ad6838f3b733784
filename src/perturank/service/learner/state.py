"""The state of one model: a pure function of the records that it has taken, in order.

An impression is complete when its events have settled, or its window has closed. Until the window closes it goes on
waiting: what is new in later events completes it again. An imported one is complete once. The state keeps the events
of waiting impressions; their documents are read from the log when they are learned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import msgspec
import numpy as np

from perturank.core import Ranker
from perturank.drift import Watch
from perturank.parts.past_lists import Memo
from perturank.parts.standardised import Scale, Standardised
from perturank.service.learner import drift, update
from perturank.service.log import snapshots
from perturank.service.log.records import (
    Batch,
    Changed,
    Closed,
    Compacted,
    Deleted,
    Drifted,
    Erased,
    EventKey,
    Feedback,
    Imported,
    Impression,
    Pinned,
    Record,
    RolledBack,
    Scaled,
    Settled,
    Snapshot,
    document_worths,
    layout_change,
    source_seal,
)
from perturank.service.log.refusals import Missing
from perturank.service.log.spec import LIMITS_AMONG, Spec
from perturank.wire.specification import CLICK, OnDrift, ShownMode

Vote = tuple[bytes, str]  # a source, sealed, and a document with which it did something
READ_AT_ONCE = 16 * update.AT_ONCE  # impressions in memory while they are learned
MOST_TO_SCALE = 1024  # impressions from which a scale is estimated; with them it is final
ENOUGH_TO_SCALE = 64  # impressions from which the scale of a feature is estimated that was added later

REMAINING = (
    *("spec", "ranker", "tracker", "queue", "scaled", "is_scale_final", "lacks_scale"),
    *("shown_since", "shown_first", "taught", "layouts"),
)  # fields that a model takes over from what is left of the log when it unlearns a source


class Heard(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that was known of an impression at some point."""

    clicks: frozenset[str]
    events: frozenset[EventKey]  # other than clicks
    seen: int  # top places; 0: not known

    def worths(self, actions: Mapping[str, float]) -> dict[str, float]:
        """Return what each document was worth by these actions."""
        return document_worths([*((each, CLICK) for each in self.clicks), *self.events], actions)

    @property
    def documents(self) -> frozenset[str]:
        """With which something was done."""
        return self.clicks.union(document for document, _ in self.events)


NOTHING = Heard(frozenset(), frozenset(), 0)


class OpenImpression(msgspec.Struct, array_like=True, gc=False):
    """Feedback so far on one impression, which may come before the impression itself.

    There may be half a million. They are in no cycles, so the garbage collector need not look at them (gc=False).
    """

    position: int  # of the impression, once it is known
    since: int  # position of the first record about it
    clicks: frozenset[str] = frozenset()
    is_settled: bool = False  # before the impression was known
    mode: ShownMode | None = None  # None: the impression is not known yet
    source: bytes | None = None  # sealed
    events: frozenset[EventKey] = frozenset()
    seen: int = 0
    completed: Heard | None = None  # what it was complete with before

    @property
    def heard(self) -> Heard:
        """What is known now."""
        return Heard(self.clicks, self.events, self.seen)


class Completed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An impression with all its events; `at` is the position of the record that completed it."""

    at: int
    since: int  # the first record about it
    position: int  # of the impression itself
    name: bytes
    mode: ShownMode
    source: bytes | None  # sealed; None: nobody in particular
    clicks: frozenset[str]
    events: frozenset[EventKey] = frozenset()
    seen: int = 0
    before: Heard | None = None  # what it was complete with before; None: it was not
    is_skipped: bool = False  # since the impression was, when it was complete before

    @property
    def heard(self) -> Heard:
        """What is known of it."""
        return Heard(self.clicks, self.events, self.seen)

    @property
    def votes(self) -> list[Vote]:
        """The documents with which its source has done something since it was complete before, by name."""
        if self.source is None:
            return []
        new = self.heard.documents - (self.before or NOTHING).documents
        return [(self.source, document) for document in sorted(new)]

    @property
    def has_rewards(self) -> bool:
        """Whether more is known than a set of clicks."""
        return bool(self.events or self.seen or self.before)


class Tracker:
    """Follows one model's impressions through the log, from one generation to its end.

    Waiting impressions are in the order of their first records.
    """

    def __init__(self, seal: Callable[[str], bytes]) -> None:
        self._seal = seal
        self.waiting: dict[bytes, OpenImpression] = {}  # by the impression's name

    @property
    def oldest(self) -> int | None:
        """The first position that is still needed; None: nothing waits."""
        return next((waiting.since for waiting in self.waiting.values()), None)

    def take(self, record: Record) -> list[Completed]:
        """Return what this record completes."""
        match record.entry:
            case Impression() as shown if record.impression is not None:
                waiting = self.waiting.setdefault(record.impression, OpenImpression(record.position, record.position))
                waiting.position, waiting.mode = record.position, shown.mode
                waiting.source = waiting.source if shown.source is None else self._seal(shown.source)
                is_due = waiting.is_settled and shown.mode != "imported"  # whose events follow
                return self._settle(record, record.impression) if is_due else []
            case Feedback(effect="counted" | "early") as said if record.impression is not None:
                self._hear(record, record.impression, said)
                return self._settle(record, record.impression) if said.final else []
            case Settled(impressions=names):
                return [done for name in names for done in self._settle(record, name)]
            case Closed(through=through):
                return self._closed(record, through)
            case _:
                return []

    def drop(self, names: Iterable[bytes]) -> None:
        """Wait no longer for these impressions."""
        for name in names:
            self.waiting.pop(name, None)

    def forget(self, source: bytes) -> None:
        """Forget the waiting impressions of a source."""
        self.waiting = {name: waiting for name, waiting in self.waiting.items() if waiting.source != source}

    def _hear(self, record: Record, name: bytes, said: Feedback) -> None:
        if said.effect == "counted" and name not in self.waiting:
            return  # of another generation
        waiting = self.waiting.setdefault(name, OpenImpression(record.position, record.position))
        keys = said.event_keys
        waiting.clicks = waiting.clicks.union(document for document, action in keys if action == CLICK)
        waiting.events = waiting.events.union(key for key in keys if key[1] != CLICK)
        waiting.seen = max(waiting.seen, said.seen)
        if waiting.source is None and said.source is not None:
            waiting.source = self._seal(said.source)

    def _settle(self, record: Record, name: bytes) -> list[Completed]:
        waiting = self.waiting.get(name)
        if waiting is None:
            return []  # of another generation, or closed
        waiting.is_settled = waiting.mode is None
        if waiting.mode == "imported":  # with all its events
            del self.waiting[name]
        return _complete(record, name, waiting)

    def _closed(self, record: Record, through: int) -> list[Completed]:
        over = []
        for name, waiting in self.waiting.items():
            if waiting.since > through:  # and so are all that follow
                break
            if waiting.position <= through:
                over.append(name)
        return [done for name in over for done in _complete(record, name, self.waiting.pop(name))]


def _complete(record: Record, name: bytes, waiting: OpenImpression) -> list[Completed]:
    """Return what this record completes of an impression: nothing, if it is not known or nothing is new."""
    if waiting.mode is None or waiting.completed == waiting.heard:
        return []
    about = waiting.since, waiting.position, name, waiting.mode, waiting.source
    before, waiting.completed = waiting.completed, waiting.heard
    return [Completed(record.position, *about, waiting.clicks, waiting.events, waiting.seen, before)]


@dataclass
class Recall:
    """How a state looks up what its records refer to."""

    shown: Callable[[Sequence[int]], list[Impression]]  # the lists at these positions
    targets: Callable[[str, int], dict[int, int]]  # versions gone back to behind a position, and where last
    version: Callable[[str, int, dict[int, Ranker]], Ranker]  # the whole ranker of an earlier version
    blob: Callable[[str], Ranker]
    remaining: Callable[[str, int, Spec | None], State]  # with nothing learned, and without what is erased up to there
    secret: bytes  # of the seals on sources


@dataclass
class State:
    """One model as the learner has it. Replay and live learning differ only in who wrote the batches."""

    model: str
    recall: Recall
    instead: Spec | None = None  # replay under another ranker
    spec: Spec | None = None  # None: not created yet, or deleted
    ranker: Ranker | None = None
    at: int = 0  # position of the last record taken; earlier ones are skipped
    when: int = 0  # its time, in milliseconds since 1970
    generation: int = 0
    version: int = 0
    learned: int = 0
    unpublished: bool = False  # something was learned since the last version
    batched: int = 0  # everything completed up to this position is learned
    erased: int = 0  # position of the last request to erase a source
    unlearned: int = 0  # position of the last request to unlearn one
    based: int = 0  # position up to which the newest base contains the log
    compacted: int = 0  # position of that base's record, if it was read after this state was loaded
    # Of the last learned impressions: their sources, sealed, and the last votes.
    sources: deque[bytes | None] = field(default_factory=lambda: deque(maxlen=LIMITS_AMONG))
    votes: deque[Vote] = field(default_factory=lambda: deque(maxlen=LIMITS_AMONG))
    kept: dict[int, Ranker] = field(default_factory=dict)  # versions to which a later record rolls back
    tracker: Tracker = field(init=False)
    queue: deque[Completed] = field(default_factory=deque)
    scaled: int = 0  # impressions from which the scale was estimated
    is_scale_final: bool = False
    shown_since: int = 0  # when the first of these were shown
    shown_first: list[int] = field(
        default_factory=list
    )  # positions of the first impressions, while the scale may change
    taught: list[Completed] = field(default_factory=list)  # all that was learned, while the scale may change
    lacks_scale: bool = False  # a feature was added when the scale was final
    # Positions of changes, each with the layout of the features in the impressions before it (see `Spec.layout`).
    layouts: list[tuple[int, Sequence[int]]] = field(default_factory=list)
    watch: Watch = Watch()  # of the lists' quality, since learning began or a drift was told
    watched_after: int = 0  # lists up to this position were shown by a version that is not served any more

    def __post_init__(self) -> None:
        """Look up the versions to which later records roll back, so that they are kept and not rebuilt."""
        self.tracker = Tracker(self._seal)
        self._targets = self.recall.targets(self.model, self.at)
        if not self.unpublished:
            self._keep(self.version)

    def take(self, record: Record) -> None:
        """Apply one record of this model."""
        if record.position <= self.at:
            return
        self.at, self.when = record.position, record.at
        match record.entry:
            case Changed() as change:
                self._change(record.position, change)
            case Deleted():
                self._begin(record.position, None)
            case Batch() as batch:
                self._learn(batch)
            case RolledBack() | Imported() if self.instead is not None:
                return  # another ranker has no such versions, and cannot be imported
            case RolledBack(version=version, generation=restored, learned=learned):
                self._go_back(version)
                self._keep_scale()
                self.learned = learned if restored else self.learned
            case Imported(blob=blob):
                self._turn(self.recall.blob(blob))
                self._keep_scale()
            case Scaled() as scaled:
                self._rescale(scaled)
            case Drifted(reaction=reaction):
                self._react(reaction)
            case Pinned():
                self._watch_anew()
            case Compacted(at=at):
                self.based, self.compacted = at, record.position
            case Snapshot() as snapshot:
                self.version = snapshot.version
                if snapshot.generation == self.generation:
                    self.unpublished = False
                    self._keep(snapshot.version)
            case Impression(generation=generation) if generation != self.generation:
                return
            case Erased(unlearn=unlearn) if self.spec is not None and (unlearn or self.unlearned > self.based):
                self._unlearn(record.position)
            case Erased(source=source):
                self.erased = record.position
                self._keep_scale()
                self._forget(source)
            case entry:
                if isinstance(entry, Impression) and len(self.shown_first) < self.most_to_scale:
                    self.shown_since = self.shown_since or record.at
                    self.shown_first.append(record.position)
                self.queue.extend(each for each in self.tracker.take(record) if each.at > self.batched)

    def _forget(self, source: bytes) -> None:
        """Drop the waiting impressions of a source; what was learned from it stays."""
        self.tracker.forget(source)
        self.queue = deque(each for each in self.queue if each.source != source)
        self.sources = deque((None if each == source else each for each in self.sources), LIMITS_AMONG)
        self.votes = deque((vote for vote in self.votes if vote[0] != source), LIMITS_AMONG)

    def _unlearn(self, position: int) -> None:
        """Begin again with the records that are left; the learner writes their scale and their batches anew."""
        rest = self.recall.remaining(self.model, position, self.instead)
        for name in REMAINING:
            setattr(self, name, getattr(rest, name))
        self.erased = self.unlearned = position
        self.learned = self.batched = 0
        self.sources.clear()
        self.votes.clear()
        self.watch, self.unpublished = Watch(), self.version > 0

    @property
    def is_relearning(self) -> bool:
        """Whether a batch is left of what was complete when a source was to be unlearned; no version has half of it."""
        size = 1 if self.spec is None or self.spec.batch is None else self.spec.batch
        return len(self.queue) >= size and self.queue[size - 1].at <= self.unlearned

    def due(self, most: int) -> list[list[Completed]]:
        """Return the batches to learn now, of so many impressions at most: everything, or batches of the fixed size."""
        if self.spec is None:
            return []
        up_to = self.unlearned if self.is_relearning else self.at
        waiting = [each for each in islice(self.queue, most) if each.at <= up_to]
        size = self.spec.batch or len(waiting)
        return [waiting[i : i + size] for i in range(0, len(waiting) - size + 1, size)] if waiting else []

    def _seal(self, source: str) -> bytes:
        return source_seal(source, self.recall.secret)

    def _change(self, position: int, change: Changed) -> None:
        if change.generation != self.generation or self.spec is None or self.ranker is None:
            self._begin(change.generation or position, change.spec)
            return
        if change.spec.layout != self.spec.layout:
            self.layouts.append((position, self.spec.layout))
        self.spec, before = self._instead_of(change.spec), snapshots.digest(self.ranker)
        self.ranker = self.spec.adapt(self.ranker)
        if snapshots.digest(self.ranker) != before:
            self.unpublished = True
            if self.is_scale_final:
                self._keep_scale()

    def _begin(self, generation: int, spec: Spec | None) -> None:
        self.spec = spec and self._instead_of(spec)
        self.ranker = self.spec.start() if self.spec is not None else None
        self.generation, self.learned, self.unpublished = generation, 0, False
        self.tracker, self.queue = Tracker(self._seal), deque()
        self.sources.clear()
        self.votes.clear()
        self.scaled, self.is_scale_final, self.shown_since, self.shown_first, self.taught = 0, False, 0, [], []
        self.lacks_scale, self.layouts, self.watch = False, [], Watch()

    def _instead_of(self, spec: Spec) -> Spec:
        if self.instead is None:
            return spec
        other = self.instead
        return msgspec.structs.replace(spec, ranker=other.ranker, settings=other.settings, seed=other.seed)

    def _keep(self, version: int) -> None:
        """Keep the ranker, which is this version, if a later record rolls back to it."""
        if version in self._targets and self.ranker is not None:
            self.kept[version] = self.ranker

    def _go_back(self, version: int) -> None:
        ranker = self.kept.get(version) or self.recall.version(self.model, version, self.kept)
        self._turn(ranker if self.spec is None else self.spec.adapt(ranker))
        for done in [each for each in self.kept if self._targets.get(each, 0) <= self.at]:
            del self.kept[done]

    def _turn(self, ranker: Ranker) -> None:
        """Go on with another ranker."""
        self.ranker, self.unpublished = ranker, True
        self._watch_anew()

    def _watch_anew(self) -> None:
        """Watch only lists that are shown from here on: another version's may be worse without a drift."""
        self.watch, self.watched_after = self.watch.again(), self.at

    def _react(self, reaction: OnDrift) -> None:
        self.watch = self.watch.again()
        if reaction == "forget" and self.ranker is not None:
            self._turn(drift.faded(self.ranker))
            self._keep_scale()  # another one would be learned from all that was seen

    def _learn(self, batch: Batch) -> None:
        """Learn the impressions of a batch, in the order of their completion."""
        chosen = self._fitting(_not_skipped(batch, self._take_batch(batch)))
        self.batched = batch.through
        self._skip(set(batch.skipped))
        if self.spec is None or self.ranker is None or not chosen:
            return
        self.ranker = self._teach(self.ranker, chosen, self.learned, watches=True)
        self.learned += len(chosen)
        if self.is_scale_open:
            self.taught.extend(chosen)
        self.sources.extend(each.source for each in chosen if each.before is None)
        self.votes.extend(vote for each in chosen for vote in each.votes)
        self.unpublished = True

    def _skip(self, names: set[bytes]) -> None:
        """Let nothing more be learned of these impressions; the queue keeps its entries, since batches count them."""
        if names:
            self.tracker.drop(names)
            skip = partial(msgspec.structs.replace, is_skipped=True)
            self.queue = deque(skip(each) if each.name in names else each for each in self.queue)

    def _teach(self, ranker: Ranker, chosen: Sequence[Completed], learned: int, *, watches: bool = False) -> Ranker:
        """Return the ranker that has learned from these impressions; `learned` says how many came before."""
        assert self.spec is not None
        for start in range(0, len(chosen), READ_AT_ONCE):
            some = chosen[start : start + READ_AT_ONCE]
            rewarded = self._rewarded(some)
            if watches:
                pairs = zip(rewarded, some, strict=True)
                new = [told for told, each in pairs if each.before is None and each.position > self.watched_after]
                self.watch = drift.watched(self.watch, (drift.signal(each.shown, each.worth) for each in new))
            ranker = update.learn_from(
                ranker,
                rewarded,
                seed=self.spec.seed,
                learned=learned + start,
                places=self.spec.places,
                own=self.instead is None,
            )
        return ranker

    @property
    def has_drifted(self) -> bool:
        """Whether a drift was found that is not in the log yet."""
        return self.watch.fall is not None

    @property
    def is_scale_open(self) -> bool:
        """Whether the scale is still estimated; it needs every impression since learning began."""
        return isinstance(self.ranker, Standardised) and not self.is_scale_final

    @property
    def most_to_scale(self) -> int:
        """From how many impressions the scale is estimated at most; 0: it stays as it is."""
        return MOST_TO_SCALE if self.is_scale_open else ENOUGH_TO_SCALE if self.lacks_scale else 0

    @property
    def scale_due(self) -> int:
        """From how many impressions the scale should be estimated now, a power of two; 0: it stays as it is."""
        n = bisect_right(self.shown_first, self.unlearned) if self.is_relearning else len(self.shown_first)
        most = 1 << (n.bit_length() - 1) if n else 0
        if self.lacks_scale:
            return most if most == ENOUGH_TO_SCALE else 0
        return most if self.is_scale_open and most > self.scaled else 0

    def _rescale(self, scaled: Scaled) -> None:
        """Learn everything again at this scale; one that is final gets it only for features that were added."""
        if self.lacks_scale and isinstance(self.ranker, Standardised):
            self._turn(self.ranker.with_unknown_scale(_scale_of(scaled)))
            self._keep_scale()
        if self.spec is None or not self.is_scale_open:
            return
        start = self.spec.start()
        assert isinstance(start, Standardised)
        self.ranker = self._teach(start.with_scale(_scale_of(scaled)), self.taught, 0)
        self.scaled, self.unpublished = scaled.n, bool(self.taught) or self.unlearned > self.based
        if scaled.is_last:
            self._keep_scale()

    def _keep_scale(self) -> None:
        self.is_scale_final, self.shown_first, self.taught = True, [], []
        self.lacks_scale = isinstance(self.ranker, Standardised) and not self.ranker.is_scale_known

    def _take_batch(self, batch: Batch) -> list[Completed]:
        """Take the impressions of a batch from the queue."""
        n = batch.n + len(batch.skipped) if batch.is_counted else len(self.queue)
        taken: list[Completed] = []
        while self.queue and self.queue[0].at <= batch.through and len(taken) < n:
            taken.append(self.queue.popleft())
        is_whole = len(taken) == n and not (self.queue and self.queue[0].at < batch.through)
        if batch.is_counted and not is_whole and self.instead is None:
            what = f"the batch at position {self.at} of model {self.model!r} is not what the records before it make it"
            raise Missing(what, "records were taken out while they were read: begin again at the base")
        return taken

    def _rewarded(self, chosen: Sequence[Completed]) -> list[update.Rewarded]:
        """Return the shown lists, read from the log, with what their documents are worth by the model's actions."""
        assert self.spec is not None
        actions, shown = self.spec.actions, self.recall.shown([each.position for each in chosen])
        found = []
        for each, entry in zip(chosen, shown, strict=True):
            before = each.before or NOTHING
            now = each.heard.worths(actions), each.seen
            columns = self.columns_at(each.position)
            found.append(update.Rewarded(each.since, entry, *now, before.worths(actions), before.seen, columns))
        return found

    @property
    def has_rewards(self) -> bool:
        """Whether the next batches need more than clicks."""
        return any(each.has_rewards for each in islice(self.queue, READ_AT_ONCE))

    def columns_at(self, position: int) -> list[int] | None:
        """Return where the features of now stand in an impression at this position; None: as they are."""
        then = next((layout for changed, layout in self.layouts if position < changed), None)
        return None if then is None or self.spec is None else layout_change(then, self.spec.layout)

    def learned_since(self, generation: int, learned: int) -> int:
        """Return how many impressions were learned since this generation had learned so many."""
        has_gone_on = generation == self.generation and learned <= self.learned  # and has not unlearned meanwhile
        return self.learned - learned if has_gone_on else self.learned

    def _fitting(self, taken: list[Completed]) -> list[Completed]:
        """Return those that the ranker can learn from: a list of another ranker has no memo."""
        drawn = [each for each in taken if each.mode == "learn"]
        if len(drawn) == len(taken) or self.instead is not None or self.spec is None or self.ranker is None:
            return taken
        return drawn if Memo.of(self.ranker, self.spec.places).is_needed else taken

    @property
    def needed_from(self) -> int | None:
        """The oldest position that waiting impressions need, or a scale that is not final; None: there are none."""
        waiting = [each.since for each in self.queue]
        oldest = self.tracker.oldest
        if self.is_scale_open or self.lacks_scale:
            waiting += self.shown_first[:1]
        return min([*waiting, oldest] if oldest is not None else waiting, default=None)


def _not_skipped(batch: Batch, taken: Sequence[Completed]) -> list[Completed]:
    """Return those of a batch that are learned; once an impression is skipped, it is whenever it is complete again."""
    left, learned = Counter(batch.skipped), deque[Completed]()
    for each in reversed(taken):
        if left[each.name]:
            left[each.name] -= batch.keeps_first
        elif not each.is_skipped:
            learned.appendleft(each)
    return list(learned)


def _scale_of(scaled: Scaled) -> Scale:
    return Scale(np.array(scaled.location, np.float32), np.array(scaled.spread, np.float32))
