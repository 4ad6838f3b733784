"""The log as plain values, one object a record: for people, and for programs in other languages."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec

from perturank.service.entries import Batch, Impression, Record, Snapshot
from perturank.service.packing import unpacked
from perturank.service.sealing import sealed


def exported(record: Record, secret: bytes, *, with_features: bool = False) -> dict[str, Any]:
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
        case Snapshot() as snapshot:
            values = msgspec.structs.asdict(snapshot)
            return values | {"digest": snapshot.digest.hex(), "sum": snapshot.sum.hex()}
        case entry:
            return {name: msgspec.to_builtins(value) for name, value in msgspec.structs.asdict(entry).items()}


def _impression(shown: Impression, with_features: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "generation": shown.generation,
        "version": shown.version,
        "mode": shown.mode,
        "ranking": shown.ids,
        "propensity": None if shown.log_propensity is None else math.exp(shown.log_propensity),
        "source": shown.source,
        **({} if shown.ours is None else {"ours": shown.ours}),
    }
    if with_features:
        features, prior, _ = unpacked(shown.packed, None)
        values |= {"features": features.tolist(), "prior": prior.tolist()}
    return values
