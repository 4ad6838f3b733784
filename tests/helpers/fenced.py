"""Fenced blocks of Markdown pages, each with the comments above it that say how it is run.

`<!-- run as: … -->`   these shell lines run in place of the block's own, which are only read by the command line
`<!-- before: … -->`   these shell lines run first
`<!-- file: NAME -->`  the block is a file of this name
`<!-- output -->`      the block is what the one above it prints; … stands for anything
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PART = re.compile(
    r"(?P<comment><!--(?P<said>.*?)-->)"
    r"|^(?P<indent>[ >]*)(?P<fence>`{3,}|~{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^[ >]*(?P=fence)[ ]*$"
    r"|(?P<prose>\S[^\n]*)",
    re.M | re.S,
)
HOW = ("run as", "before", "file", "output")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language and text, and how it is run."""

    page: Path
    line: int
    language: str
    text: str
    how: dict[str, str]

    @property
    def where(self) -> str:
        """The place for a message."""
        return f"{self.page.name}:{self.line}"


def pages() -> list[Path]:
    """Return the README, that of the light client, and every page of the documentation."""
    readmes = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "clients" / "python" / "README.md"]
    return [*readmes, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, markdown: str | None = None) -> Iterator[Block]:
    """Yield the blocks of a page in order."""
    content = page.read_text(encoding="utf-8") if markdown is None else markdown
    how: dict[str, str] = {}
    for part in PART.finditer(content):
        if part["comment"]:
            key, _, value = part["said"].strip().partition(":")
            how |= {key: value.strip()} if key in HOW else {}
        elif part["fence"]:
            text = re.sub(rf"^{re.escape(part['indent'])}", "", part["text"], flags=re.M)
            yield Block(page, content.count("\n", 0, part.start()) + 1, part["language"].strip(), text, how)
            how = {}
        else:
            how = {}
