"""Queries whose users' intent changes: ClueWeb09 documents, each relevant or not to five intents of its query.

The folder holds the features as SVMrank text (`S1.txt.gz` … `S5.txt.gz`, the document's name in a comment) and
`labels.tsv.gz`: qid, docid, and 0 or 1 for each intent.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

from perturank.datasets import Dataset

N_INTENTS = 5
MOST_DOCUMENTS = 100  # of a query: as many candidates as a search engine hands over


def load_intents(folder: Path, seed: int = 1) -> tuple[Dataset, np.ndarray]:
    """Return the queries with documents for the first three intents, and whether each is relevant; [n, 5].

    Of a long query a random sample of the documents is kept.
    """
    with gzip.open(folder / "labels.tsv.gz", "rt") as lines:
        relevant = {
            (row[0], row[1]): [int(each) for each in row[2:]] for row in list(csv.reader(lines, delimiter="\t"))[1:]
        }
    queries: dict[str, list[tuple[list[float], list[int]]]] = {}
    for path in sorted(folder.glob("S*.txt.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                numbers, _, name = line.partition("#")
                _, qid, *features = numbers.split()
                key = qid.removeprefix("qid:"), name.partition("=")[2].strip()
                queries.setdefault(key[0], []).append(
                    ([float(each.partition(":")[2]) for each in features], relevant[key])
                )
    rng = np.random.default_rng(seed)
    sampled = {qid: _sampled(each, rng) for qid, each in queries.items()}
    kept = {qid: (x, wanted) for qid, (x, wanted) in sampled.items() if wanted[:, :3].any(axis=0).all()}
    offsets = np.cumsum([0, *(len(x) for x, _ in kept.values())])
    labels = np.concatenate([wanted for _, wanted in kept.values()])
    features = np.concatenate([x for x, _ in kept.values()]).astype(np.float32)
    return Dataset("intents", features, labels[:, 0], offsets, np.array(list(kept))), labels


def _sampled(documents: list[tuple[list[float], list[int]]], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    wanted = np.array([each for _, each in documents], np.int32)
    rows = np.sort(rng.permutation(len(wanted))[:MOST_DOCUMENTS])
    return np.array([documents[i][0] for i in rows]), wanted[rows]
