"""The service without HTTP: lists, feedback, models, and when feedback windows close."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import msgspec
import numpy as np

from perturank.core import KeepsLimits
from perturank.service.log import Log, Transaction, changes, counters, snapshots
from perturank.service.log.feedback import Status, close_windows, record_feedback
from perturank.service.log.group_commit import Committer
from perturank.service.log.records import (
    Changed,
    Impression,
    Record,
    new_id,
    packed,
    probability,
    sign_id,
    source_seal,
    verify_id,
)
from perturank.service.log.refusals import NotKnown, Refused
from perturank.service.log.spec import checked_spec
from perturank.service.serving import sampling
from perturank.service.serving.models import LoadedModel, LoadedModels, VersionFiles
from perturank.service.settings import ServeSettings
from perturank.wire.specification import Mode, SpecRequest

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
        self.windows = Windows()
        self.stopping = threading.Event()  # set when the process is to stop: streams and child processes then end
        self.reading, self._closed = threading.RLock(), False  # the lock keeps other threads from refreshing
        self._files = VersionFiles(log.url, self.stopping)
        self._tail = log.tail()
        self.refresh()
        for loaded in self.models.all():  # impressions of earlier processes
            self.windows.note(loaded.name, self._tail)

    def refresh(self) -> None:
        """Read what other processes wrote to the log."""
        with self.reading:
            if not self._closed:
                self.models.refresh()
                self._tail = self.log.tail()

    def close_windows(self) -> None:
        """Close the feedback windows that are over; an error with one model does not stop the others."""
        failures: list[Exception] = []
        for loaded in self.models.all():
            position = self.windows.due(loaded.name, loaded.spec.window)
            if position is not None:
                try:
                    self.committer.submit(_closing(loaded.name, position)).result()
                except Exception as failure:
                    failures.append(failure)  # the next call tries it again
                else:
                    self.windows.forget(loaded.name, position)
        if failures:
            raise failures[0]

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
    ) -> Future[ServedList]:
        """Return a future that resolves when the impression is durable; `draw` selects a reproducible random key.

        `fallback`: nothing is drawn, and the list is the caller's own order. `pages` came before this list, which
        has none of their documents.
        """
        top = loaded.spec.places if top is None else top
        own = _own(len(ids), prior, top)
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
        )
        name = new_id(self._tail)
        propensity = None if log_propensity is None else probability(log_propensity)
        impression = sign_id(name, loaded.name, self.log.secret)
        memo = [] if explores is None else explores.memo

        def write(transaction: Transaction) -> ServedList:
            transaction.require_model(loaded.name)  # it may have been deleted since the list was drawn
            # Packed in this thread, which mostly waits for the disk: the other one has requests to answer.
            content = packed(features[rows], None if prior is None else prior[rows], memo)
            transaction.counters.add(loaded.name, counters.list_amounts(entry, certain))
            written = msgspec.structs.replace(entry, packed=content)
            position = transaction.append(loaded.name, written, name)
            return ServedList(impression, entry.ids, certain, propensity, loaded.version, position, fallback)

        return self.committer.submit(write, then=lambda shown: self.windows.note(loaded.name, shown.position))

    def feedback(self, model: str, impression: str, clicks: Sequence[str], final: bool) -> Future[Status]:
        """Return a future that resolves to the effect of the feedback when it is durable."""
        name = verify_id(impression, model, self.log.secret)

        def write(transaction: Transaction) -> Status:
            transaction.require_model(model)
            return record_feedback(transaction, model, name, clicks, final)

        return self.committer.submit(write, name)

    def shown(self, model: str, impression: str) -> Future[Record]:
        """Return the record of a list; refuse one that is not in the log."""
        name = verify_id(impression, model, self.log.secret)

        return self.committer.submit(lambda transaction: _find_impression(transaction, name, impression), name)

    def pages(self, model: str, impression: str) -> Future[Pages]:
        """Return the pages of a list up to this one; refuse one that is not in the log."""
        name = verify_id(impression, model, self.log.secret)

        def find(transaction: Transaction) -> Pages:
            last = _find_impression(transaction, name, impression).entry
            assert isinstance(last, Impression)
            earlier = [_find_impression(transaction, each, impression).entry for each in last.earlier]
            shown = [entry.ids for entry in (*earlier, last) if isinstance(entry, Impression)]
            return Pages([*last.earlier, name], frozenset().union(*shown), last)

        return self.committer.submit(find, name)

    def always_explores(self, model: str, generation: int) -> bool:
        """Return whether the share of lists that explore has been 1 since this generation began."""
        changes = [record.entry for record in self.log.all_of(model, Changed, generation - 1)]
        return all(entry.spec.exploration.share == 1 for entry in changes if isinstance(entry, Changed))

    def put(self, model: str, request: SpecRequest, *, in_use: Iterable[int] = ()) -> bool:
        """Create or change a model; return whether its learning begins anew.

        `in_use`: numbers of documents in recent requests. Their programs are compiled before the change is written.
        """
        self.refresh()  # another process may have written it a moment ago
        checked = checked_spec(request, self.models.get(model).spec if model in self.models else None)
        start = checked.start()  # before it is in the log: a ranker that cannot be made must not get there
        if checked.is_limited and not isinstance(start, KeepsLimits):
            raise Refused(f"{checked.ranker} does not know the probability of its lists", "leave exploration unlimited")
        self.models.prepare(model, checked, {sampling.padded_length(n, checked.places) for n in in_use})
        anew = self.committer.submit(lambda transaction: changes.put(transaction, model, checked)).result()
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

    def import_file(self, model: str, content: bytes) -> None:
        """Let learning continue from a ranker that `perturank.save` wrote."""
        self.refresh()  # another process may have changed the model a moment ago
        file = changes.read_ranker_file(model, self.models.get(model).spec, content)
        self.committer.submit(lambda transaction: changes.import_ranker(transaction, model, file)).result()

    def erase(self, model: str, source: str) -> int:
        """Request that all records of a source be deleted; return the position of the request."""
        self.models.get(model)
        seal = source_seal(source, self.log.secret)
        position = self.committer.submit(lambda transaction: changes.erase(transaction, model, seal)).result()
        self.refresh()
        return position

    def file(self, model: str, *, history: bool = True) -> bytes:
        """Return the served version as a file that `perturank.load` reads; without its history it cannot learn more."""
        loaded = self.models.get(model)
        if history and loaded.version and snapshots.has_history(loaded.ranker):
            return self._files.make(model, loaded.version)
        return snapshots.file_bytes(loaded.ranker, model, loaded.version, history=history)

    def close(self) -> None:
        """Finish submitted writes and stop reading, so that the log can be closed."""
        self.committer.close()
        with self.reading:
            self._closed = True


def _closing(model: str, position: int) -> Callable[[Transaction], int | None]:
    return lambda transaction: close_windows(transaction, model, position)


def _find_impression(transaction: Transaction, name: bytes, asked: str) -> Record:
    for record in transaction.about(name):
        if isinstance(record.entry, Impression):
            return record
    raise NotKnown(f"impression {asked!r} is not in the log", "it was compacted, erased, or never kept")


def _own(n: int, prior: np.ndarray | None, top: int) -> list[int]:
    """Return the caller's own order: by its prior, or as the documents were sent."""
    order = list(range(n)) if prior is None else np.argsort(-prior, kind="stable").tolist()
    return order[:top]


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
