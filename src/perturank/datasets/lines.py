"""SVMrank lines read one by one: complete and slow, and every bad line is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from perturank.errors import BadInput

MAX_FEATURES = 1 << 16  # rows are kept dense: a stray index must not ask for all memory
LARGEST_FLOAT = float(np.finfo(np.float32).max)
LARGEST_LABEL = int(np.iinfo(np.int32).max)
INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Block:
    """Some lines of a file: sparse features [n, 1 + highest index], labels [n], query ids [n]."""

    features: Any
    labels: NDArray[np.int32]
    qids: NDArray[Any]

    def rows(self, chosen: slice) -> Block:
        """Return these rows."""
        return Block(self.features[chosen], self.labels[chosen], self.qids[chosen])

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """Return the rows of all blocks, one after another."""
        if len(blocks) == 1:
            return blocks[0]
        width = max(block.features.shape[1] for block in blocks)
        for block in blocks:
            block.features.resize(block.features.shape[0], width)
        names = [block.qids for block in blocks]
        if len({ids.dtype.kind for ids in names}) > 1:  # integers here, text there: text for all
            names = [ids.astype(np.str_) for ids in names]
        labels = np.concatenate([block.labels for block in blocks])
        return cls(vstack([block.features for block in blocks], "csr"), labels, np.concatenate(names))


def plain(path: Path, number: int, data: bytes) -> Block:
    """Return the rows of these lines, the first of which has this number."""
    labels: list[int] = []
    qids: list[str] = []
    values: list[float] = []
    indices: list[int] = []
    starts = [0]
    for at, raw in enumerate(data.split(b"\n"), number):
        line = raw.split(b"#", 1)[0].decode("utf-8", "replace").split()
        if not line:
            continue
        try:
            label, qid, row = parsed(line)
        except BadInput as error:
            raise BadInput(f"{path}, line {at}: {error}") from None
        labels.append(label)
        qids.append(qid)
        indices += row.keys()
        values += row.values()
        starts.append(len(indices))
    width = max(indices, default=0) + 1
    features = csr_matrix((values, indices, starts), shape=(len(labels), width), dtype=np.float64)
    return Block(features, np.array(labels, np.int32), np.array(qids, np.str_))


def parsed(tokens: Sequence[str]) -> tuple[int, str, dict[int, float]]:
    """Return the label, the query id and the features by index of one line's tokens."""
    label = _label(tokens[0])
    if len(tokens) < 2 or not tokens[1].startswith("qid:") or tokens[1] == "qid:":
        raise BadInput("no query id", "put qid:ID after the label")
    row: dict[int, float] = {}
    for token in tokens[2:]:
        index, value = _feature(token)
        if index in row:
            raise BadInput(f"feature {index} occurs twice", "keep one of its values")
        row[index] = value
    return label, _canonical(tokens[1][4:]), row


def _label(token: str) -> int:
    value = _number(token, "label")
    if not (0 <= value <= LARGEST_LABEL and value == int(value)):
        raise BadInput(f"label {token}", "labels must be whole numbers of 0 or more")
    return int(value)


def _feature(token: str) -> tuple[int, float]:
    name, colon, text = token.partition(":")
    if not colon or not name.isdecimal():
        raise BadInput(f"{token!r} is not a feature", "write features as index:value")
    if int(name) > MAX_FEATURES:
        raise BadInput(f"feature {name} is beyond {MAX_FEATURES:,}", "number the features without gaps")
    value = _number(text, f"value of feature {name}")
    if not abs(value) <= LARGEST_FLOAT:
        raise BadInput(f"feature {name} is {text}", "replace it by a finite float32 number")
    return int(name), value


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{what} {text!r} is not a number", "write a number") from None


def _canonical(qid: str) -> str:
    """Return the id as the fast reader would spell it, so that 07 and 7 are one query in every block."""
    try:
        number = int(qid)
    except ValueError:
        return qid
    return str(number) if INT64.min <= number <= INT64.max else qid
