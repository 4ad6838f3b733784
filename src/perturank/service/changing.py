"""Changes of models, as actions on the log: made, changed, deleted, pinned, rolled back, imported."""

from __future__ import annotations

import msgspec

from perturank import storage
from perturank.core import Ranker
from perturank.service import snapshots
from perturank.service.entries import Changed, Compacted, Deleted, Erased, Imported, Pinned, RolledBack, Snapshot
from perturank.service.log import Transaction
from perturank.service.refusals import NotKnown, Refused
from perturank.service.spec import Spec


def current(transaction: Transaction, model: str) -> tuple[Spec, int] | None:
    """Return the model's spec and generation; None: there is no such model."""
    changed, deleted = transaction.newest(model, Changed), transaction.newest(model, Deleted)
    if changed is None or (deleted is not None and deleted.position > changed.position):
        return None
    assert isinstance(changed.entry, Changed)
    return changed.entry.spec, changed.entry.generation or changed.position


def put(transaction: Transaction, model: str, spec: Spec, *, only_new: bool = False) -> bool:
    """Make or change a model; return whether its learning begins anew. The same again changes nothing."""
    held = current(transaction, model)
    if held is not None and (only_new or held[0] == spec):
        return False
    keeps = held is not None and spec.learns_like(held[0])
    transaction.append(model, Changed(held[1] if held is not None and keeps else 0, spec))
    return not keeps


def delete(transaction: Transaction, model: str) -> None:
    """Delete a model with all that was stored for it; its impressions stay in the log until that is compacted."""
    _must_exist(transaction, model)
    transaction.append(model, Deleted())
    transaction.tally.forget(model)
    transaction.remove_all(f"{model}/")


def pin(transaction: Transaction, model: str, version: int | None, known: set[int]) -> None:
    """Serve this version whatever is learned; None: the newest again."""
    _must_exist(transaction, model)
    if version is not None and version not in known:
        raise NotKnown(f"model {model!r} has no stored version {version}", "list its versions")
    newest = transaction.newest(model, Pinned)
    if newest is None or newest.entry != Pinned(version):
        transaction.append(model, Pinned(version))


def roll_back(transaction: Transaction, model: str, version: int, published: set[int]) -> None:
    """Let learning go on from a version of this generation."""
    _must_exist(transaction, model)
    if version not in published:
        raise NotKnown(f"model {model!r} has no version {version}", "list its versions")
    base = transaction.newest(model, Compacted)
    if base is not None and isinstance(base.entry, Compacted) and version < base.entry.version:
        since = f"versions from {base.entry.version} on can be"
        raise NotKnown(f"version {version} of model {model!r} lies before its base", since)
    transaction.append(model, RolledBack(version))


def bring(transaction: Transaction, model: str, content: bytes) -> None:
    """Let learning go on from a ranker that was saved elsewhere; it must be of the model's own kind."""
    spec, _ = _must_exist(transaction, model)
    ranker, header = snapshots.ranker_of(content, "the file", spec)
    theirs = header.get("ranker"), header.get("settings"), header.get("n_features")
    mine = spec.ranker, msgspec.to_builtins(spec.settings), spec.n_features
    if theirs != mine:
        raise Refused("the file holds another kind of ranker", "make a model with its ranker, settings and n_features")
    if header.get("history") is False:
        raise Refused("the file is without its history, from which it would learn on", "get it with ?history=true")
    _check_shapes(ranker, spec)
    blob = f"{model}/imported/{snapshots.sum_of(content).hex()}"
    transaction.store(blob, snapshots.state_bytes(ranker))
    transaction.append(model, Imported(blob))


def _check_shapes(ranker: Ranker, spec: Spec) -> None:
    """Refuse arrays that no ranker of this spec has."""
    mine = storage.arrays_of(spec.start())
    for name, array in storage.arrays_of(ranker).items():
        grows = name.startswith(snapshots.ONLY_LEARNING)
        if array.dtype != mine[name].dtype or array.ndim != mine[name].ndim or array.shape[1:] != mine[name].shape[1:]:
            raise Refused(f"the file's array {name} has shape {list(array.shape)}", "save it again")
        if not grows and array.shape != mine[name].shape:
            raise Refused(f"the file's array {name} has shape {list(array.shape)}", "save it again")


def erase(transaction: Transaction, model: str, source: bytes) -> int:
    """Let everything of a source (sealed) up to here be taken out of the log; return the position of the wish."""
    return transaction.append(model, Erased(source))


def _must_exist(transaction: Transaction, model: str) -> tuple[Spec, int]:
    held = current(transaction, model)
    if held is None:
        raise NotKnown(f"there is no model {model!r}", f"make it: PUT /v1/models/{model}")
    return held


def last_version(transaction: Transaction, model: str) -> int:
    """Return the number of the newest version; 0: none."""
    newest = transaction.newest(model, Snapshot)
    return newest.entry.version if newest is not None and isinstance(newest.entry, Snapshot) else 0
