"""Files of past lists, and tables of features: JSON lines, compressed or not, CSV, Parquet."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest
from helpers.past_lists import imported, line, written
from helpers.service_small import created
from pyarrow import json, parquet

from perturank.errors import BadInput
from perturank.service.history.features import FeatureTable, document, resolver
from perturank.service.history.files import import_file, lists_in
from perturank.service.log import Log
from perturank.service.log.sqlite import SqliteLog


def test_compressed_lines_and_parquet_hold_the_same_lists(log: Log, tmp_path: Path) -> None:
    lines = [
        line(0, seen=3, source="kim", time=1717527762080),
        line(1, events=[{"id": "d1-1", "action": "purchase", "value": 3.5}], clicks=[]),
        line(2) | {"documents": [each | {"prior": float(i)} for i, each in enumerate(line(2)["documents"])]},
    ]
    path = written(tmp_path, lines)
    packed = tmp_path / "clicks.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    table = tmp_path / "clicks.parquet"
    parquet.write_table(json.read_json(path), table)
    shares: list[float] = []
    plain, *others = ([each.read() for each in lists_in(each, shares.append)] for each in (path, packed, table))
    assert len(plain) == 3
    assert others == [plain, plain]
    assert shares == [1.0, 1.0, 1.0]
    created(log, ranker="p2linrank")
    assert imported(log, table).imported == 3
    assert imported(log, packed).known == 3


def test_a_file_is_imported_by_one_call(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    log = SqliteLog(tmp_path / "log.db")
    created(log, ranker="p2linrank")
    log.close()
    report = import_file(written(tmp_path, [line(0)]), log=url, model="m")
    assert report.as_dict() == {
        "model": "m",
        "dry_run": False,
        "read": 1,
        "imported": 1,
        "already_there": 0,
        "refused": 0,
        "refused_by_reason": {},
        "examples": [],
        "notes": [],
    }


@pytest.mark.parametrize(
    "name, content, says",
    [
        ("clicks.txt", "", "neither JSON lines nor Parquet"),
        ("clicks.parquet", "no table", "cannot be read as Parquet"),
        ("clicks.jsonl.gz", "no gzip", "cannot be decompressed"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInput, match=says):
        list(lists_in(tmp_path / name))
    with pytest.raises(BadInput, match="there is no file"):
        list(lists_in(tmp_path / "other.jsonl"))


def test_features_are_looked_up_by_document_and_by_query_where_the_table_has_one(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("object_id,query,price,stars,prior\na,,1,2,0.5\nb,,3,,1\na,shoes,9,8,7\n")
    lines = [
        {"object_id": "a", "features": [1, 2], "prior": 0.5},
        {"object_id": "b", "features": [3, None], "prior": 1},
        {"object_id": "a", "query": "shoes", "features": [9, 8], "prior": 7},
    ]
    table = written(tmp_path, lines, "table.jsonl")
    parquet.write_table(json.read_json(table), tmp_path / "table.parquet")
    for name in ("table.csv", "table.jsonl", "table.parquet"):
        look_up = resolver(str(tmp_path / name))
        for query, expected in (("shoes", [9, 8]), ("hats", [1, 2]), (None, [1, 2])):
            one, two, none = (
                document(each, known, False) for each, known in zip("abc", look_up(query, list("abc")), strict=True)
            )
            assert one is not None
            assert two is not None
            assert none is None
            assert (one.features, two.features, two.prior) == (expected, [3, None], 1)
    named = document("a", FeatureTable.read(tmp_path / "table.csv").look_up(None, ["a"])[0], True)
    assert named is not None
    assert (named.features, named.prior) == ({"price": 1, "stars": 2}, 0.5)


def test_features_may_come_from_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_shop.py").write_text(
        "import numpy as np\n"
        "def features(query, ids):\n    return [None if each == 'x' else np.ones(2) for each in ids]\n"
        "def wrong(query, ids):\n    return []\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    known, none = resolver("my_shop:features")("q", ["a", "x"])
    one = document("a", known, True)
    assert one is not None
    assert one.features == [1.0, 1.0]
    assert none is None
    with pytest.raises(BadInput, match="returned 0 rows for 1 documents"):
        resolver("my_shop:wrong")("q", ["a"])
    with pytest.raises(BadInput, match="has no function 'nothing'"):
        resolver("my_shop:nothing")
    sys.modules.pop("my_shop")


@pytest.mark.parametrize(
    "content, says",
    [
        ("id,price\na,1\n", "line 2: there is no object_id"),
        ("object_id,price\na,cheap\n", "line 2: 'price' is 'cheap', which is no number"),
    ],
)
def test_a_table_that_makes_no_features_is_refused(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "table.csv").write_text(content)
    with pytest.raises(BadInput, match=says):
        resolver(str(tmp_path / "table.csv"))
    with pytest.raises(BadInput, match="neither a file of features nor a function"):
        resolver("products")
    with pytest.raises(BadInput, match="there is no file"):
        resolver(str(tmp_path / "no.csv"))
