"""The candidates of an impression: kept for a sample, so that the list of another ranker can be built."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from perturank.service.log.records import Entry, Impression, packed, unpacked
from perturank.service.log.refusals import Refused

DRAW_BYTES = 7


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    ids: list[str]  # all, as they were sent
    has_prior: bool
    others: bytes  # features and prior of those that are not shown; those of the shown ones are in the impression


@dataclass(frozen=True)
class Candidates:
    """All documents of a request in the order in which they were sent: features [V, d], prior [V]; shown [k] are rows.

    Without a prior it is None.
    """

    ids: list[str]
    features: np.ndarray
    prior: np.ndarray | None
    shown: list[int]

    @property
    def own_order(self) -> list[int]:
        """The caller's own order: by its prior, or as the documents were sent."""
        return own_order(len(self.ids), self.prior)


def own_order(n: int, prior: np.ndarray | None) -> list[int]:
    """Return the caller's own order of n documents: by its prior [n], or as they were sent."""
    return list(range(n)) if prior is None else np.argsort(-prior, kind="stable").tolist()


def is_sampled(impression: bytes, share: float) -> bool:
    """Return whether the candidates of this impression are kept: its random id decides, so that anybody can check."""
    lot = hashlib.blake2b(impression, digest_size=DRAW_BYTES, person=b"candidates").digest()
    return int.from_bytes(lot, "big") < share * 256**DRAW_BYTES


def pack_candidates(ids: Sequence[str], features: np.ndarray, prior: np.ndarray | None, shown: Sequence[int]) -> bytes:
    """Return what is kept of all documents [V], of which the impression holds those shown [k]."""
    others = _others(len(ids), shown)
    rest = packed(features[others], None if prior is None else prior[others], [])
    return msgspec.msgpack.encode(_Packed(list(ids), prior is not None, rest))


def candidates_of(entry: Impression) -> Candidates | None:
    """Return the candidates of an impression; None: they were not kept."""
    if entry.candidates is None:
        return None
    try:
        kept = msgspec.msgpack.decode(entry.candidates, type=_Packed)
        places = {document: row for row, document in enumerate(kept.ids)}
        shown = [places[document] for document in entry.ids]
    except (msgspec.MsgspecError, KeyError) as error:
        what = f"the candidates of an impression cannot be read ({error})"
        raise Refused(what, "run `perturank log verify`") from None
    rows = np.array([*shown, *_others(len(kept.ids), shown)], np.int64)
    parts = [unpacked(content, None)[:2] for content in (entry.packed, kept.others)]
    features = np.empty((len(rows), parts[0][0].shape[1]), np.float32)
    prior = np.empty(len(rows), np.float32)
    features[rows], prior[rows] = (np.concatenate(found) for found in zip(*parts, strict=True))
    return Candidates(kept.ids, features, prior if kept.has_prior else None, shown)


def candidates_as_json(entry: Entry, *, with_features: bool = False) -> dict[str, Any]:
    """Return the candidates of an impression as JSON values; nothing, if there are none."""
    found = candidates_of(entry) if isinstance(entry, Impression) else None
    if found is None:
        return {}
    values = {"features": found.features.tolist()} | ({} if found.prior is None else {"prior": found.prior.tolist()})
    return {"candidates": {"ids": found.ids} | (values if with_features else {})}


def _others(n: int, shown: Sequence[int]) -> np.ndarray:
    return np.setdiff1d(np.arange(n), np.asarray(shown, np.int64))
