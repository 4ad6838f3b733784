"""Search results as the page gets them: plain text in parts, never markup."""

from __future__ import annotations

from typing import Any

from perturank.play.corpus import Document
from perturank.play.highlighting import marked
from perturank.play.library import Library
from perturank.play.searching import Found
from perturank.play.words import terms

MOST_CHARACTERS = 240
MOST_SIGNATURE = 160


def shown(library: Library, found: Found, name: str) -> dict[str, Any]:
    """Return one search with the lists of all models, best first; `name` is what a click has to say."""
    wanted = frozenset(terms(found.query))
    by_bm25 = {path: place for place, path in enumerate(found.question.ids, 1)}

    def result(path: str, certain: bool) -> dict[str, Any]:
        document = library.documents[library.rows[path]]
        return described(document, wanted) | {"path": path, "certain": certain, "bm25": by_bm25[path]}

    lists = [
        {
            "model": model,
            "version": each.version,
            "results": [result(path, certain) for path, certain in zip(each.ids, each.certain, strict=True)],
        }
        for model, each in found.lists.items()
    ]
    return {"search": name, "query": found.query, "candidates": len(found.question.ids), "lists": lists}


def described(document: Document, wanted: frozenset[str]) -> dict[str, Any]:
    """Return a document as a result: its name and first lines in parts, those that match marked."""
    return {
        "title": marked(document.path, wanted),
        "kind": document.kind,
        "signature": _cut(document.signature, MOST_SIGNATURE),
        "lines": marked(_cut(document.summary, MOST_CHARACTERS), wanted),
    }


def _cut(text: str, most: int) -> str:
    """Return the text, or its beginning up to a word's end."""
    return text if len(text) <= most else f"{text[: text.rfind(' ', most // 2, most)]} …"
