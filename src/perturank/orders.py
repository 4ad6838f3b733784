"""What a ranker says of held-out pairs: which of them it calls certain, and how many of those are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

NO_DOCUMENT = -1  # the grade of padding


@dataclass(frozen=True, eq=False)
class Orders:
    """A ranker's view of q queries of V documents each: grades [q, V], scores [q, V], certain orders as packed bits.

    `bits` is None where the ranker has no certain orders. V is a multiple of 8.
    """

    grades: np.ndarray
    scores: np.ndarray
    bits: np.ndarray | None = None

    @classmethod
    def of(cls, grades: np.ndarray, scores: np.ndarray, certain: np.ndarray | None) -> Orders:
        """Return the orders with C[i, j], i certainly precedes j, packed; [q, V], [q, V], [q, V, V]."""
        bits = None if certain is None else np.packbits(certain, axis=-1)
        return cls(np.asarray(grades, np.int8), np.asarray(scores, np.float32), bits)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Orders:
        """Return the orders that `arrays` gave."""
        return cls(arrays["grades"], arrays["scores"], arrays.get("bits"))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, for a file."""
        found = {"grades": self.grades, "scores": self.scores}
        return found if self.bits is None else found | {"bits": self.bits}

    @property
    def certain(self) -> np.ndarray | None:
        """C[i, j]: document i certainly precedes j; [q, V, V]; None where the ranker has no certain orders."""
        return None if self.bits is None else np.unpackbits(self.bits, axis=-1).astype(bool)

    @property
    def n_pairs(self) -> int:
        """The number of pairs of documents of one query."""
        lengths = np.sum(self.grades != NO_DOCUMENT, axis=1, dtype=np.int64)
        return int(np.sum(lengths * (lengths - 1) // 2))

    @property
    def uncertain(self) -> float:
        """The share of pairs without a certain order; NaN where it is not defined."""
        certain = self.certain
        return float("nan") if certain is None or not self.n_pairs else 1 - int(certain.sum()) / self.n_pairs

    @property
    def certain_wrong(self) -> float | None:
        """The share of certain orders of different grades that put the lower grade first; None where there is none."""
        certain = self.certain
        return None if certain is None else wrong_share(certain, self.grades)


def wrong_share(certain: np.ndarray, values: np.ndarray) -> float | None:
    """Return of the orders [q, V, V] between documents of different value [q, V] the share that puts the lower first.

    >>> wrong_share(np.array([[[False, True], [False, False]]]), np.array([[0, 3]]))
    1.0
    """
    above, below = values[:, :, None], values[:, None, :]
    n = int(np.sum(certain & (above != below)))
    return int(np.sum(certain & (above < below))) / n if n else None
