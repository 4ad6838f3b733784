"""SVMrank / LETOR text: `label qid:ID index:value … # comment`, plain or gzip.

scikit-learn reads it block by block. A block it cannot read, or whose values are not allowed,
is read once more in plain Python, which knows the rest of the format (ids that are not 64-bit
integers, features out of order) and otherwise names the first bad line.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from perturank.datasets.dataset import LARGEST, Dataset, compact
from perturank.datasets.grouping import grouped, normalised
from perturank.errors import BadInput

MAX_FEATURES = 1 << 16  # rows are kept dense: a stray index must not ask for all memory
LARGEST_FLOAT = float(np.finfo(np.float32).max)
LARGEST_LABEL = int(np.iinfo(np.int32).max)
INT64 = np.iinfo(np.int64)
BLOCK_BYTES = 1 << 25
GZIP_MAGIC = b"\x1f\x8b"


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


@dataclass(frozen=True)
class Text:
    """What a file says: its queries, and whether its features are counted from 0."""

    dataset: Dataset
    zero_based: bool


class _ScatteredError(Exception):
    """A query goes on after another one that has been set down already."""


def read(path: Path, *, n_features: int | None = None, zero_based: bool = False, normalise: bool = True) -> Text:
    """Return the queries of a file.

    Features that no line mentions are 0, up to `n_features` where given; a higher index is then
    an error. Indices begin at 1 unless index 0 occurs or `zero_based` says so.
    """
    try:
        batches = _whole_queries(_parsed(path))
        return _assembled(path, batches, n_features, zero_based, normalise)
    except _ScatteredError:  # rare: all rows of the file are needed at once
        return _assembled(path, iter([Block.joined(list(_parsed(path)))]), n_features, zero_based, normalise)


def first_index(path: Path) -> int:
    """Return the highest feature index of the first document: dense collections are known by it."""
    for number, data in _blocks(path, 1 << 16):
        block = read_plainly(path, number, data)
        if len(block.labels):
            return int(block.features[0].indices.max(initial=0))
    return 0


def _assembled(path: Path, batches: Iterator[Block], n_features: int | None, zero_based: bool, normalise: bool) -> Text:
    parts: list[Dataset] = []
    seen: set[str] = set()
    for block in batches:
        zero_based = zero_based or bool((block.features.indices == 0).any())
        part = _dataset(path, block, normalise)
        if not seen.isdisjoint(part.qids.tolist()):
            raise _ScatteredError
        seen.update(part.qids.tolist())
        parts.append(part)
    if not parts:
        raise BadInput(f"{path} has no documents", "give a file with lines like '2 qid:1 1:0.5 2:3'")
    first = 0 if zero_based else 1
    found = max(part.n_features for part in parts) - first
    if n_features is not None and found > n_features:
        raise _beyond(path, n_features, first)
    if found < 1 and n_features is None:
        raise BadInput(f"{path} mentions no feature", "give lines like '2 qid:1 1:0.5 2:3'")
    return Text(_gathered(path, parts, first, n_features or found), zero_based)


def _gathered(path: Path, parts: list[Dataset], first: int, width: int) -> Dataset:
    lengths = np.concatenate([part.lengths for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    qids = np.concatenate([part.qids for part in parts])
    features = np.zeros((len(labels), width), np.float32)
    stop = len(labels)
    while parts:  # let go of each part as soon as it is copied: a collection may fill half the memory
        part = parts.pop().features[:, first:]
        features[stop - len(part) : stop, : part.shape[1]] = part
        stop -= len(part)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Dataset(path.name, features, compact(labels), offsets, qids)


def _dataset(path: Path, block: Block, normalise: bool) -> Dataset:
    order, offsets, names = grouped(block.qids)
    rows, labels = block.features.toarray(), block.labels
    if order is not None:
        rows, labels = rows[order], labels[order]
    features = normalised(rows, offsets) if normalise else rows.astype(np.float32)
    return Dataset(path.name, features, compact(labels), offsets, names)


def _whole_queries(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield the same rows in blocks that end where a query ends."""
    carried: list[Block] = []
    for block in blocks:
        rows = Block.joined([*carried, block])
        changes = np.flatnonzero(rows.qids[1:] != rows.qids[:-1])
        cut = int(changes[-1]) + 1 if len(changes) else 0
        if cut:
            yield rows.rows(slice(0, cut))
        carried = [rows.rows(slice(cut, None))]
    yield from carried


def _parsed(path: Path) -> Iterator[Block]:
    for number, data in _blocks(path, BLOCK_BYTES):
        block = _fast(data) or read_plainly(path, number, data)
        if len(block.labels):
            yield block


def _fast(data: bytes) -> Block | None:
    """Return what scikit-learn reads, or None where the plain reader must look."""
    # Imported here: it takes longer than all the rest of perturank, and cached or embedded data do not need it.
    from sklearn.datasets import load_svmlight_file

    try:
        features, labels, qids = load_svmlight_file(BytesIO(data), query_id=True, zero_based=True)
    except (ValueError, OverflowError):
        return None
    if len(qids) != len(labels) or features.shape[1] > MAX_FEATURES + 1:
        return None  # scikit-learn passes over lines without qid
    whole = (labels >= 0) & (labels == np.floor(labels)) & (labels <= np.iinfo(np.int32).max)
    if not whole.all() or not (np.abs(features.data) <= LARGEST).all():
        return None
    return Block(features, labels.astype(np.int32), qids)


def _blocks(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield (number of the first line, whole lines) of about so many bytes."""
    number, rest = 1, b""
    try:
        with _opened(path) as file:
            while data := file.read(size):
                cut = data.rfind(b"\n") + 1
                if cut == 0:
                    rest += data
                    continue
                lines, rest = rest + data[:cut], data[cut:]
                yield number, lines
                number += lines.count(b"\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path} is damaged: {error}", "download or compress it again") from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from None
    if rest:
        yield number, rest


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP_MAGIC  # by content: some collections' .txt are zipped
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb")


def _beyond(path: Path, n_features: int, first: int) -> BadInput:
    """Return the error for a feature index above the collection's, with its line."""
    highest = n_features + first - 1
    for number, data in _blocks(path, BLOCK_BYTES):
        for at, line in enumerate(data.split(b"\n"), number):
            for token in line.split(b"#")[0].split()[2:]:
                index = int(token.split(b":")[0])
                if index > highest:
                    what = f"{path}, line {at}: feature {index} is beyond {highest}"
                    return BadInput(what, f"{n_features} features are expected: check the file, or pass n_features=")
    raise AssertionError("a block held a higher index")


def read_plainly(path: Path, number: int, data: bytes) -> Block:
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
