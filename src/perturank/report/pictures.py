"""A figure as files: PNG and PDF, and an SVG for the page that follows the reader's light or dark."""

from __future__ import annotations

import io
import re

from perturank.errors import BadInput
from perturank.report.styles import COLOURS, INK

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError:
    raise BadInput("figures need matplotlib", "pip install 'perturank[figures]'") from None

# Colours of the same hue that stand out on a dark ground.
DARK = dict(
    zip(COLOURS, ("#4FA8E0", "#F08040", "#2CC79A", "#F0B030", "#E59CC4", "#8ACBF2", "#FFFFFF"), strict=True)
) | {INK: "#D8D8D8", "#808080": "#A0A0A0", "#ffffff": "#17191C"}


def png(figure: Figure) -> bytes:
    """Return the figure for screens and slides."""
    return _saved(figure, format="png", metadata={"Software": None})


def pdf(figure: Figure) -> bytes:
    """Return the figure for papers, with letters as letters."""
    with mpl.rc_context({"pdf.fonttype": 42}):
        return _saved(figure, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})


def svg(figure: Figure) -> bytes:
    """Return the figure for the page: its colours are variables, and the ground is the page's."""
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.hashsalt": "perturank", "svg.fonttype": "path"}):
        drawn = _saved(figure, format="svg", transparent=True, metadata=nothing).decode()
    drawn = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), drawn)  # half the size
    names = {colour.lower(): f"--c{i}" for i, colour in enumerate(DARK)}
    drawn = re.sub("|".join(names), lambda found: f"var({names[found[0]]})", drawn)
    light, dark = (
        "".join(f"{names[key.lower()]}:{value};" for key, value in pairs)
        for pairs in ([(key, key) for key in DARK], list(DARK.items()))
    )
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    head, tag, body = drawn.partition("<defs>")
    return f"{head}{style}{tag}{body}".encode()


def _saved(figure: Figure, **options: object) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, **options)  # type: ignore[arg-type]
    return content.getvalue()
