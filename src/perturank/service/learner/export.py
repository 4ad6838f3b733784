"""The log as plain values, one object a record: for people, and for programs in other languages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from perturank.service.log.ids import sealed
from perturank.service.log.packing import unpacked
from perturank.service.log.records import Batch, Compacted, Entry, Impression, Record
from perturank.service.telemetry.cost import probability


def as_json(record: Record, secret: bytes, *, with_features: bool = False) -> dict[str, Any]:
    """Return a record as JSON values: position, kind, model, at, impression, and what its kind holds."""
    name = record.impression
    return {
        "position": record.position,
        "kind": type(record.entry).__name__.lower(),
        "model": record.model,
        "at": datetime.fromtimestamp(record.at / 1000, UTC).isoformat(timespec="milliseconds"),
        **({} if name is None else {"impression": sealed(name, record.model, secret)}),
        **_content(record, secret, with_features),
    }


def _content(record: Record, secret: bytes, with_features: bool) -> dict[str, Any]:
    match record.entry:
        case Impression() as shown:
            return _impression(shown, with_features)
        case Batch() as batch:
            skipped = [sealed(name, record.model, secret) for name in batch.skipped]
            return {"through": batch.through, "n": batch.n, "skipped": skipped}
        case Compacted() as base:  # `at` of a line is its time, and this one is a position
            return {"base_at" if name == "at" else name: value for name, value in _values(base).items()}
        case entry:
            return _values(entry)


def _values(entry: Entry) -> dict[str, Any]:
    values = msgspec.structs.asdict(entry)
    return {k: v.hex() if isinstance(v, bytes) else msgspec.to_builtins(v) for k, v in values.items()}


def _impression(shown: Impression, with_features: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "generation": shown.generation,
        "version": shown.version,
        "mode": shown.mode,
        "ranking": shown.ids,
        "propensity": None if shown.log_propensity is None else probability(shown.log_propensity),
        "source": shown.source,
        **({} if shown.ours is None else {"ours": shown.ours}),
    }
    if with_features:
        features, prior, _ = unpacked(shown.packed, None)
        values |= {"features": features.tolist(), "prior": prior.tolist()}
    return values
