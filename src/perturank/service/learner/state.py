"""The state of one model: a pure function of the records that it has taken, in order.

An impression is complete when its feedback was final, or its window has closed. The state keeps the clicks of waiting
impressions; their documents are read from the log when they are learned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from perturank.core import Ranker
from perturank.parts.standardised import Scale, Standardised
from perturank.service.learner import update
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
    Snapshot,
    source_seal,
)
from perturank.service.log.refusals import Missing
from perturank.service.log.spec import CAP_AMONG, Spec
from perturank.wire.specification import ShownMode

READ_AT_ONCE = 16 * update.AT_ONCE  # impressions in memory while they are learned
MOST_TO_SCALE = 1024  # impressions from which a scale is estimated; with them it is final


class OpenImpression(msgspec.Struct, array_like=True, gc=False):
    """Feedback so far on one impression, which may come before the impression itself.

    There may be half a million. They are in no cycles, so the garbage collector need not look at them (gc=False).
    """

    position: int  # of the impression, once it is known
    since: int  # position of the first record about it
    clicks: frozenset[str] = frozenset()
    final: bool = False
    mode: ShownMode | None = None  # None: the impression is not known yet
    source: bytes | None = None  # sealed


class Completed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An impression with all its clicks; `at` is the position of the record that completed it."""

    at: int
    since: int  # the first record about it
    position: int  # of the impression itself
    name: bytes
    mode: ShownMode
    source: bytes | None  # sealed; None: nobody in particular
    clicks: frozenset[str]


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
                waiting.source = None if shown.source is None else self._seal(shown.source)
                return self._done(record, record.impression) if waiting.final else []
            case Feedback(effect="counted" | "early") as said if record.impression is not None:
                return self._heard(record, record.impression, said)
            case Closed(through=through):
                return self._closed(record, through)
            case _:
                return []

    def forget(self, source: bytes) -> None:
        """Forget the waiting impressions of a source."""
        self.waiting = {name: waiting for name, waiting in self.waiting.items() if waiting.source != source}

    def _heard(self, record: Record, name: bytes, said: Feedback) -> list[Completed]:
        if said.effect == "counted" and name not in self.waiting:
            return []  # of another generation
        waiting = self.waiting.setdefault(name, OpenImpression(record.position, record.position))
        waiting.clicks = waiting.clicks.union(said.clicks)
        waiting.final |= said.final
        return self._done(record, name) if waiting.final and waiting.mode is not None else []

    def _closed(self, record: Record, through: int) -> list[Completed]:
        over = []
        for name, waiting in self.waiting.items():
            if waiting.since > through:  # and so are all that follow
                break
            if waiting.position <= through:
                over.append(name)
        return [done for name in over for done in self._done(record, name)]

    def _done(self, record: Record, name: bytes) -> list[Completed]:
        waiting = self.waiting.pop(name)
        if waiting.mode is None:  # the impression never came
            return []
        about = waiting.since, waiting.position, name, waiting.mode, waiting.source
        return [Completed(record.position, *about, waiting.clicks)]


@dataclass
class Recall:
    """How a state looks up what its records refer to."""

    shown: Callable[[Sequence[int]], list[Impression]]  # the lists at these positions
    targets: Callable[[str, int], dict[int, int]]  # versions gone back to behind a position, and where last
    version: Callable[[str, int, dict[int, Ranker]], Ranker]  # the whole ranker of an earlier version
    blob: Callable[[str], Ranker]
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
    based: int = 0  # position up to which the newest base contains the log
    compacted: int = 0  # position of that base's record, if it was read after this state was loaded
    sources: deque[bytes | None] = field(default_factory=lambda: deque(maxlen=CAP_AMONG))  # sealed, of the last learned
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
            case RolledBack(version=version):
                self._keep_scale()
                self._go_back(version)
            case Imported(blob=blob):
                self._keep_scale()
                self._turn(self.recall.blob(blob))
            case Scaled() as scaled:
                self._rescale(scaled)
            case Compacted(at=at):
                self.based, self.compacted = at, record.position
            case Snapshot() as snapshot:
                self.version = snapshot.version
                if snapshot.generation == self.generation:
                    self.unpublished = False
                    self._keep(snapshot.version)
            case Impression(generation=generation) if generation != self.generation:
                return
            case Erased(source=source):
                self.erased = record.position
                self._keep_scale()
                self._forget(source)
            case entry:
                if isinstance(entry, Impression) and self.is_scale_open and len(self.shown_first) < MOST_TO_SCALE:
                    self.shown_since = self.shown_since or record.at
                    self.shown_first.append(record.position)
                self.queue.extend(each for each in self.tracker.take(record) if each.at > self.batched)

    def _forget(self, source: bytes) -> None:
        """Drop the waiting impressions of a source; what was learned from it stays."""
        self.tracker.forget(source)
        self.queue = deque(each for each in self.queue if each.source != source)
        self.sources = deque((None if each == source else each for each in self.sources), CAP_AMONG)

    def _seal(self, source: str) -> bytes:
        return source_seal(source, self.recall.secret)

    def _change(self, position: int, change: Changed) -> None:
        if change.generation == self.generation and self.spec is not None:
            self.spec = self._instead_of(change.spec)
        else:
            self._begin(position, change.spec)

    def _begin(self, position: int, spec: Spec | None) -> None:
        self.spec = spec and self._instead_of(spec)
        self.ranker = self.spec.start() if self.spec is not None else None
        self.generation, self.learned, self.unpublished = position, 0, False
        self.tracker, self.queue = Tracker(self._seal), deque()
        self.sources.clear()
        self.scaled, self.is_scale_final, self.shown_since, self.shown_first, self.taught = 0, False, 0, [], []

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
        self._turn(self.kept.get(version) or self.recall.version(self.model, version, self.kept))
        for done in [each for each in self.kept if self._targets.get(each, 0) <= self.at]:
            del self.kept[done]

    def _turn(self, ranker: Ranker) -> None:
        self.ranker, self.unpublished = ranker, True

    def _learn(self, batch: Batch) -> None:
        """Learn the impressions of a batch, in the order of their completion."""
        skipped = set(batch.skipped)
        chosen = [each for each in self._take_batch(batch) if each.name not in skipped and self._fits(each)]
        self.batched = batch.through
        if self.spec is None or self.ranker is None or not chosen:
            return
        self.ranker = self._teach(self.ranker, chosen, self.learned)
        self.learned += len(chosen)
        if self.is_scale_open:
            self.taught.extend(chosen)
        self.sources.extend(each.source for each in chosen)
        self.unpublished = True

    def _teach(self, ranker: Ranker, chosen: Sequence[Completed], learned: int) -> Ranker:
        """Return the ranker that has learned from these impressions; `learned` says how many came before."""
        assert self.spec is not None
        for start in range(0, len(chosen), READ_AT_ONCE):
            ranker = update.learn_from(
                ranker,
                self._clicked(chosen[start : start + READ_AT_ONCE]),
                seed=self.spec.seed,
                learned=learned + start,
                places=self.spec.places,
                own=self.instead is None,
            )
        return ranker

    @property
    def is_scale_open(self) -> bool:
        """Whether the scale is still estimated; it needs every impression since learning began."""
        return isinstance(self.ranker, Standardised) and not self.is_scale_final

    @property
    def scale_due(self) -> int:
        """From how many impressions the scale should be estimated now, a power of two; 0: it stays as it is."""
        n = len(self.shown_first)
        most = 1 << (n.bit_length() - 1) if n else 0
        return most if self.is_scale_open and most > self.scaled else 0

    def _rescale(self, scaled: Scaled) -> None:
        """Learn everything again at this scale."""
        if self.spec is None or not self.is_scale_open:
            return
        start = self.spec.start()
        assert isinstance(start, Standardised)
        scale = Scale(np.array(scaled.location, np.float32), np.array(scaled.spread, np.float32))
        self.ranker = self._teach(start.with_scale(scale), self.taught, 0)
        self.scaled, self.unpublished = scaled.n, bool(self.taught)
        if scaled.is_last:
            self._keep_scale()

    def _keep_scale(self) -> None:
        self.is_scale_final, self.shown_first, self.taught = True, [], []

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

    def _clicked(self, chosen: Sequence[Completed]) -> list[update.Clicked]:
        """Return the shown lists, read from the log, with their clicks."""
        shown = self.recall.shown([each.position for each in chosen])
        return [update.Clicked(each.since, entry, each.clicks) for each, entry in zip(chosen, shown, strict=True)]

    def learned_since(self, generation: int, learned: int) -> int:
        """Return how many impressions were learned since this generation had learned so many."""
        return self.learned - learned if generation == self.generation else self.learned

    def _fits(self, completed: Completed) -> bool:
        """Return whether the ranker can learn from it: a list of another ranker has no memo."""
        if completed.mode == "learn" or self.instead is not None:
            return True
        assert self.spec is not None
        assert self.ranker is not None
        return not update.Memo.of(self.ranker, self.spec.places).is_needed

    @property
    def needed_from(self) -> int | None:
        """The oldest position that waiting impressions need; None: none waits."""
        waiting = [each.since for each in self.queue]
        oldest = self.tracker.oldest
        return min([*waiting, oldest] if oldest is not None else waiting, default=None)
