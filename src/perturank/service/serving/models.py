"""The models that a serving process holds, as the log has them (specs, versions, pins), and files of their versions."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from perturank.core import SMALLEST_BUCKET, Ranker
from perturank.errors import BadInput
from perturank.service import children
from perturank.service.log import Log, snapshots
from perturank.service.log.records import Changed, Deleted, Erased, Pinned, Record, Snapshot
from perturank.service.log.refusals import NotKnown, NotReady, retold
from perturank.service.log.snapshots import PublishedVersion
from perturank.service.log.spec import Spec
from perturank.service.serving.sampling import Flat, listed, padded_length
from perturank.service.telemetry.logger import logger

Program = tuple[str, int, bool, int]


@dataclass(frozen=True)
class Hosted:
    """One model as it is served."""

    name: str
    spec: Spec
    generation: int
    ranker: Ranker
    version: int = 0  # what is served; 0: it has learned nothing yet
    pinned: int | None = None
    published: dict[int, Snapshot] = field(default_factory=dict)  # served, pinned and the newest
    published_at: dict[int, int] = field(default_factory=dict)  # milliseconds since 1970
    fault: str | None = None

    @cached_property
    def flat(self) -> Flat:
        """The ranker as its lists need it."""
        return Flat.of(self.ranker, self.spec.places)


class Host:
    """Follows the log's rare entries; `refresh` is called often and mostly finds nothing."""

    def __init__(self, log: Log, most_documents: int) -> None:
        self._log = log
        self._models: dict[str, Hosted] = {}
        self._position = 0
        self._lock = threading.Lock()
        self._most = most_documents
        self._compiled: set[Program] = set()
        self.forget: Callable[[str], None] = lambda model: None  # drops a model's recent queries

    def refresh(self) -> None:
        """Take in what is new in the log."""
        with self._lock:
            touched = self._begin() if self._position == 0 else set()
            for record in self._log.rare(self._position):
                self._take(record)
                self._position = record.position
                touched.add(record.model)
            for name in touched & self._models.keys():
                before = self._models[name]
                self._models[name] = after = _with_version(self._log, before)
                if after.fault is not None and after.fault != before.fault:
                    logger.error("%s", after.fault)

    def _begin(self) -> set[str]:
        """Take in the log as it stands; of the versions, of which there may be millions, only the newest."""
        end = self._log.tail()
        for record in self._log.rare(kinds=(Changed, Deleted, Pinned)):
            if record.position <= end:
                self._take(record)
        for name in self._models:
            for each in reversed(snapshots.newest(self._log, name, snapshots.KEPT, end)):
                self._models[name] = _with(self._models[name], each)
        self._position = end
        return set(self._models)

    def _take(self, record: Record) -> None:
        held = self._models.get(record.model)
        match record.entry:
            case Changed(generation=generation, spec=spec):
                if held is not None and generation == held.generation:
                    self._models[record.model] = replace(held, spec=spec)
                else:
                    self._models[record.model] = Hosted(record.model, spec, record.position, spec.start())
            case Deleted():
                self._models.pop(record.model, None)
                self.forget(record.model)
            case Erased():
                self.forget(record.model)  # nobody remembers whose queries they were
            case Snapshot() as snapshot if held is not None:
                self._models[record.model] = _with(held, PublishedVersion(record.position, record.at, snapshot))
            case Pinned(version=version) if held is not None:
                self._models[record.model] = replace(held, pinned=version)

    def __contains__(self, name: str) -> bool:
        return name in self._models

    def get(self, name: str) -> Hosted:
        """Return a model; an unknown one is refused."""
        held = self._models.get(name)
        if held is None:
            raise NotKnown(f"there is no model {name!r}", f"make it: PUT /v1/models/{name}")
        return held

    def all(self) -> list[Hosted]:
        """Return the models in the order of their names."""
        models = self._models.copy()  # at once: another thread may take one out meanwhile
        return [models[name] for name in sorted(models)]

    def lengths(self, spec: Spec) -> list[int]:
        """Return the padded lengths that requests may have."""
        most = padded_length(self._most, spec.places)
        first = padded_length(1, spec.places)
        return [SMALLEST_BUCKET << i for i in range(24) if first <= SMALLEST_BUCKET << i <= most]

    def uncompiled(self) -> Iterable[tuple[Hosted, int]]:
        """Yield what is still to be compiled: shortest lists first."""
        todo = [(length, held) for held in self.all() for length in self.lengths(held.spec)]
        for length, held in sorted(todo, key=lambda each: each[0]):
            if not self.is_compiled(held, length):
                yield held, length

    def is_compiled(self, held: Hosted, length: int) -> bool:
        """Return whether a list of this padded length is answered at once."""
        return program(held, length) in self._compiled

    def note_compiled(self, held: Hosted, length: int) -> None:
        """Note that a list of this padded length has been drawn."""
        self._compiled.add(program(held, length))

    def prepare(self, name: str, spec: Spec, lengths: Iterable[int]) -> None:
        """Compile these lengths for a model that goes on learning under another spec, before that is served."""
        held = self._models.get(name)
        if held is None or not spec.learns_like(held.spec):
            return
        coming = replace(held, spec=spec)
        for length in sorted(lengths):
            if self.is_compiled(held, length) and not self.is_compiled(coming, length):
                self.compile(coming, length)

    def compile(self, held: Hosted, length: int) -> None:
        """Rank nothing in particular, so that the next list of this length does not wait."""
        listed(held.flat, held.spec, np.zeros((length, held.spec.n_features), np.float32), None, held.spec.places)
        self.note_compiled(held, length)


def program(held: Hosted, length: int) -> Program:
    """Return what decides which program draws a model's lists of this padded length: limits are compiled into it."""
    return held.name, held.generation, held.spec.is_limited, length


def _with(held: Hosted, new: PublishedVersion) -> Hosted:
    """Return the model with one more version of its generation, oldest first; of the others the newest are held."""
    if new.snapshot.generation != held.generation:
        return held
    published = held.published | {new.snapshot.version: new.snapshot}
    published_at = held.published_at | {new.snapshot.version: new.at}
    newest = sorted(published)[-snapshots.KEPT :]
    kept = [version for version in sorted(published) if version in {*newest, held.version, held.pinned}]
    return replace(
        held,
        published={version: published[version] for version in kept},
        published_at={version: published_at[version] for version in kept},
    )


def _with_version(log: Log, held: Hosted) -> Hosted:
    """Return the model with the version that should be served; a damaged one gives way to the one before it."""
    if held.pinned is not None and held.pinned not in held.published:
        found = snapshots.found(log, held.name, held.pinned)
        held = held if found is None else _with(held, found)
    newest = sorted(held.published, reverse=True)
    wanted = [held.pinned] if held.pinned in held.published else newest
    fault = None
    for version in [v for v in [*wanted, *newest] if v is not None]:
        if version == held.version:
            return replace(held, fault=fault)
        try:
            return replace(held, ranker=_loaded(log, held, version), version=version, fault=fault)
        except BadInput as error:
            fault = fault or str(error)
    return replace(held, ranker=held.spec.start(), version=0, fault=fault) if fault else held


def _loaded(log: Log, held: Hosted, version: int) -> Ranker:
    name = snapshots.version_name(held.name, version)
    content = log.stored(name)
    if content is None:
        raise BadInput(f"version {version} of {held.name!r} is not stored any more", "pin a newer one")
    if snapshots.sum_of(content) != held.published[version].sum:
        raise BadInput(f"version {version} of {held.name!r} is damaged", "the one before it serves")
    return snapshots.ranker_of(content, name, held.spec)[0]


class VersionFiles:
    """Versions with their history as files, each rebuilt by a child process until it is time to stop.

    One is made at a time, so that neither memory nor threads run out.
    """

    def __init__(self, log: str, stopping: threading.Event) -> None:
        self._log, self._stopping = log, stopping
        self._lock = threading.Lock()

    def make(self, model: str, version: int) -> bytes:
        """Return the file of a version with all that learning needs."""
        if not self._lock.acquire(blocking=False):
            raise NotReady("the file of a model is being made", "ask again when that is done")
        try:
            return self._rebuild(f"--model={model}", f"--version={version}")
        finally:
            self._lock.release()

    def _rebuild(self, *which: str) -> bytes:
        """Return what `perturank replay` writes to a pipe, so that no file is left behind; raise what it refuses."""
        try:
            child = children.start("replay", *which, "--out=-", log=self._log, pipes=subprocess.PIPE)
        except OSError as error:  # too many files or processes, too little memory: it may pass
            raise _failure(f"no process can be started ({error})") from None
        written = children.output(child, self._stopping)
        if written is None:
            raise NotReady("the service is about to stop", "ask again when it is back")
        content, errors = written
        if child.returncode == children.REFUSED:
            raise retold(**json.loads(content))
        if child.returncode != 0:
            raise _failure(f"its process ended with code {child.returncode}\n{errors.decode(errors='replace')}".strip())
        return content


def _failure(why: str) -> NotReady:
    """Return the refusal of a file that could not be made; the reason is for those who run the service."""
    logger.error("a model's file could not be made: %s", why)
    return NotReady("the model's file could not be made", "the log line with this id says why; ask again")
