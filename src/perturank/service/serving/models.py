"""The models that a serving process has loaded, their recent queries, and files of their versions."""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from perturank.core import SMALLEST_BUCKET, Ranker
from perturank.errors import BadInput
from perturank.service import children
from perturank.service.log import Log, snapshots
from perturank.service.log.erasure import check_not_unlearning
from perturank.service.log.live_tests import PREFIX
from perturank.service.log.records import (
    Batch,
    Changed,
    Compacted,
    Deleted,
    Drifted,
    Erased,
    LiveTestChanged,
    LiveTestStopped,
    Pinned,
    Record,
    RolledBack,
    Snapshot,
)
from perturank.service.log.refusals import NotKnown, NotReady, retold
from perturank.service.log.snapshots import PublishedVersion
from perturank.service.log.spec import Spec
from perturank.service.serving.sampling import ListProgram, padded_length, sample_list
from perturank.service.telemetry.logger import logger
from perturank.wire.live_tests import LiveTest
from perturank.wire.specification import OnDrift

MOST_QUERIES = 25  # remembered of one model
SECONDS_REMEMBERED = 3600.0
MOST_QUERY_BYTES = 4_000_000  # of their features

ProgramKey = tuple[tuple[object, ...], bool, int]


class BegunAnew(NamedTuple):
    """When a model began to learn anew, and what it had learned before."""

    at: int  # milliseconds since 1970
    generation: int  # the one before
    version: int
    learned: int


class LentVersion(NamedTuple):
    """A pinned version of an earlier generation, and the spec with which it draws lists for the present one."""

    published: PublishedVersion
    spec: Spec  # of then, with the places and limits of now

    def following(self, spec: Spec) -> LentVersion:
        """Return the version as it serves a model that has this spec now."""
        limits = {"places": spec.places, "exploration": spec.exploration}
        return self._replace(spec=msgspec.structs.replace(self.spec, **limits))


class Unlearning(NamedTuple):
    """A request to unlearn a source that is not carried out yet: its position, and what was learned anew since."""

    position: int
    learned: int  # impressions


class Drift(NamedTuple):
    """When a model's lists were found to please people less than before, and by how much."""

    at: int  # milliseconds since 1970
    lists: int
    before: float
    after: float
    reaction: OnDrift


@dataclass(frozen=True)
class LoadedModel:
    """One model as it is served."""

    name: str
    spec: Spec
    generation: int
    learned: Ranker | None = None  # None: nothing is learned yet
    version: int = 0  # the served version
    pinned: int | None = None
    published: dict[int, Snapshot] = field(default_factory=dict)  # served, pinned and the newest
    published_at: dict[int, int] = field(default_factory=dict)  # milliseconds since 1970
    fault: str | None = None
    begun_anew: BegunAnew | None = None
    drift: Drift | None = None  # the last one
    changed: int = 0  # position of the record with this spec
    unlearning: Unlearning | None = None
    lent: LentVersion | None = None  # it is served, and is none of `published`

    @property
    def drawing(self) -> Spec:
        """The spec of the served version, with which it draws lists."""
        return self.spec if self.lent is None else self.lent.spec

    @property
    def served_at(self) -> int | None:
        """When the served version was published, in milliseconds since 1970; None: it is not known, or none is."""
        return self.published_at.get(self.version) if self.lent is None else self.lent.published.at

    @property
    def n_learned(self) -> int:
        """How many impressions the served version has learned."""
        served = self.published.get(self.version) if self.lent is None else self.lent.published.snapshot
        return 0 if served is None else served.learned

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """What decides which programs it needs; models of one kind share them."""
        return self.drawing.kind

    @cached_property
    def is_limited(self) -> bool:
        """Whether its spec limits exploration."""
        return self.spec.is_limited

    @cached_property
    def ranker(self) -> Ranker:
        """The served ranker; one that has learned nothing is made here, which may compile a program."""
        return self.spec.start() if self.learned is None else self.learned

    @cached_property
    def program(self) -> ListProgram:
        """The program that draws its lists."""
        return ListProgram.of(self.ranker, self.drawing)


class LoadedTest(NamedTuple):
    """One live test as it is served."""

    name: str
    spec: LiveTest
    since: int  # position of the record with this spec
    running: bool


class RecentQuery(NamedTuple):
    """A query as it was ranked, with its scaled features."""

    number: int
    at: int  # milliseconds since 1970
    query: str | None
    ids: list[str]
    features: np.ndarray
    prior: np.ndarray | None


class RecentQueries:
    """A sample of each model's queries of the last hour, for the inspector, and the newest one.

    Of n queries in an hour each is kept with about the same probability, so that one that is looked at stays.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._random = clock, random.Random()
        self._queries: dict[str, list[tuple[float, RecentQuery]]] = {}
        self._newest: dict[str, RecentQuery] = {}
        self._counts: dict[str, tuple[float, float]] = {}  # queries of about the last hour, and when it was counted
        self._numbers = itertools.count(1)

    def note(
        self, model: str, query: str | None, ids: list[str], features: np.ndarray, prior: np.ndarray | None
    ) -> None:
        """Remember a query, unless its features alone exceed the limit."""
        if features.nbytes > MOST_QUERY_BYTES:
            return
        asked = RecentQuery(next(self._numbers), time.time_ns() // 1_000_000, query, ids, features, prior)
        now, (n, at) = self._clock(), self._counts.get(model, (0.0, 0.0))
        n = 1 + n * math.exp((at - now) / SECONDS_REMEMBERED)
        self._newest[model], self._counts[model] = asked, (n, now)
        kept = [each for each in self._queries.get(model, ()) if now - each[0] < SECONDS_REMEMBERED]
        if len(kept) >= MOST_QUERIES:
            if self._random.random() * n >= MOST_QUERIES:
                return
            del kept[self._random.randrange(len(kept))]
        kept.append((now, asked))
        while sum(each.features.nbytes for _, each in kept) > MOST_QUERY_BYTES:
            del kept[0]
        self._queries[model] = kept

    def newest(self, model: str) -> RecentQuery | None:
        """Return the model's last query; None: there was none."""
        return self._newest.get(model)

    def of(self, model: str) -> list[RecentQuery]:
        """Return the model's queries, newest first."""
        return [each for _, each in self._queries.get(model, ())][::-1]

    def get(self, model: str, number: int) -> RecentQuery:
        """Return the query of this number."""
        for each in self.of(model):
            if each.number == number:
                return each
        raise NotKnown(f"query {number} is not remembered any more", "pick a newer one, or send its documents")

    def forget(self, model: str) -> None:
        """Forget the queries of a model."""
        for kept in (self._queries, self._newest, self._counts):
            kept.pop(model, None)


class LoadedModels:
    """All models, as the log's control records describe them; `refresh` is called often and mostly finds nothing."""

    def __init__(self, log: Log, most_documents: int) -> None:
        self._log = log
        self._models: dict[str, LoadedModel] = {}
        self._position = 0
        self._lock = threading.Lock()
        self._most = most_documents
        self._compiled: set[ProgramKey] = set()
        self._unread: set[str] = set()  # models whose version is read when the first request asks for it
        self._wanted: set[ProgramKey] = set()
        self.recent = RecentQueries()
        self.tests: dict[str, LoadedTest] = {}

    def refresh(self) -> None:
        """Apply the new records of the log."""
        with self._lock:
            if self._position == 0:
                self._load()
            changed = set[str]()
            for record in self._log.control_records(self._position):
                self._apply(record)
                self._position = record.position
                changed.add(record.model)
            for name in changed & self._models.keys():
                if name in self._unread:
                    self._models[name] = _expect_version(self._models[name])
                else:
                    self._read_version(name)

    def _read_version(self, name: str) -> None:
        """Read the version that a model should serve."""
        before = self._models[name]
        self._models[name] = after = _choose_version(self._log, before)
        if after.fault is not None and after.fault != before.fault:
            logger.error("%s", after.fault)

    def _load(self) -> None:
        """Apply the log as it stands; of the versions, which may be millions, only the newest."""
        end = self._log.tail()
        kinds = (Changed, Deleted, Pinned, RolledBack, Erased, Compacted, LiveTestChanged, LiveTestStopped, Drifted)
        for record in self._log.control_records(kinds=kinds):
            if record.position <= end:
                self._apply(record)
        for name, loaded in self._models.items():
            if loaded.unlearning is not None:
                for record in self._log.all_of(name, Batch, loaded.unlearning.position):
                    if record.position <= end:
                        self._apply(record)
            for each in reversed(snapshots.newest(self._log, name, snapshots.KEPT, end)):
                self._models[name] = _add_version(self._models[name], each)
            self._models[name] = _expect_version(self._models[name])
        self._position, self._unread = end, set(self._models)

    def _apply(self, record: Record) -> None:
        loaded = self._models.get(record.model)
        match record.entry:
            case Changed(generation=generation, spec=spec):
                if loaded is not None and generation == loaded.generation:
                    self._models[record.model] = replace(_with_spec(loaded, spec), changed=record.position)
                else:
                    anew = None if loaded is None or generation else self._begun_anew(record)
                    start = LoadedModel(record.model, spec, generation or record.position)
                    unlearning = None if loaded is None else loaded.unlearning
                    self._models[record.model] = replace(
                        start, begun_anew=anew, changed=record.position, unlearning=unlearning
                    )
                if loaded is not None and spec.layout != loaded.spec.layout:
                    self.recent.forget(record.model)  # features are kept as they came
            case RolledBack(version=version, generation=generation) if loaded is not None and generation:
                restored = snapshots.found(self._log, record.model, version)  # served until the learner has published
                if restored is not None and restored.snapshot.generation == loaded.generation:
                    self._models[record.model] = _add_version(loaded, restored)
            case Deleted():
                self._models.pop(record.model, None)
                self.recent.forget(record.model)
            case Erased(unlearn=unlearn):
                self.recent.forget(record.model)  # queries are kept without their source
                if loaded is not None and unlearn:
                    self._models[record.model] = replace(loaded, unlearning=Unlearning(record.position, 0))
            case Batch(n=n) if loaded is not None and loaded.unlearning is not None:
                now = loaded.unlearning._replace(learned=loaded.unlearning.learned + n)
                self._models[record.model] = replace(loaded, unlearning=now)
            case Compacted(at=at) if loaded is not None and loaded.unlearning is not None:
                if at >= loaded.unlearning.position:
                    self._models[record.model] = replace(loaded, unlearning=None)
            case Snapshot() as snapshot if loaded is not None:
                self._models[record.model] = _add_version(
                    loaded, PublishedVersion(record.position, record.at, snapshot)
                )
            case Drifted(lists=lists, before=before, after=after, reaction=reaction) if loaded is not None:
                found = Drift(record.at, lists, before, after, reaction)
                self._models[record.model] = replace(loaded, drift=found)
            case Pinned(version=version) if loaded is not None:
                self._models[record.model] = replace(loaded, pinned=version)
            case LiveTestChanged(spec=test):
                name = record.model.removeprefix(PREFIX)
                self.tests[name] = LoadedTest(name, test, record.position, running=True)
            case LiveTestStopped():
                name = record.model.removeprefix(PREFIX)
                self.tests[name] = self.tests[name]._replace(running=False)

    def _begun_anew(self, record: Record) -> BegunAnew | None:
        """Return what is to be told of a model whose learning begins anew with this record, if it had learned."""
        before = next(iter(snapshots.newest(self._log, record.model, 1, record.position)), None)
        loaded = self._models[record.model]
        if before is None or before.snapshot.generation != loaded.generation:
            return loaded.begun_anew
        return BegunAnew(record.at, loaded.generation, before.snapshot.version, before.snapshot.learned)

    def __contains__(self, name: str) -> bool:
        return name in self._models

    def get(self, name: str) -> LoadedModel:
        """Return a model; refuse an unknown name."""
        if name in self._unread:
            with self._lock:
                if name in self._unread and name in self._models:
                    self._models[name] = replace(self._models[name], version=0)
                    self._read_version(name)
                self._unread.discard(name)
        loaded = self._models.get(name)
        if loaded is None:
            raise NotKnown(f"there is no model {name!r}", f"create it: PUT /v1/models/{name}")
        return loaded

    def at_version(self, loaded: LoadedModel, version: int) -> LoadedModel:
        """Return the model as it was at a version, if that is still stored, else as it is."""
        if version == loaded.version:
            return loaded
        try:
            learned = _load_ranker(self._log, loaded, version) if version in loaded.published else None
        except BadInput:
            return loaded
        as_then = replace(loaded, learned=learned, version=version, lent=None)
        return loaded if learned is None and version else as_then

    def with_version(self, loaded: LoadedModel, version: int) -> LoadedModel:
        """Return the model as it is at a version of its generation; refuse one that is not stored."""
        if version == loaded.version:
            return loaded
        check_not_unlearning(self._log, loaded.name)
        if version not in loaded.published:
            found = snapshots.found(self._log, loaded.name, version)
            loaded = loaded if found is None else _add_version(replace(loaded, version=version), found)
        if version not in loaded.published:
            raise NotKnown(f"model {loaded.name!r} has no version {version} of this generation", "list its versions")
        return replace(loaded, learned=_load_ranker(self._log, loaded, version), version=version, lent=None)

    def all(self) -> list[LoadedModel]:
        """Return the models in the order of their names; `get` reads the ranker of one that nobody has asked for."""
        models = self._models.copy()  # at once: another thread may delete one meanwhile
        return [models[name] for name in sorted(models)]

    def lengths(self, spec: Spec) -> list[int]:
        """Return the padded lengths that requests may have."""
        most = padded_length(self._most, spec.places)
        first = padded_length(1, spec.places)
        return [SMALLEST_BUCKET << i for i in range(24) if first <= SMALLEST_BUCKET << i <= most]

    def uncompiled(self, *, only_wanted: bool = False) -> Iterable[tuple[LoadedModel, int]]:
        """Yield the models and padded lengths that are still to be compiled: the wanted ones, then the shortest."""
        kinds = {(loaded.kind, loaded.is_limited): loaded for loaded in reversed(self.all())}
        every = [(loaded, length) for loaded in reversed(kinds.values()) for length in self.lengths(loaded.spec)]
        todo = [(program_key(*each) not in self._wanted, each) for each in every if not self.is_compiled(*each)]
        for is_unwanted, each in sorted(todo, key=lambda one: (one[0], one[1][1])):
            if not (is_unwanted and only_wanted):
                yield each

    def want(self, loaded: LoadedModel, length: int) -> None:
        """Let this padded length be compiled before others: a list of it was asked for."""
        self._wanted.add(program_key(loaded, length))

    def is_compiled(self, loaded: LoadedModel, length: int) -> bool:
        """Return whether a list of this padded length is answered at once."""
        return program_key(loaded, length) in self._compiled

    def note_compiled(self, loaded: LoadedModel, length: int) -> None:
        """Note that a list of this padded length has been drawn."""
        self._compiled.add(program_key(loaded, length))
        self._wanted.discard(program_key(loaded, length))

    def prepare(self, name: str, spec: Spec, lengths: Iterable[int]) -> None:
        """Compile these lengths before a new spec is served under which the model keeps what it has learned."""
        loaded = self._models.get(name)
        if loaded is None:
            return
        spec, why = spec.follow(loaded.spec)
        if why:
            return
        coming = _with_spec(loaded, spec)
        for length in sorted(lengths):
            if self.is_compiled(loaded, length) and not self.is_compiled(coming, length):
                self.compile(coming, length)

    def compile(self, loaded: LoadedModel, length: int) -> None:
        """Draw a list of this padded length from zeros, so that the next one need not wait for the compiler."""
        sample_list(loaded.program, np.zeros((length, loaded.spec.n_features), np.float32), None, loaded.spec.places)
        self.note_compiled(loaded, length)


def program_key(loaded: LoadedModel, length: int) -> ProgramKey:
    """Return what decides which program draws a model's lists of this padded length: limits are compiled into it."""
    return loaded.kind, loaded.is_limited, length


def _with_spec(loaded: LoadedModel, spec: Spec) -> LoadedModel:
    """Return the model with a new spec of the same generation."""
    if loaded.lent is not None:
        return replace(loaded, spec=spec, lent=loaded.lent.following(spec))
    return replace(loaded, spec=spec, learned=loaded.learned and spec.adapt(loaded.learned))


def _add_version(loaded: LoadedModel, new: PublishedVersion) -> LoadedModel:
    """Return the model with one more version of its generation, oldest first; of the others, the newest are kept."""
    if new.snapshot.generation != loaded.generation:
        return loaded
    published = loaded.published | {new.snapshot.version: new.snapshot}
    published_at = loaded.published_at | {new.snapshot.version: new.at}
    newest = sorted(published)[-snapshots.KEPT :]
    kept = [version for version in sorted(published) if version in {*newest, loaded.version, loaded.pinned}]
    return replace(
        loaded,
        published={version: published[version] for version in kept},
        published_at={version: published_at[version] for version in kept},
    )


def _expect_version(loaded: LoadedModel) -> LoadedModel:
    """Return the model with the number of the version that it serves, unless that is damaged."""
    return replace(loaded, version=loaded.pinned or max(loaded.published, default=0))


def _choose_version(log: Log, loaded: LoadedModel) -> LoadedModel:
    """Return the model with the version that should be served; a damaged version is replaced by the one before it."""
    fault = None
    if loaded.lent is not None and loaded.version == loaded.pinned:
        return loaded
    if loaded.lent is not None:
        loaded = replace(loaded, lent=None, learned=None, version=0)
    if loaded.pinned is not None and loaded.pinned not in loaded.published:
        found = snapshots.found(log, loaded.name, loaded.pinned)
        if found is not None and found.snapshot.generation != loaded.generation:
            try:
                return _lend(log, loaded, found)
            except BadInput as error:
                fault = str(error)
        elif found is not None:
            loaded = _add_version(loaded, found)
    newest = sorted(loaded.published, reverse=True)
    wanted = [loaded.pinned] if loaded.pinned in loaded.published else newest
    for version in [v for v in [*wanted, *newest] if v is not None]:
        if version == loaded.version:
            return replace(loaded, fault=fault)
        try:
            return replace(loaded, learned=_load_ranker(log, loaded, version), version=version, fault=fault)
        except BadInput as error:
            fault = fault or str(error)
    return replace(loaded, learned=None, version=0, fault=fault) if fault else loaded


def _lend(log: Log, loaded: LoadedModel, found: PublishedVersion) -> LoadedModel:
    """Return the model with a version of an earlier generation, which reads its features with its own schema."""
    spec = snapshots.spec_at(log, loaded.name, found.position)
    ranker = _stored_ranker(log, loaded.name, found.snapshot, spec)
    lent = LentVersion(found, spec).following(loaded.spec)
    return replace(loaded, learned=ranker, version=found.snapshot.version, lent=lent, fault=None)


def _load_ranker(log: Log, loaded: LoadedModel, version: int) -> Ranker:
    return _stored_ranker(log, loaded.name, loaded.published[version], loaded.spec)


def _stored_ranker(log: Log, model: str, snapshot: Snapshot, spec: Spec) -> Ranker:
    """Return the ranker of a version; refuse one that is damaged or not stored."""
    name = snapshots.version_name(model, snapshot.version)
    content = log.stored(name)
    if content is None:
        raise BadInput(f"version {snapshot.version} of {model!r} is not stored any more", "pin a newer one")
    if snapshots.checksum(content) != snapshot.checksum:
        raise BadInput(f"version {snapshot.version} of {model!r} is damaged", "the one before it serves")
    return snapshots.ranker_of(content, name, spec)[0]


class VersionFiles:
    """Rebuilds versions with their history as files, each in a child process that ends when the service stops.

    It makes one file at a time, to bound memory and threads.
    """

    def __init__(self, log: str, stopping: threading.Event) -> None:
        self._log, self._stopping = log, stopping
        self._lock = threading.Lock()

    def make(self, model: str, version: int) -> bytes:
        """Return the file of a version with all that learning needs."""
        if not self._lock.acquire(blocking=False):
            raise NotReady("the file of a model is being made", "ask again when that is done")
        try:
            words = ("replay", f"--model={model}", f"--version={version}", "--out=-")
            return child_output(words, "the model's file", self._log, self._stopping)
        finally:
            self._lock.release()


def child_output(words: Sequence[str], what: str, log: str, stopping: threading.Event) -> bytes:
    """Return what a command of perturank, in a child process, writes to a pipe; raise its refusal."""
    try:
        child = children.start(*words, log=log, pipes=subprocess.PIPE)
    except OSError as error:  # too many files or processes, or too little memory: it may pass
        raise _log_failure(what, f"no process can be started ({error})") from None
    written = children.output(child, stopping)
    if written is None:
        raise NotReady("the service is about to stop", "ask again when it is back")
    content, errors = written
    if child.returncode == children.REFUSED:
        raise retold(**json.loads(content))
    if child.returncode != 0:
        why = f"its process ended with code {child.returncode}\n{errors.decode(errors='replace')}".strip()
        raise _log_failure(what, why)
    return content


def _log_failure(what: str, why: str) -> NotReady:
    """Log why something could not be made, and return the refusal without the reason."""
    logger.error("%s could not be made: %s", what, why)
    return NotReady(f"{what} could not be made", "the log line with this id says why; ask again")
