"""Changes of models, written to the log: create, change, delete, pin, roll back, import, erase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from perturank import storage
from perturank.catalogue import rankers
from perturank.core import KeepsLimits, Ranker
from perturank.errors import BadInput
from perturank.parts import soundness
from perturank.parts.standardised import Standardised
from perturank.service.log import Log, Transaction, snapshots
from perturank.service.log.erasure import check_not_unlearning, requests_to_unlearn
from perturank.service.log.generations import generations, spans
from perturank.service.log.records import Changed, Compacted, Deleted, Erased, Imported, Pinned, RolledBack, Snapshot
from perturank.service.log.refusals import BeginsAnew, Contradiction, NotKnown, NotReady, Refused
from perturank.service.log.snapshots import PublishedVersion
from perturank.service.log.spec import Spec


def put(transaction: Transaction, model: str, spec: Spec, *, only_new: bool = False, begin_anew: bool = False) -> bool:
    """Create or change a model; return whether its learning begins anew. An equal spec changes nothing.

    Unless it may `begin_anew`, a change under which what was learned cannot be kept is refused.
    """
    existing = transaction.find_model(model)
    if existing is not None and only_new:
        return False
    spec, why = spec.follow(None if existing is None else existing.spec)
    if existing is not None and existing.spec.complete() == spec:
        return False
    if existing is not None and why and not begin_anew:
        raise _would_begin_anew(transaction, model, existing.generation, why)
    generation = 0 if existing is None or why else existing.generation
    if existing is not None and generation == 0:
        _unpin(transaction, model)
    elif existing is not None and existing.spec.reading != spec.reading:
        _check_not_lent(transaction, model)
    transaction.append(model, Changed(generation, spec))
    return generation == 0


def _unpin(transaction: Transaction, model: str) -> None:
    """End a pin: it does not outlast the generation in which it was made."""
    newest = transaction.newest(model, Pinned)
    if newest is not None and newest.entry != Pinned(None):
        transaction.append(model, Pinned(None))


def _check_not_lent(transaction: Transaction, model: str) -> None:
    """Refuse other features while a version of an earlier generation is pinned: it could not read them."""
    newest = transaction.newest(model, Pinned)
    if newest is not None and isinstance(newest.entry, Pinned) and newest.entry.generation:
        pinned = newest.entry
        what = f"version {pinned.version} of generation {pinned.generation} is pinned, and reads the features of now"
        raise Contradiction(what, f"unpin it before you change them: DELETE /v1/models/{model}/pin")


def _would_begin_anew(transaction: Transaction, model: str, generation: int, why: str) -> BeginsAnew:
    newest = transaction.newest(model, Snapshot)
    lost, then = "nothing was learned yet", "nothing is lost"
    if newest is not None and isinstance(newest.entry, Snapshot) and newest.entry.generation == generation:
        lost = f"version {newest.entry.version} has learned {newest.entry.learned} impressions"
        then = f"generation {generation} can be restored until the log is compacted past it"
    remedy = f"leave that as it is, or send ?begin_anew=true: {then}"
    return BeginsAnew(f"model {model!r} would begin to learn anew: {why}; {lost}", remedy)


def restore(log: Log, transaction: Transaction, model: str, generation: int) -> None:
    """Let learning continue from the last version of an earlier generation, under its spec."""
    transaction.require_model(model)
    check_not_unlearning(log, model)
    found = next((each for each in generations(log, model) if each.generation == generation), None)
    if found is None:
        raise NotKnown(f"model {model!r} has no generation {generation}", "list its generations")
    if found.refusal or found.last is None:
        raise Contradiction(f"generation {generation} cannot be restored: {found.refusal}", "list the generations")
    last = found.last.snapshot
    _unpin(transaction, model)
    transaction.append(model, Changed(generation, found.spec))
    transaction.append(model, RolledBack(last.version, generation, last.learned))


def delete(transaction: Transaction, model: str) -> None:
    """Delete a model and its stored bytes; its impressions stay until the log is compacted."""
    transaction.require_model(model)
    transaction.append(model, Deleted())
    transaction.counters.deleted.add(model)
    transaction.remove_all(f"{model}/")


def pin(log: Log, transaction: Transaction, model: str, version: int | None) -> None:
    """Serve this version even when newer ones are published; None: the newest again. A pinned version stays stored.

    It may be of an earlier generation that read documents as the present one does, which learns from its lists.
    """
    current, pinned = transaction.require_model(model), Pinned(version)
    if version is not None:
        check_not_unlearning(log, model)
        published = _find_version(log, model, version)
        if not log.names(snapshots.version_name(model, version)):
            raise NotKnown(f"version {version} of model {model!r} is no longer stored", "list its versions")
        if published.snapshot.generation != current.generation:
            _check_fits(snapshots.spec_at(log, model, published.position), current.spec, published, model)
            pinned = Pinned(version, published.snapshot.generation)
    newest = transaction.newest(model, Pinned)
    if newest is None or newest.entry != pinned:
        transaction.append(model, pinned)


def _check_fits(then: Spec, now: Spec, published: PublishedVersion, model: str) -> None:
    """Refuse a version of an earlier generation that cannot serve in the present one."""
    generation, why = published.snapshot.generation, _other_reading(then, now)
    if now.is_limited and not isinstance(then.start(), KeepsLimits):
        why = f"{then.ranker} cannot limit exploration"
    if now.needs_own_lists:
        why = f"{now.ranker}, which learns now, cannot learn from lists that it has not drawn itself"
    if why:
        what = f"version {published.snapshot.version} of generation {generation} cannot be pinned: {why}"
        raise Contradiction(what, _restore_first(model, generation))


def _other_reading(then: Spec, now: Spec) -> str:
    """Return why documents as they are read now mean nothing to a version of then; empty: they do."""
    if then.reading == now.reading:
        return ""
    if then.scaling != now.scaling:
        return f"its scaling is {then.scaling}, and {now.scaling} now"
    names = [", ".join(each.name for each in spec.features or ()) or f"{spec.n_features}" for spec in (then, now)]
    if names[0] != names[1]:
        return f"its features are {names[0]}, and {names[1]} now"
    return "its features have another shift, scale or `missing` value"


def _restore_first(model: str, generation: int) -> str:
    return f'restore that generation first: POST /v1/models/{model}/restore {{"generation": {generation}}}'


def roll_back(log: Log, transaction: Transaction, model: str, version: int) -> None:
    """Let learning continue from a version of this generation."""
    generation = transaction.require_model(model).generation
    check_not_unlearning(log, model)
    published = _find_version(log, model, version)
    other = published.snapshot.generation
    if other != generation:
        raise NotKnown(f"version {version} of model {model!r} is of generation {other}", _restore_first(model, other))
    base, whole = transaction.newest(model, Compacted), snapshots.whole_versions(log, model)
    if base is not None and isinstance(base.entry, Compacted) and version < base.entry.version and version not in whole:
        before = [each for each in whole if each < base.entry.version]
        earlier = sorted(each for each in before if _is_of(log, model, each, generation))
        others = f", and {', '.join(map(str, earlier))}" if earlier else ""
        since = f"versions from {base.entry.version} on can be rolled back to{others}"
        is_withdrawn = requests_to_unlearn(log, model, published.position)
        why = "was withdrawn: a source was unlearned since" if is_withdrawn else "lies before its base"
        raise NotKnown(f"version {version} of model {model!r} {why}", since)
    transaction.append(model, RolledBack(version))


def _find_version(log: Log, model: str, version: int) -> PublishedVersion:
    """Return a version of any generation; refuse one that does not exist."""
    published = snapshots.found(log, model, version)
    if published is None or published.snapshot.generation not in {span.generation for span in spans(log, model)}:
        raise NotKnown(f"model {model!r} has no version {version}", "list its versions")
    return published


def _is_of(log: Log, model: str, version: int, generation: int) -> bool:
    """Return whether there is such a version of this generation."""
    published = snapshots.found(log, model, version)
    return published is not None and published.snapshot.generation == generation


SCHEMA = {  # what a file's schema must share with a model's, in words
    "names": "the names of the features are",
    "strength": "prior_strength is",
    "columns": "features were added or dropped: their columns are",
    "width": "features were added or dropped: the columns in all are",
}
SAME_SCALES = "put it into a model whose features have the same shift and scale, or none where it has none"


class RankerFile(NamedTuple):
    """A ranker that `perturank.save` wrote, as it will be stored for a model of this spec."""

    spec: Spec
    blob: str
    content: bytes


def read_ranker_file(model: str, spec: Spec, content: bytes) -> RankerFile:
    """Return a file as it will be stored; refuse one of another kind than the model. Too slow for a transaction."""
    arrays, header = storage.unpacked(content, "the file")
    theirs = _name(header.get("ranker"), spec), _settings(header.get("settings"), spec), header.get("n_features")
    if theirs != _kind(spec)[:3]:
        remedy = f"make a model with its ranker, settings and n_features: {_differences(theirs, _kind(spec)[:3])}"
        raise Refused("the file holds another kind of ranker", remedy)
    _check_schema(header.get("schema"), arrays, spec)
    if header.get("history") is False:
        raise Refused("the file is without its history, from which it would learn on", "get it with ?history=true")
    ranker = storage.filled(spec.start(), arrays, "the file")
    _check_arrays(ranker, spec)
    return RankerFile(spec, f"{model}/imported/{snapshots.checksum(content).hex()}", snapshots.state_bytes(ranker))


def import_ranker(log: Log, transaction: Transaction, model: str, file: RankerFile) -> None:
    """Let learning continue from the ranker of a file."""
    spec = transaction.require_model(model).spec
    check_not_unlearning(log, model)
    if _kind(spec) != _kind(file.spec):
        raise NotReady(f"model {model!r} was changed while the file was read", "send it again if it still fits")
    transaction.store(file.blob, file.content)
    transaction.append(model, Imported(file.blob))


def _kind(spec: Spec) -> tuple[str, Any, int, Any]:
    """Return what a file must share with a model: ranker, settings, number of features, and the schema."""
    schema = spec.scaling, spec.prior_strength, spec.features, spec.columns, spec.width
    return spec.ranker, spec.chosen_settings().as_dict(), spec.n_features, schema


def _check_schema(schema: Any, arrays: Mapping[str, np.ndarray], spec: Spec) -> None:
    """Refuse a ranker of other features, or of features in another scale, than the model's."""
    start = spec.start()
    if not isinstance(start, Standardised):
        if schema is not None:
            remedy = "put it into a model whose scaling is auto, or save the ranker inside it"
            raise Refused("the file's ranker scales its features, and the model's scaling is none", remedy)
        return
    if schema is None:
        remedy = "put it into a model whose scaling is none, or save it behind a scale (`standardised`)"
        raise Refused(f"the file has no schema, and the model's scaling is {spec.scaling}", remedy)
    mine: dict[str, Any] = storage.header_of(start)["schema"]
    for name, what in SCHEMA.items():
        if schema.get(name) != mine.get(name) and not (name == "names" and None in (schema.get(name), mine.get(name))):
            says = f"{what} {schema.get(name)} in the file and {mine.get(name)} here"
            raise Refused(f"the file's schema is another: {says}", "put it into a model of the same schema")
    fixed = np.asarray(start.fixed)
    for name in (".fixed", ".location", ".spread"):
        own, theirs = storage.arrays_of(start)[name], arrays.get(name)
        which = fixed if name != ".fixed" else np.ones_like(fixed)
        if theirs is None or theirs.shape != own.shape or not np.allclose(theirs[which], own[which], 1e-6, 0):
            raise Refused("the file's schema is another: its features have another shift or scale", SAME_SCALES)


def _name(ranker: Any, spec: Spec) -> Any:
    """Return a file's ranker by the model's name for it: a file has the nearest name of those for one class."""
    entry = rankers().get(ranker) if isinstance(ranker, str) else None
    return spec.ranker if entry is not None and entry.kind is rankers()[spec.ranker].kind else ranker


def _settings(settings: Any, spec: Spec) -> Any:
    """Return a file's settings, with those that are newer than the file where they are of the model's kind."""
    if not isinstance(settings, dict) or not settings:
        return settings
    try:
        return type(spec.chosen_settings()).recorded(settings).as_dict()
    except BadInput:
        return settings


def _differences(file: tuple[Any, Any, Any], model: tuple[Any, Any, Any]) -> str:
    """Return what a file and a model do not share, in words."""
    theirs, mine = (
        {"ranker": kind, "n_features": n, **(settings if isinstance(settings, dict) else {})}
        for kind, settings, n in (file, model)
    )
    names = [name for name in mine if theirs.get(name) != mine.get(name)]
    return ", ".join(f"{name} is {theirs.get(name)} in the file and {mine.get(name)} here" for name in names)


def _check_arrays(ranker: Ranker, spec: Spec) -> None:
    """Refuse arrays that no ranker of this spec has, and numbers with which it could never learn."""
    mine, growing = storage.arrays_of(spec.start()), soundness.growing(ranker)
    for name, array in storage.arrays_of(ranker).items():
        own, first = mine[name], int(name.startswith(growing))  # what grows may have any number of rows
        if array.dtype != own.dtype or array.ndim != own.ndim or array.shape[first:] != own.shape[first:]:
            raise Refused(f"the file's array {name} has shape {list(array.shape)}", "save it again")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Refused(f"the file's array {name} has values that are not finite", "save a ranker that is sound")
    fault = soundness.fault(ranker)
    if fault is not None:
        raise Refused(f"the file's array {fault.array} {fault.what}", "save a ranker that is sound")


def erase(transaction: Transaction, model: str, source: bytes, *, unlearn: bool = False) -> int:
    """Request that all records of a source (hashed) be deleted; return the position of the request."""
    return transaction.append(model, Erased(source, unlearn))


def last_version(transaction: Transaction, model: str) -> int:
    """Return the number of the newest version; 0: none."""
    newest = transaction.newest(model, Snapshot)
    return newest.entry.version if newest is not None and isinstance(newest.entry, Snapshot) else 0
