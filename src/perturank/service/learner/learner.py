"""The learner: reads the log in order, writes the boundaries of its batches into it, learns, publishes versions.

It reads no clock. It first writes a batch to the log, and learns it when it reads it back. So live learning and
replay learn the same by construction.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from perturank.parts.standardised import Scale
from perturank.service.learner import checkpoint, drift
from perturank.service.learner.influence import SourceLimits
from perturank.service.learner.lead import Lead
from perturank.service.learner.retention import Housekeeper
from perturank.service.learner.state import MOST_TO_SCALE, READ_AT_ONCE, State
from perturank.service.learner.states import States
from perturank.service.log import Log, Transaction, live_tests, snapshots
from perturank.service.log.changes import last_version
from perturank.service.log.counters import LEARNED, UPDATE_SECONDS, UPDATES
from perturank.service.log.generations import KEPT, generations
from perturank.service.log.records import (
    Batch,
    Changed,
    Closed,
    Deleted,
    Drifted,
    Erased,
    Feedback,
    Imported,
    Pinned,
    Record,
    RolledBack,
    Scaled,
    Settled,
    Snapshot,
    rearranged,
    unpacked,
)
from perturank.service.log.refusals import Missing
from perturank.service.settings import Retention

STATE_EVERY = 5000  # impressions between two stored states; a restart learns at most so many again
MOST_AT_ONCE = READ_AT_ONCE  # impressions of a model per step; a backlog takes several steps, each with a version
DECISIVE = (Changed, Deleted, Batch, RolledBack, Imported, Erased, Drifted)
TAKING = (Changed, Deleted, Erased)  # these change which impressions wait to be learned
SETTING_SCALES = (*TAKING, RolledBack, Imported)  # these keep the scale as it is, or bring another


class Learner:
    """The learner of all models of a log; it supersedes any earlier one."""

    def __init__(
        self, log: Log, retention: Retention | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        self.log = log
        self._is_over = is_over  # called after each record, since a backlog takes long
        self._lead = Lead.take(log)
        self._housekeeper = Housekeeper(log, retention, self._lead.check)
        self.states = States(log, self._lead.check, self._is_busy)
        self._stored: dict[str, tuple[int, int]] = {}  # of each model the generation, and what it had learned
        self._n_learned = 0  # by this learner
        self.progress = ProgressRecorder()
        self.is_tidy = False  # nothing is left to learn or to delete

    @property
    def position(self) -> int:
        """The position up to which the log was read."""
        return self.states.position

    def catch_up(self) -> None:
        """Read the new records, and learn the batches among them."""
        for record in self.log.read(after=self.position):
            if live_tests.is_stream(record.model):  # models that learn from it have the list too
                self.states.position = record.position
                continue
            state = self.states[record.model]
            now = state.generation, state.learned
            self._stored.setdefault(state.model, now)
            self.progress.resume(state)
            if record.position > state.at:  # another model's state may be older
                self._take(state, record)
                self._n_learned += state.learned_since(*now)
            self.progress.read(record)
            self.states.position = record.position
            self.states.note(state, record)
            if isinstance(record.entry, Batch) and state.learned_since(*self._stored[state.model]) >= STATE_EVERY:
                self._stored[state.model] = state.generation, state.learned
                self.states.store(state)
            if self._is_over():
                return

    def _take(self, state: State, record: Record) -> None:
        try:
            state.take(record)
            _check(state, record)
        except Missing:
            self._distrust(state)
            raise

    def step(self, holds: Callable[[State], bool] = lambda state: False) -> int:
        """Read, learn from what is complete, publish; return how many impressions were learned.

        Models for which `holds` is true learn in a later step.
        """
        self.catch_up()
        if self._is_over():
            return 0
        n_before = self._n_learned
        if self._write_scales(holds):
            self.catch_up()
        if self._write_batches(holds):
            with self.progress.learning():
                self.catch_up()
        if self._write_drifts():
            self.catch_up()
        n = self._n_learned - n_before
        for state in list(self.states.values()):
            if state.unpublished and not state.is_relearning:
                self._publish(state, n)
        self._write_progress()
        self.tidy()
        self.states.bound_what_a_restart_reads()
        self.states.evict()
        return n

    def tidy(self) -> None:
        """Do a little housekeeping."""
        more = self._housekeeper.look(list(self.states.values()))
        self.is_tidy = not more and not any(state.due(MOST_AT_ONCE) for state in self.states.values())

    def _write_progress(self) -> None:
        """Write the progress of models whose new records hold nothing to learn."""
        idle = self.progress.idle(self.states.values())
        if idle:
            with self.log.transaction() as transaction:
                self._lead.check(transaction)
                for model in idle:
                    if transaction.find_model(model) is not None:  # it may have been deleted
                        self.progress.pass_over(transaction, model)

    @property
    def is_in_step(self) -> bool:
        """Whether a model has batches of a fixed size, whose versions a client may wait for."""
        return any(state.spec is not None and state.spec.batch is not None for state in self.states.values())

    def _is_busy(self, state: State) -> bool:
        """Return whether a model has something to learn, to publish or to delete."""
        is_learning = state.unpublished or bool(state.due(MOST_AT_ONCE)) or bool(state.scale_due) or state.has_drifted
        return is_learning or self._housekeeper.is_busy(state)

    def _write_scales(self, holds: Callable[[State], bool]) -> bool:
        """Write the scales that enough impressions were shown for; return whether there was one."""
        due = [state for state in self.states.values() if state.scale_due and not holds(state)]
        scales = [(state, estimate_scale(state, state.scale_due)) for state in due]
        if not scales:
            return False
        with self.log.transaction() as transaction:
            self._lead.check(transaction)
            for state, scale in scales:
                if not any(_is_after(transaction.newest(state.model, kind), self.position) for kind in SETTING_SCALES):
                    transaction.append(state.model, scale)
        return True

    def _write_drifts(self) -> bool:
        """Write the drifts that were found; return whether there was one."""
        due = [state for state in self.states.values() if state.has_drifted]
        if not due:
            return False
        with self.log.transaction() as transaction:
            self._lead.check(transaction)
            for state in due:
                found = state.watch.fall
                is_changed = any(_is_after(transaction.newest(state.model, kind), self.position) for kind in DECISIVE)
                if state.spec is not None and found is not None and not is_changed:
                    drift.write(transaction, state.model, state.spec, found)
        return True

    def _write_batches(self, holds: Callable[[State], bool] = lambda state: False) -> bool:
        free = [state for state in self.states.values() if not holds(state)]
        full = [(state, batch) for state in free for batch in state.due(MOST_AT_ONCE)]
        if not full:
            return False
        with self.log.transaction() as transaction:
            self._lead.check(transaction)
            limits = {
                state.model: SourceLimits(state.spec, state.sources, state.votes)
                for state, _ in full
                if state.spec is not None
            }
            for state, due in full:
                if any(_is_after(transaction.newest(state.model, kind), self.position) for kind in TAKING):
                    continue  # the next step reads that record first
                skipped = limits[state.model].skipped(due)
                batch = Batch(due[-1].at, len(due) - len(skipped), skipped, is_counted=True, keeps_first=True)
                transaction.append(state.model, batch)
        return True

    def _publish(self, state: State, n: int) -> None:
        """Publish a version, unless a record that changes the model was appended after the last one read."""
        assert state.ranker is not None
        digest = snapshots.digest(state.ranker)
        content = snapshots.version_bytes(state.ranker, model=state.model, learned=state.learned)
        # The base of an erasure that is under way will lie behind this version.
        whole = checkpoint.pack_ranker(state.ranker) if state.erased > state.based else None
        checksum = snapshots.checksum(content)  # before the transaction, for which others wait
        with self.log.transaction() as transaction:
            self._lead.check(transaction)
            if any(_is_after(transaction.newest(state.model, kind), self.position) for kind in DECISIVE):
                return
            version = last_version(transaction, state.model) + 1
            self._thin_out(transaction, state, version)
            transaction.append(
                state.model, Snapshot(state.generation, version, state.learned, digest, checksum, self._lead.epoch)
            )
            transaction.store(snapshots.version_name(state.model, version), content)
            if whole is not None:
                transaction.store(snapshots.whole_name(state.model, version), whole)
            self.progress.publish(transaction, state, n)
        self.catch_up()

    def _distrust(self, state: State) -> None:
        """Delete the stored states of a model, so that the next learner begins at its base."""
        with self.log.transaction() as transaction:
            self._lead.check(transaction)
            transaction.remove(snapshots.state_name(state.model))
            transaction.remove(snapshots.next_name(state.model))

    def close(self) -> None:
        """Store every state that has changed."""
        self.states.close()

    def _thin_out(self, transaction: Transaction, state: State, version: int) -> None:
        """Remove stored versions before this one is added; the last of a generation stays while it can be restored."""
        pinned = transaction.newest(state.model, Pinned)
        stored = snapshots.versions(self.log, state.model)
        kept = snapshots.kept([*stored, version])
        if pinned is not None and isinstance(pinned.entry, Pinned) and pinned.entry.version:
            kept.add(pinned.entry.version)
        earlier = [each.last for each in generations(self.log, state.model) if not each.refusal]
        kept |= {last.snapshot.version for last in earlier[-KEPT:] if last is not None}
        kept |= live_tests.versions_in_use(self.log, state.model)
        for each in set(stored) - kept:
            transaction.remove(snapshots.version_name(state.model, each))


def estimate_scale(state: State, n: int) -> Scaled:
    """Return the scale of what the first n impressions have shown."""
    columns = []
    positions = state.shown_first[:n]
    for position, shown in zip(positions, state.recall.shown(positions), strict=True):
        features, prior, _ = unpacked(shown.packed, None)
        then = state.columns_at(position)
        features = features if then is None else rearranged(features, then)
        says_nothing = np.ptp(prior) == 0  # as where there is none
        columns.append(np.column_stack([features, np.full(len(prior), np.nan) if says_nothing else prior]))
    scale = Scale.of(np.concatenate(columns))
    return Scaled(n, scale.location.tolist(), scale.spread.tolist(), n >= MOST_TO_SCALE or state.is_scale_final)


def _check(state: State, record: Record) -> None:
    """Raise Missing if a version has learned another number of impressions: some were deleted before they were read."""
    entry = record.entry
    if isinstance(entry, Snapshot) and entry.generation == state.generation and entry.learned != state.learned:
        what = f"version {entry.version} of model {state.model!r} has learned {entry.learned} impressions"
        raise Missing(f"{what}, and the records before it make {state.learned}", "begin again at the base")


def _is_after(record: Record | None, position: int) -> bool:
    return record is not None and record.position > position


class ProgressRecorder:
    """Records in the counters how far the learner has read, learned and published."""

    def __init__(self) -> None:
        self._at = 0  # of the last record read
        # Of each model, the records that complete impressions and that no version contains yet: position, time.
        self._waiting: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
        self._learned: dict[str, tuple[int, int]] = {}
        self._seconds = 0.0

    def resume(self, state: State) -> None:
        """Note what a model had learned when its state was first loaded."""
        self._learned.setdefault(state.model, (state.generation, state.learned))

    def read(self, record: Record) -> None:
        """Note a record."""
        self._at, entry = record.at, record.entry
        is_final = isinstance(entry, Feedback) and entry.final and entry.effect != "late"
        if is_final or isinstance(entry, Closed | Settled):
            self._waiting[record.model].append((record.position, record.at))
        if isinstance(entry, RolledBack) and entry.generation:  # what it had learned is not learned now
            self._learned[record.model] = entry.generation, entry.learned
        if isinstance(entry, Erased) and entry.unlearn:
            self._learned[record.model] = 0, 0

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Time the block, in which a step learns."""
        began = time.perf_counter()
        yield
        self._seconds = time.perf_counter() - began

    def publish(self, transaction: Transaction, state: State, n_in_step: int) -> None:
        """Count a new version; the step learned `n_in_step` impressions of all models."""
        n = state.learned_since(*self._learned.get(state.model, (0, 0)))
        self._learned[state.model] = state.generation, state.learned
        seconds = self._seconds * n / max(n_in_step, 1)
        transaction.counters.add(state.model, {LEARNED: n, UPDATES: 1, UPDATE_SECONDS: seconds})
        rest = state.queue[0].at - 1 if state.queue else state.batched  # one record may complete two batches
        self._reach(transaction, state.model, min(state.batched, rest))

    def idle(self, states: Iterable[State]) -> list[str]:
        """Return the models whose new records held nothing to learn; deleted ones have no counters."""
        found = [state for state in states if self._waiting[state.model] and not state.queue and not state.unpublished]
        for state in found:
            if state.spec is None:
                self._waiting[state.model].clear()
        return [state.model for state in found if state.spec is not None]

    def pass_over(self, transaction: Transaction, model: str) -> None:
        """Record that everything read of a model is learned, or needed no learning."""
        self._reach(transaction, model, self._waiting[model][-1][0])

    def _reach(self, transaction: Transaction, model: str, position: int) -> None:
        waiting = self._waiting[model]
        while waiting and waiting[0][0] <= position:
            waiting.popleft()
        transaction.counters.learned[model] = (position, waiting[0][1] if waiting else self._at)
