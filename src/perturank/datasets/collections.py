"""The public collections: how many features and grades they have, and how they are recognised."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Collection:
    """A collection with known dimensions; `pattern` is looked for in the folder's name."""

    name: str
    summary: str
    pattern: str
    n_features: int
    n_grades: int


MSLR = Collection(
    "mslr",
    "MSLR-WEB10K or WEB30K: the folder that holds Fold1 to Fold5, each with train, vali and test",
    r"mslr|web[-_]?[13]0k",
    136,
    5,
)
YAHOO = Collection(
    "yahoo",
    "Yahoo! Learning to Rank Challenge: the folder of set1.train.txt and the others; fold 2 is set 2",
    r"yahoo|ltrc",
    700,
    5,
)
ISTELLA = Collection(
    "istella",
    "Istella or Istella-S: the folder that holds full or sample, or the folder of train and test",
    r"istella",
    220,
    5,
)
LETOR = Collection(
    "letor",
    "LETOR MQ2007 or MQ2008: the folder of S1.txt to S5.txt, or of Fold1 to Fold5",
    r"mq200[78]",
    46,
    3,
)
COLLECTIONS = {collection.name: collection for collection in (MSLR, YAHOO, ISTELLA, LETOR)}

INNER = re.compile(r"fold\d+|full|sample|set\d", re.IGNORECASE)


def by_folder_name(folder: Path) -> Collection | None:
    """Return the collection that the folder is named after; for its Fold1 and the like, the parent."""
    place = folder.resolve()
    named = place.parent.name if INNER.fullmatch(place.name) else place.name
    return next((c for c in COLLECTIONS.values() if re.search(c.pattern, named, re.IGNORECASE)), None)


def by_dimension(n_features: int) -> Collection | None:
    """Return the collection whose dense documents have so many features."""
    return next((c for c in (MSLR, ISTELLA, LETOR) if c.n_features == n_features), None)
