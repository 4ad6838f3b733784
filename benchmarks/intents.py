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

N_INTENTS = 3  # that enough queries have
MOST_DOCUMENTS = 100  # of a query: as many candidates as a search engine hands over

Document = tuple[list[float], list[int]]  # features, and relevance to each intent


def load_intents(folder: Path, seed: int = 1) -> tuple[Dataset, np.ndarray]:
    """Return the queries with relevant documents for each of the first intents, and which these are; [n, 5].

    Of a long query a random sample of the documents is kept.
    """
    rng = np.random.default_rng(seed)
    sampled = {qid: _sampled(each, rng) for qid, each in _queries(folder).items()}
    kept = {qid: (x, wanted) for qid, (x, wanted) in sampled.items() if wanted[:, :N_INTENTS].any(axis=0).all()}
    offsets = np.cumsum([0, *(len(x) for x, _ in kept.values())])
    labels = np.concatenate([wanted for _, wanted in kept.values()])
    features = np.concatenate([x for x, _ in kept.values()]).astype(np.float32)
    return Dataset("intents", features, labels[:, 0], offsets, np.array(list(kept))), labels


def _queries(folder: Path) -> dict[str, list[Document]]:
    with gzip.open(folder / "labels.tsv.gz", "rt") as lines:
        rows = csv.reader(lines, delimiter="\t")
        next(rows)
        relevant = {(qid, document): [int(each) for each in intents] for qid, document, *intents in rows}
    queries: dict[str, list[Document]] = {}
    for path in sorted(folder.glob("S*.txt.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                numbers, _, name = line.partition("#")
                _, qid, *features = numbers.split()
                key = qid.removeprefix("qid:"), name.partition("=")[2].strip()
                values = [float(each.partition(":")[2]) for each in features]
                queries.setdefault(key[0], []).append((values, relevant[key]))
    return queries


def _sampled(documents: list[Document], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    wanted = np.array([each for _, each in documents], np.int32)
    rows = np.sort(rng.permutation(len(wanted))[:MOST_DOCUMENTS])
    return np.array([documents[i][0] for i in rows]), wanted[rows]
