"""The gathering program, run as it is run: alone, over the whole library of this Python."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from perturank.errors import BadInput
from perturank.play import corpus
from perturank.play.corpus import Document
from perturank.play.gathering import LEFT_OUT


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Document]:
    told: list[tuple[int, int]] = []
    before, os.environ["PERTURANK_CACHE"] = os.environ.get("PERTURANK_CACHE"), str(tmp_path_factory.mktemp("cache"))
    try:
        documents = corpus.library(lambda done, of: told.append((done, of)))
        again = corpus.library(lambda done, of: pytest.fail("it is in the cache"))
    finally:
        os.environ.pop("PERTURANK_CACHE")
        if before is not None:
            os.environ["PERTURANK_CACHE"] = before
    assert told[-1][0] == told[-1][1] == len(told)
    assert again == documents
    found = {document.path: document for document in documents}
    assert len(found) == len(documents), "two documents have one name"
    return found


def test_the_library_has_several_thousand_documents_of_every_kind(gathered: dict[str, Document]) -> None:
    assert len(gathered) > 3000
    assert {document.kind for document in gathered.values()} == {"module", "class", "function", "method"}
    assert all(document.text for document in gathered.values())
    assert sum(document.signature != "" for document in gathered.values()) > len(gathered) / 2


def test_what_everybody_looks_for_is_there_under_its_usual_name(gathered: dict[str, Document]) -> None:
    for path in ("os.path.join", "builtins.str.join", "json.dumps", "pathlib.Path.exists", "heapq.heappush", "re"):
        assert path in gathered
    assert gathered["os.path.join"].signature == "(a, *p)"
    assert gathered["os.path.join"].summary.startswith("Join two or more pathname components")
    assert gathered["builtins.len"].uses > gathered["random.shuffle"].uses
    assert gathered["re"].importers > gathered["turtle"].importers


def test_modules_with_side_effects_were_not_imported(gathered: dict[str, Document]) -> None:
    modules = {document.module.partition(".")[0] for document in gathered.values()}
    assert not modules & LEFT_OUT
    assert "antigravity" not in sys.modules


def test_a_damaged_cache_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERTURANK_CACHE", str(tmp_path))
    monkeypatch.setattr(corpus, "gathered", lambda told: [])
    corpus.library()
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps([{"name": "x"}]))
    with pytest.raises(BadInput, match=r"is damaged .*; remove it"):
        corpus.library()
