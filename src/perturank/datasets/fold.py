"""One division of a collection into training, validation and test queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perturank.datasets.dataset import Dataset
from perturank.errors import BadInput

Row = dict[str, str | int | float]


@dataclass(frozen=True, eq=False)
class Fold:
    """Fold number `fold` of `n_folds`: three sets of queries with the same features and grades.

    `collection_grades` is the number of grades the collection is known to have, where a small
    split may lack the highest; `theta_star` is θ* of data with a known linear truth.
    """

    name: str
    fold: int
    n_folds: int
    train: Dataset
    validation: Dataset
    test: Dataset
    collection_grades: int | None = None
    theta_star: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.fold <= self.n_folds:
            raise no_such_fold(self.name, self.fold, self.n_folds)
        for split, part in list(self.splits.items())[1:]:
            if part.n_features != self.train.n_features:
                raise BadInput(
                    f"{self.name}: train has {self.train.n_features} features but {split} has {part.n_features}",
                    "give all splits the same features",
                )
        if self.collection_grades is not None:
            for split, part in self.splits.items():
                if part.n_grades > self.collection_grades:
                    raise BadInput(
                        f"{self.name}: {split} has label {part.n_grades - 1}",
                        f"this collection's labels are 0 to {self.collection_grades - 1}: check its files",
                    )

    @property
    def splits(self) -> dict[str, Dataset]:
        """The three splits by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def n_features(self) -> int:
        """The number of features, d."""
        return self.train.n_features

    @property
    def n_grades(self) -> int:
        """The number of grades: the collection's where known, else the most of any split."""
        return self.collection_grades or max(part.n_grades for part in self.splits.values())

    @property
    def true_scores(self) -> NDArray[np.float32] | None:
        """The scores xᵀθ* of the training documents, [n]; None where the truth is not known."""
        if self.theta_star is None:
            return None
        return (self.train.features.astype(np.float64) @ self.theta_star).astype(np.float32)

    def describe(self) -> list[Row]:
        """Return one plain row per split, for a table."""
        return [_described(split, part, self.n_grades) for split, part in self.splits.items()]


def no_such_fold(name: str, fold: int, n_folds: int) -> BadInput:
    """Return the error for a fold that the collection does not have."""
    has = "one fold: use fold 1" if n_folds == 1 else f"folds 1 to {n_folds}"
    return BadInput(f"{name} has no fold {fold}", f"it has {has}")


def _described(split: str, part: Dataset, n_grades: int) -> Row:
    shares = np.bincount(part.labels, minlength=n_grades) / part.n_documents
    best = np.maximum.reduceat(part.labels, part.offsets[:-1])
    row: Row = {
        "split": split,
        "queries": part.n_queries,
        "documents": part.n_documents,
        "features": part.n_features,
        "shortest query": int(part.lengths.min()),
        "median query": float(np.median(part.lengths)),
        "longest query": int(part.lengths.max()),
        "queries without relevant": int((best == 0).sum()),
    }
    return row | {f"share of grade {grade}": round(float(share), 4) for grade, share in enumerate(shares)}
