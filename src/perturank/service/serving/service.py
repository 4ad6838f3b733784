"""The service without HTTP: lists, feedback, models, when events settle and when feedback windows close."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import msgspec
import numpy as np

from perturank.core import KeepsLimits
from perturank.exports import Export
from perturank.service.log import Log, Transaction, changes, counters, erasure, live_tests, snapshots, ubi
from perturank.service.log.candidates import is_sampled, own_order, pack_candidates
from perturank.service.log.feedback import Status, close_windows, record_feedback, settle
from perturank.service.log.group_commit import Committer
from perturank.service.log.records import (
    Changed,
    Closed,
    Event,
    Impression,
    Record,
    layout_change,
    new_id,
    own_id,
    packed,
    probability,
    query_seal,
    rearranged,
    sign_id,
    source_seal,
    verify_id,
)
from perturank.service.log.refusals import NotKnown, Refused
from perturank.service.log.spec import checked_spec, patched
from perturank.service.serving import sampling
from perturank.service.serving.evaluations import Evaluations
from perturank.service.serving.export import export_version, stored_version
from perturank.service.serving.models import LoadedModel, LoadedModels, LoadedTest, VersionFiles
from perturank.service.serving.sampling import SampledList
from perturank.service.settings import ServeSettings
from perturank.wire.requests import ListFeedback
from perturank.wire.specification import Exploration, Mode, SpecRequest

DEFAULT = "default"
GRAIN = 1.0  # seconds; the windows of impressions this close together close at once, with the last of them


@dataclass(frozen=True)
class ServedList:
    """A list as it is answered."""

    impression: str
    ids: list[str]
    certain: list[bool]
    propensity: float | None
    version: int
    position: int  # of the impression in the log
    fallback: bool = False  # the caller's own order, since no program was compiled


@dataclass(frozen=True)
class Pages:
    """The pages of a list that were shown so far: their names, their documents, and the last one's record."""

    names: list[bytes]
    ids: frozenset[str]
    last: Impression


class Service:
    """One serving process: its loaded models and its access to the log."""

    def __init__(self, log: Log, settings: ServeSettings) -> None:
        self.log, self.settings = log, settings
        self.committer = Committer(log)
        self.models = LoadedModels(log, settings.max_documents)
        self.windows, self.settling = Windows(), Settling()
        self.stopping = threading.Event()  # set when the process is to stop: streams and child processes then end
        self.reading, self._closed = threading.RLock(), False  # the lock keeps other threads from refreshing
        self._files = VersionFiles(log.url, self.stopping)
        self.evaluations = Evaluations(log.url, self.stopping)
        self._tail = log.tail()
        self.refresh()
        for name in (*self._models_with_lists(), *map(live_tests.stream, self.models.tests)):
            self.windows.note(name, self._tail)  # impressions of earlier processes

    def _models_with_lists(self) -> list[str]:
        """Return the models that may have impressions; logs of early versions have counted none."""
        return [
            loaded.name
            for loaded in self.models.all()
            if loaded.published
            or self.log.counters((counters.TOTAL,), model=loaded.name)
            or self.log.newest(loaded.name, Closed, 1)
        ]

    @property
    def tail(self) -> int:
        """The last position of the log when it was last read."""
        return self._tail

    def refresh(self) -> None:
        """Read what other processes wrote to the log."""
        with self.reading:
            if not self._closed:
                self.models.refresh()
                self._tail = self.log.tail()

    def complete_impressions(self) -> None:
        """Settle events, close windows and count lists of tests; an error with one model does not stop the others."""
        failures: list[Exception] = []
        for loaded in self.models.all():
            try:
                self._settle(loaded)
                self._close_windows(loaded)
            except Exception as failure:
                failures.append(failure)  # the next call tries it again
        for test in list(self.models.tests.values()):
            try:
                self._count_lists(test)
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def _settle(self, loaded: LoadedModel) -> None:
        events = self.settling.due(loaded.name, loaded.spec.settle)
        if events:
            self.committer.submit(lambda transaction: settle(transaction, loaded.name, list(events))).result()
            self.settling.forget(loaded.name, events)

    def _close_windows(self, loaded: LoadedModel) -> None:
        position = self.windows.due(loaded.name, loaded.spec.window)
        if position is not None:
            self.committer.submit(lambda transaction: close_windows(transaction, loaded.name, position)).result()
            self.windows.forget(loaded.name, position)

    def _count_lists(self, test: LoadedTest) -> None:
        """Close the windows of a test that are over, and count its lists."""
        name = live_tests.stream(test.name)
        position = self.windows.due(name, test.spec.window or 0.0)
        if position is not None:
            closed = self.committer.submit(live_tests.closing(self.log, test.name, position)).result()
            self.windows.forget(name, closed)

    def find_model(self, name: str, wanted: Callable[[], SpecRequest | None] | None = None) -> LoadedModel:
        """Return a model; on loopback, the first request that the default model could answer creates it."""
        if name not in self.models:
            self.refresh()  # another process may have created it a moment ago
        if name == DEFAULT and wanted is not None and self.settings.is_loopback and DEFAULT not in self.models:
            request = wanted()
            if request is not None:
                self._create_default(request)
        return self.models.get(name)

    def _create_default(self, request: SpecRequest) -> None:
        """Create the default model unless another process has; its ranker, which compiles, is made behind the list."""
        spec = checked_spec(request)
        self.committer.submit(
            lambda transaction: changes.put(transaction, DEFAULT, spec, only_new=True),
        ).result()
        self.refresh()

    def rank(
        self,
        loaded: LoadedModel,
        ids: Sequence[str],
        features: np.ndarray,
        prior: np.ndarray | None,
        *,
        top: int | None = None,
        mode: Mode = "learn",
        source: str | None = None,
        draw: int | None = None,
        fallback: bool = False,
        pages: Pages | None = None,
        query: str | None = None,
        query_id: str | None = None,
    ) -> Future[ServedList]:
        """Return a future that resolves when the impression is durable; `draw` selects a reproducible random key.

        `fallback`: nothing is drawn, and the list is the caller's own order. `pages` came before this list, which
        has none of their documents. `query_id` is the caller's own name for the query.
        """
        top = loaded.spec.places if top is None else top
        own = own_order(len(ids), prior)[:top]
        drawn = None
        if not fallback:
            n_above = 0 if pages is None else len(pages.ids)
            drawn = sampling.sample_list(loaded.program, features, prior, top, draw=draw, n_above=n_above)
        explores = drawn if mode == "learn" else None
        rows = own if drawn is None else {"learn": drawn.order, "exploit": drawn.best, "shadow": own}[mode]
        certain = [True] * len(rows) if explores is None else explores.certain
        log_propensity = 0.0 if explores is None else explores.log_propensity
        entry = Impression(
            loaded.generation,
            loaded.version,
            "own" if drawn is None else mode,
            [ids[row] for row in rows],
            log_propensity,
            b"",
            source,
            None if drawn is None or mode != "shadow" else [ids[row] for row in drawn.order],
            None if explores is None else explores.agreed,
            [] if pages is None else pages.names,
            _own_agreement(loaded.spec.exploration, explores, own) if pages is None and drawn is not None else None,
            log_p=b"" if explores is None else explores.places,
            query=None if query is None else query_seal(query, self.log.secret),
            query_text=query if loaded.spec.keep_query else None,
        )
        secret = self.log.secret
        name = new_id(self._tail) if query_id is None else own_id(query_id, loaded.name, secret)
        propensity = None if log_propensity is None else probability(log_propensity)
        memo = [] if explores is None or loaded.lent is not None else explores.memo

        def write(transaction: Transaction) -> ServedList:
            # It may have been deleted since the list was drawn, or have other features now: where an impression
            # stands in the log says which features it has.
            current, documents = transaction.require_model(loaded.name), features
            given = name if query_id is None else ubi.next_name(transaction, query_id, loaded.name, secret)
            if current.generation == loaded.generation and current.spec.layout != loaded.spec.layout:
                documents = rearranged(features, layout_change(loaded.spec.layout, current.spec.layout))
            # Packed in this thread, which mostly waits for the disk: the other one has requests to answer.
            content = packed(documents[rows], None if prior is None else prior[rows], memo)
            # Of a first page alone: what stands on the next one depends on it.
            keeps_candidates = pages is None and is_sampled(given, loaded.spec.candidates)
            candidates = pack_candidates(ids, documents, prior, rows) if keeps_candidates else None
            transaction.counters.add(loaded.name, counters.list_amounts(entry, certain))
            written = msgspec.structs.replace(entry, packed=content, candidates=candidates)
            position = transaction.append(loaded.name, written, given)
            impression = sign_id(given, loaded.name, secret)
            return ServedList(impression, entry.ids, certain, propensity, loaded.version, position, fallback)

        return self.committer.submit(
            write,
            [] if query_id is None else [name],
            then=lambda shown: self.windows.note(loaded.name, shown.position),
        )

    def feedback(self, model: str, said: ListFeedback) -> Future[Status]:
        """Return a future that resolves to the effect of the feedback when it is durable."""
        name = verify_id(said.impression, model, self.log.secret)
        events = [Event(each.id, each.action, each.value) for each in said.events]

        def write(transaction: Transaction) -> Status:
            actions = transaction.require_model(model).spec.actions
            return record_feedback(
                transaction, model, name, said.clicks, said.final, events=events, seen=said.seen or 0, actions=actions
            )

        def wait(status: Status) -> None:
            if status in ("recorded", "early") and (said.clicks or events) and not said.final:
                self.settling.note(model, name)

        return self.committer.submit(write, [name], then=wait)

    def shown(self, model: str, impression: str) -> Future[Record]:
        """Return the record of a list; refuse one that is not in the log."""
        name = verify_id(impression, model, self.log.secret)

        return self.committer.submit(lambda transaction: _find_impression(transaction, name, impression), [name])

    def pages(self, model: str, impression: str) -> Future[Pages]:
        """Return the pages of a list up to this one; refuse one that is not in the log."""
        name = verify_id(impression, model, self.log.secret)

        def find(transaction: Transaction) -> Pages:
            last = _find_impression(transaction, name, impression).entry
            assert isinstance(last, Impression)
            earlier = [_find_impression(transaction, each, impression).entry for each in last.earlier]
            shown = [entry.ids for entry in (*earlier, last) if isinstance(entry, Impression)]
            return Pages([*last.earlier, name], frozenset().union(*shown), last)

        return self.committer.submit(find, [name])

    def always_explores(self, model: str, generation: int) -> bool:
        """Return whether the share of lists that explore has been 1 since this generation began."""
        changes = [record.entry for record in self.log.all_of(model, Changed, generation - 1)]
        return all(entry.spec.exploration.share == 1 for entry in changes if isinstance(entry, Changed))

    def features_then(self, model: str, record: Record, features: np.ndarray) -> np.ndarray:
        """Return the features of a logged list in the order that they have in the model now."""
        then = next(iter(self.log.newest(model, Changed, 1, record.position))).entry
        assert isinstance(then, Changed)
        return rearranged(features, layout_change(then.spec.layout, self.models.get(model).spec.layout))

    def patch(self, model: str, changes: Any, *, begin_anew: bool = False, in_use: Iterable[int] = ()) -> bool:
        """Change a model by an RFC 7396 merge patch of its spec; return whether its learning begins anew."""
        self.refresh()
        request = patched(self.models.get(model).spec, changes)
        return self.put(model, request, begin_anew=begin_anew, in_use=in_use, is_whole=True)

    def put(
        self,
        model: str,
        request: SpecRequest,
        *,
        begin_anew: bool = False,
        in_use: Iterable[int] = (),
        is_whole: bool = False,
    ) -> bool:
        """Create or change a model; return whether its learning begins anew, which it must be allowed to.

        `in_use`: numbers of documents in recent requests. Their programs are compiled before the change is written.
        A request that `is_whole` keeps nothing of the model that it does not name.
        """
        self.refresh()  # another process may have written it a moment ago
        existing = self.models.get(model).spec if model in self.models else None
        checked = checked_spec(request, existing, is_whole=is_whole)
        # Before it is in the log: a ranker that cannot be made must not get there.
        start = checked.follow(existing)[0].start()
        if checked.is_limited and not isinstance(start, KeepsLimits):
            raise Refused(f"{checked.ranker} does not know the probability of its lists", "leave exploration unlimited")
        self.models.prepare(model, checked, {sampling.padded_length(n, checked.places) for n in in_use})
        anew = self.committer.submit(
            lambda transaction: changes.put(transaction, model, checked, begin_anew=begin_anew)
        ).result()
        self.refresh()
        return anew

    def delete(self, model: str) -> None:
        """Delete a model with everything that was stored for it."""
        self.committer.submit(lambda transaction: changes.delete(transaction, model)).result()
        self.refresh()

    def pin(self, model: str, version: int | None) -> None:
        """Serve this version even when newer ones are published; None: the newest again."""
        self.committer.submit(lambda transaction: changes.pin(self.log, transaction, model, version)).result()
        self.refresh()

    def roll_back(self, model: str, version: int) -> None:
        """Let learning continue from an earlier version."""
        self.committer.submit(lambda transaction: changes.roll_back(self.log, transaction, model, version)).result()

    def restore(self, model: str, generation: int) -> None:
        """Let learning continue from the last version of an earlier generation."""
        self.committer.submit(lambda transaction: changes.restore(self.log, transaction, model, generation)).result()
        self.refresh()

    def import_file(self, model: str, content: bytes) -> None:
        """Let learning continue from a ranker that `perturank.save` wrote."""
        self.refresh()  # another process may have changed the model a moment ago
        file = changes.read_ranker_file(model, self.models.get(model).spec, content)
        self.committer.submit(lambda transaction: changes.import_ranker(self.log, transaction, model, file)).result()

    def erase(self, model: str, source: str, *, unlearn: bool = False) -> int:
        """Request that all records of a source be deleted, also from tests; return the position of the request.

        `unlearn`: the learner also rebuilds the model from the records that are left, and withdraws earlier versions.
        """
        self.models.get(model)
        seal = source_seal(source, self.log.secret)
        tests = live_tests.with_model(self.log, model)
        before = erasure.unlearned_before(self.log, model, source) if unlearn else 0
        if before:  # the source may have come back in a test from which the model does not learn
            tests = erasure.tests_with(self.log, source, tests)
        # Here, since it may read the whole log: in the transaction everybody else would wait for it.
        is_known = not unlearn or before > 0 or erasure.is_known(self.log, model, source, tests)

        def write(transaction: Transaction) -> int:
            if unlearn and not before:
                erasure.check_unlearnable(self.log, transaction, model)
            if not is_known:
                raise erasure.unknown_source(source)
            live_tests.erase(transaction, seal, tests)
            return before or changes.erase(transaction, model, seal, unlearn=unlearn)

        position = self.committer.submit(write).result()
        self.refresh()
        return position

    def file(self, model: str, *, history: bool = True) -> bytes:
        """Return the served version as a file that `perturank.load` reads; without its history it cannot learn more."""
        return self.file_of(self.models.get(model), history=history)

    def file_of(self, loaded: LoadedModel, *, history: bool = True) -> bytes:
        """Return the same of a model as it is at some version."""
        erasure.check_not_unlearning(self.log, loaded.name)
        if history and loaded.version and snapshots.has_history(loaded.ranker):
            return self._files.make(loaded.name, loaded.version)
        scaling = loaded.drawing.scaling
        return snapshots.file_bytes(loaded.ranker, loaded.name, loaded.version, history=history, scaling=scaling)

    def export(
        self, model: str, format: str, *, version: int | None = None, name: str | None = None, prior: str | None = None
    ) -> Export:
        """Return the served version, or another that is stored, in the format of another system."""
        loaded = self.models.get(model)
        erasure.check_not_unlearning(self.log, model)
        spec, ranker = loaded.drawing, loaded.ranker
        if version is not None and version != loaded.version:
            spec, ranker = stored_version(self.log, model, version)
        return export_version(spec, ranker, format, name=name or model, prior=prior)

    def close(self) -> None:
        """Finish submitted writes and stop reading, so that the log can be closed."""
        self.committer.close()
        with self.reading:
            self._closed = True


def _find_impression(transaction: Transaction, name: bytes, asked: str) -> Record:
    for record in transaction.about(name):
        if isinstance(record.entry, Impression):
            return record
    raise NotKnown(f"impression {asked!r} is not in the log", "it was compacted, erased, or never kept")


def _own_agreement(limits: Exploration, drawn: SampledList | None, own: Sequence[int]) -> bytes:
    """Return with which probabilities a list agrees with the caller's own order; nothing where it cannot be told."""
    if drawn is None or drawn.log_p is None:
        return b""
    return sampling.agreement(drawn.log_p, drawn.order, own, drawn.best, limits.share)


class Windows:
    """The feedback windows of each model: when its impressions were shown, and which windows are over.

    After a restart every window begins again: windows close late rather than early.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._made: dict[str, deque[tuple[float, int]]] = {}

    def note(self, model: str, position: int) -> None:
        """Note a durable impression of the model, at this position."""
        with self._lock:
            made, now = self._made.setdefault(model, deque()), self._clock()
            if made and now <= made[-1][0]:
                made[-1] = (made[-1][0], max(position, made[-1][1]))
            else:
                made.append((now + GRAIN, position))

    def due(self, model: str, window: float) -> int | None:
        """Return the position up to which the model's windows are over; None: no window is."""
        with self._lock:
            over, found = self._clock() - window, None
            for end, position in self._made.get(model, ()):
                if end > over:
                    break
                found = position
            return found

    def forget(self, model: str, position: int) -> None:
        """Forget the impressions up to a position: their windows are closed."""
        with self._lock:
            made = self._made.get(model, deque())
            while made and made[0][1] <= position:
                made.popleft()


class Settling:
    """The last event of each impression whose events have not settled, by model.

    After a restart they are forgotten: such impressions are complete when their window closes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[str, dict[bytes, float]] = {}  # in the order of these times

    def note(self, model: str, impression: bytes) -> None:
        """Note a durable event of an impression; its time begins again."""
        with self._lock:
            last = self._last.setdefault(model, {})
            last.pop(impression, None)
            last[impression] = self._clock()

    def due(self, model: str, settle: float) -> dict[bytes, float]:
        """Return the impressions whose last event is so many seconds old, with its time."""
        with self._lock:
            over = self._clock() - settle
            return dict(takewhile(lambda each: each[1] <= over, self._last.get(model, {}).items()))

    def forget(self, model: str, settled: Mapping[bytes, float]) -> None:
        """Forget impressions whose events have settled, unless there was another one meanwhile."""
        with self._lock:
            last = self._last.get(model, {})
            for impression, at in settled.items():
                if last.get(impression) == at:
                    del last[impression]
