"""The arrays of one impression as bytes: float32 rows, prior and memo, byte planes apart, deflated."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from perturank.service.log.refusals import Refused

LEVEL = 1  # more takes three times as long for a few percent


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """Shapes and bytes; `prior` is empty where there was none, `memo` holds its leaves in order."""

    n: int
    d: int
    features: bytes
    prior: bytes
    memo: list[bytes]


def packed(features: np.ndarray, prior: np.ndarray | None, memo: Sequence[np.ndarray]) -> bytes:
    """Return the bytes of shown documents [n, d], their prior [n] and the memo's leaves."""
    n, d = features.shape
    planes = _planes(np.ascontiguousarray(features, "<f4"))
    content = Packed(
        n,
        d,
        zlib.compress(planes, LEVEL),
        b"" if prior is None else np.ascontiguousarray(prior, "<f4").tobytes(),
        [zlib.compress(np.ascontiguousarray(leaf).tobytes(), LEVEL) for leaf in memo],
    )
    return msgspec.msgpack.encode(content)


def unpacked(content: bytes, memo_like: Sequence[Any] | None) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return features [n, d], prior [n] and the memo's leaves, shaped like `memo_like` (None: without it)."""
    try:
        held = msgspec.msgpack.decode(content, type=Packed)
        planes = np.frombuffer(zlib.decompress(held.features), np.uint8).reshape(4, -1)
        features = np.ascontiguousarray(planes.T).view("<f4").reshape(held.n, held.d)
        prior = np.frombuffer(held.prior, "<f4") if held.prior else np.zeros(held.n, np.float32)
        memo = [
            np.frombuffer(zlib.decompress(leaf), like.dtype).reshape(like.shape)
            for leaf, like in (zip(held.memo, memo_like, strict=True) if memo_like is not None else ())
        ]
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise Refused(f"an impression cannot be read ({error})", "run `perturank log verify`") from None
    return features, prior, memo


def _planes(rows: np.ndarray) -> bytes:
    """Return all first bytes, all second bytes, …: signs and exponents repeat, and deflate finds it."""
    return np.ascontiguousarray(rows.view(np.uint8).reshape(-1, 4).T).tobytes()
