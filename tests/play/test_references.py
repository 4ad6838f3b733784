from __future__ import annotations

from perturank.play.references import counted

DOCUMENTS = [("os.path", "join"), ("builtins", "len"), ("json", "dumps"), ("json", "JSONEncoder.default")]


def test_a_use_is_the_name_in_another_module_that_imports_it() -> None:
    texts = [
        ("a", "import os\nprint(os.path.join('x'))"),
        ("b", "join = 1"),
        ("c", "from json import dumps as d\nlen(d(1))"),
        ("json", "import json\ndef dumps(): pass"),
    ]
    uses, importers = counted(DOCUMENTS, texts)
    assert uses["os.path", "join"] == 1
    assert uses["json", "dumps"] == 1
    assert uses["json", "JSONEncoder.default"] == 0
    assert uses["builtins", "len"] == 1
    assert (importers["json"], importers["os.path"], importers["builtins"]) == (1, 1, 0)
