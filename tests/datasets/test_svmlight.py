"""The SVMrank reader against a plain one, and every bad line by its number."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import data as oracle
from oracles.data import Write

from perturank.datasets import svmlight
from perturank.datasets.svmlight import read
from perturank.errors import BadInput

MIXED = """# a comment of its own
2 qid:7 1:0.5 3:2 # docid = GX1
0 qid:7 2:-1.5e3#docid

1 qid:3 1:4
0.0 qid:7 3:1
1 qid:3
"""


def assert_equals_the_plain_reading(path: Path, text: str, width: int) -> None:
    """Compare labels, names, offsets and features, raw and scaled."""
    queries = oracle.by_query(oracle.documents(text))
    raw = read(path, normalise=False, n_features=width).dataset
    scaled = read(path, n_features=width).dataset
    assert raw.qids.tolist() == list(queries)
    assert raw.lengths.tolist() == [len(rows) for rows in queries.values()]
    assert raw.labels.tolist() == [label for rows in queries.values() for label, _, _ in rows]
    for i, rows in enumerate(queries.values()):
        plain = oracle.dense(rows, width)
        np.testing.assert_array_equal(raw.query(i)[0], np.asarray(plain, np.float32))
        np.testing.assert_allclose(scaled.query(i)[0], oracle.min_max(plain), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", ["mixed.txt", "mixed.txt.gz"])
def test_comments_blank_lines_absent_features_and_scattered_queries_are_read(write: Write, name: str) -> None:
    assert_equals_the_plain_reading(write(name, MIXED), MIXED, 3)


def test_a_zipped_file_is_known_by_its_content(write: Write) -> None:
    path = write("mixed.txt.gz", MIXED)
    assert_equals_the_plain_reading(path.rename(path.with_name("zipped.txt")), MIXED, 3)


def test_windows_line_ends_and_a_missing_last_one_are_read(write: Write) -> None:
    text = "1 qid:1 1:2\r\n0 qid:1 1:3"
    assert_equals_the_plain_reading(write("a.txt", text), text, 1)


@pytest.mark.parametrize(
    "text",
    [
        "1 qid:GX-1 1:2\n0 qid:é 1:3\n1 qid:GX-1 2:1\n",
        "1 qid:99999999999999999999999 1:2\n0 qid:5 1:3\n",
        "1 qid:1 2:5 1:2\n0 qid:1 1:3\n",
    ],
    ids=["text", "beyond 64 bits", "features out of order"],
)
def test_what_the_fast_reader_cannot_do_is_read_all_the_same(write: Write, text: str) -> None:
    assert_equals_the_plain_reading(write("a.txt", text), text, 2)


LINE = st.builds(
    lambda label, qid, row, comment: f"{label} qid:{qid} " + " ".join(f"{j}:{v!r}" for j, v in row.items()) + comment,
    st.integers(0, 4),
    st.sampled_from(["1", "2", "30", "x"]),
    st.dictionaries(st.integers(1, 6), st.floats(-1e8, 1e8), max_size=6),
    st.sampled_from(["", " # note", "\n", "\n# note"]),
)


@settings(max_examples=25, deadline=None)
@given(lines=st.lists(LINE, min_size=1, max_size=8), size=st.integers(10, 200))
def test_any_file_read_in_blocks_of_any_size_equals_the_plain_reading(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int
) -> None:
    text = "\n".join(lines)
    path = tmp_path_factory.mktemp("any") / "a.txt"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svmlight, "BLOCK_BYTES", size)
        assert_equals_the_plain_reading(path, text, 6)


def test_an_index_0_means_that_features_are_counted_from_0(write: Write) -> None:
    text = read(write("a.txt", "1 qid:1 0:3 1:4\n0 qid:1 2:5\n"), normalise=False)
    assert text.zero_based
    assert text.dataset.features.tolist() == [[3, 4, 0], [0, 0, 5]]


BAD_LINES = {
    "label 'x' is not a number": "x qid:1 1:1",
    "label 1.5": "1.5 qid:1 1:1",
    "label -1": "-1 qid:1 1:1",
    "label nan": "nan qid:1 1:1",
    "no query id": "1 1:0.5",
    "no query id; put qid:ID after the label": "1 qid: 1:1",
    "'3' is not a feature": "1 qid:1 3",
    "'-1:5' is not a feature": "1 qid:1 -1:5",
    "'1.5:5' is not a feature": "1 qid:1 1.5:5",
    "value of feature 3 '' is not a number": "1 qid:1 3:",
    "value of feature 3 '4:5' is not a number": "1 qid:1 3:4:5",
    "feature 2 is nan": "1 qid:1 1:1 2:nan",
    "feature 2 is -inf": "1 qid:1 1:1 2:-inf",
    "feature 1 is 1e39": "1 qid:1 1:1e39",
    "feature 1 occurs twice": "1 qid:1 1:1 1:2",
    "feature 99999999999 is beyond": "1 qid:1 99999999999:1",
}


@pytest.mark.parametrize("says", BAD_LINES)
@pytest.mark.parametrize("size", [1 << 20, 8])
def test_a_bad_line_is_named_with_its_file_and_number(
    write: Write, says: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", size)
    path = write("bad.txt", f"0 qid:1 1:1\n# note\n\n{BAD_LINES[says]}\n0 qid:1 1:1\n")
    with pytest.raises(BadInput, match=re.escape(f"{path}, line 4: {says}")) as error:
        read(path)
    assert "\n" not in str(error.value)


def test_a_feature_beyond_the_known_number_is_named_with_its_line(write: Write) -> None:
    path = write("a.txt", "1 qid:1 1:1\n0 qid:1 1:1 3:2 # 9:9\n")
    with pytest.raises(BadInput, match="line 2: feature 3 is beyond 2; 2 features are expected"):
        read(path, n_features=2)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_a_file_without_documents_is_refused(write: Write, text: str) -> None:
    with pytest.raises(BadInput, match="has no documents"):
        read(write("empty.txt", text))


def test_a_file_without_features_is_refused(write: Write) -> None:
    with pytest.raises(BadInput, match="mentions no feature"):
        read(write("a.txt", "1 qid:1\n0 qid:1\n"))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:20] + b"\xff" * 9 + b[29:]])
def test_a_damaged_zip_is_refused(write: Write, damage: object) -> None:
    path = write("a.txt.gz", MIXED * 50)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(BadInput, match=re.escape(f"{path} is damaged")):
        read(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot read .*: No such file"):
        read(tmp_path / "absent.txt")
