"""A state on disk: where a learner goes on after a restart instead of at the first click."""

from __future__ import annotations

import msgspec

from perturank.errors import BadInput
from perturank.service import snapshots
from perturank.service.entries import Changed, Deleted, Impression
from perturank.service.log import Log
from perturank.service.replaying import recalled
from perturank.service.spec import Spec
from perturank.service.state import State


def stored(state: State) -> bytes:
    """Return the state as bytes; what waits for feedback is read again from the log."""
    assert state.ranker is not None
    return snapshots.state_bytes(
        state.ranker,
        spec=msgspec.to_builtins(state.spec),
        digest=snapshots.digest(state.ranker, whole=True).hex(),
        waiting_from=state.needed_from,
        **{name: getattr(state, name) for name in ("at", "generation", "version", "learned", "batched", "unpublished")},
    )


def restored(log: Log, model: str) -> State | None:
    """Return the stored state of a model; None where there is none, or where it is damaged or ahead of the log."""
    name = snapshots.state_name(model)
    content = log.stored(name)
    if content is None:
        return None
    try:
        ranker, header = snapshots.ranker_of(content, name)
        state = State(
            model,
            recalled(log),
            spec=msgspec.convert(header["spec"], Spec),
            ranker=ranker,
            **{name: header[name] for name in ("at", "generation", "version", "learned", "batched", "unpublished")},
        )
    except (BadInput, KeyError, msgspec.ValidationError):
        return None
    if snapshots.digest(ranker, whole=True).hex() != header["digest"] or state.at > log.tail():
        return None
    _wait_again(log, state, header["waiting_from"])
    return state


def _wait_again(log: Log, state: State, since: int | None) -> None:
    """Let the state wait for the same feedback as when it was stored."""
    if since is None:
        return
    for record in log.read(after=since - 1, through=state.at, model=state.model):
        if isinstance(record.entry, Impression) and record.entry.generation != state.generation:
            continue
        state.queue.extend(each for each in state.tracker.take(record) if each.at > state.batched)


def resumed(log: Log) -> dict[str, State]:
    """Return the stored states of all models that are there."""
    found = {model: restored(log, model) for model in living(log)}
    return {model: state for model, state in found.items() if state is not None}


def position(log: Log, states: dict[str, State]) -> int:
    """Return up to where the log need not be read again: the least that all living models have taken."""
    return min((states[model].at if model in states else 0 for model in living(log)), default=0)


def living(log: Log) -> list[str]:
    """Return the models that were made and not deleted."""
    models: dict[str, bool] = {}
    for record in log.rare():
        if isinstance(record.entry, Changed | Deleted):
            models[record.model] = isinstance(record.entry, Changed)
    return [model for model, lives in models.items() if lives]
