"""The documents that the reader finds in the whole library of this Python, and how well known each is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from perturank.errors import BadInput
from perturank.play import corpus
from perturank.play.corpus import LibraryDocument, count_references, load_documents
from perturank.play.stdlib_reader import LEFT_OUT


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LibraryDocument]:
    progress: list[tuple[int, int]] = []
    before, os.environ["PERTURANK_CACHE"] = os.environ.get("PERTURANK_CACHE"), str(tmp_path_factory.mktemp("cache"))
    try:
        documents = load_documents(lambda done, of: progress.append((done, of)))
        again = load_documents(lambda done, of: pytest.fail("it is in the cache"))
    finally:
        os.environ.pop("PERTURANK_CACHE")
        if before is not None:
            os.environ["PERTURANK_CACHE"] = before
    assert progress[-1][0] == progress[-1][1] == len(progress)
    assert again == documents
    found = {document.path: document for document in documents}
    assert len(found) == len(documents), "two documents have one name"
    return found


def test_the_library_has_several_thousand_documents_of_every_kind(library: dict[str, LibraryDocument]) -> None:
    assert len(library) > 3000
    assert {document.kind for document in library.values()} == {"module", "class", "function", "method"}
    assert all(document.text for document in library.values())
    assert sum(document.signature != "" for document in library.values()) > len(library) / 2


def test_what_everybody_looks_for_is_there_under_its_usual_name(library: dict[str, LibraryDocument]) -> None:
    for path in ("os.path.join", "builtins.str.join", "json.dumps", "pathlib.Path.exists", "heapq.heappush", "re"):
        assert path in library
    assert library["os.path.join"].signature == "(a, *p)"
    assert library["os.path.join"].summary.startswith("Join two or more pathname components")
    assert library["builtins.len"].uses > library["random.shuffle"].uses
    assert library["re"].importers > library["turtle"].importers


def test_modules_with_side_effects_were_not_imported(library: dict[str, LibraryDocument]) -> None:
    modules = {document.module.partition(".")[0] for document in library.values()}
    assert not modules & LEFT_OUT
    assert "antigravity" not in sys.modules


def test_a_damaged_cache_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERTURANK_CACHE", str(tmp_path))
    monkeypatch.setattr(corpus, "read_library", lambda on_progress: [])
    load_documents()
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps([{"name": "x"}]))
    with pytest.raises(BadInput, match=r"is damaged .*; remove it"):
        load_documents()


def test_a_use_is_the_name_in_another_module_that_imports_it() -> None:
    names = [("os.path", "join"), ("builtins", "len"), ("json", "dumps"), ("json", "JSONEncoder.default")]
    texts = [
        ("a", "import os\nprint(os.path.join('x'))"),
        ("b", "join = 1"),
        ("c", "from json import dumps as d\nlen(d(1))"),
        ("json", "import json\ndef dumps(): pass"),
    ]
    uses, importers = count_references(names, texts)
    assert uses["os.path", "join"] == 1
    assert uses["json", "dumps"] == 1
    assert uses["json", "JSONEncoder.default"] == 0
    assert uses["builtins", "len"] == 1
    assert (importers["json"], importers["os.path"], importers["builtins"]) == (1, 1, 0)
