"""HTML from values: whatever is not made here is text, and is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

EMPTY = ("img", "meta", "source", "br")  # elements without an end


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def joined(children: Iterable[str]) -> Markup:
    """Return the children one after the other, plain text escaped.

    >>> joined([Markup("<b>"), "<script>"])
    '<b>&lt;script&gt;'
    """
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """Return an element; a trailing _ keeps an attribute from being a keyword, other _ are hyphens.

    >>> element("a", "x < y", href="#top", aria_label='"', class_="")
    '<a href="#top" aria-label="&quot;">x &lt; y</a>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items() if value
    )
    return Markup(f"<{name}{given}>" if name in EMPTY else f"<{name}{given}>{joined(children)}</{name}>")


def table(caption: str, head: Iterable[Iterable[str]], rows: Iterable[Iterable[str]]) -> Markup:
    """Return a table in a box that scrolls by itself; heads and rows are of whole cells."""
    lines = [element("tr", *cells) for cells in head]
    body = [element("tr", *cells) for cells in rows]
    inner = element("table", element("caption", caption), element("thead", *lines), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
