"""The picture of the package as a house: `python docs/house.py` writes docs/images/house.svg.

The files in each room are read from the package. Imports lead down, or to a room on the same floor.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "src" / "perturank"
PICTURE = DOCS / "images" / "house.svg"
WIDTH, GAP, PADDING, LINE = 1000, 12, 10, 16  # pixels
CHARACTERS = {"name": 9.0, "says": 6.6, "files": 6.7}  # widths of a character, in pixels
STYLE = (
    "svg{--ground:#fff;--ink:#222;--soft:#4f555c;--line:#aab1b9;--study:#eaf3fb;--service:#fdf0e7;--library:#e9f6f0;"
    "--shared:#f1f2f4}@media(prefers-color-scheme:dark){svg{--ground:#17191c;--ink:#e3e4e6;--soft:#b5bbc2;"
    "--line:#59616b;--study:#1b2b3a;--service:#38281c;--library:#1a312a;--shared:#26292e}}"
    "text{fill:var(--ink)}.name{font:bold 14px system-ui,sans-serif}.says{font:12px system-ui,sans-serif}"
    ".files{font:11px ui-monospace,monospace;fill:var(--soft)}rect{stroke:var(--line)}"
)


@dataclass(frozen=True)
class Room:
    """A folder, or some modules, with what it is for; other rooms may lie in it."""

    name: str
    says: str
    colour: str
    modules: tuple[str, ...] = ()  # none: those of the folder
    inner: Column | None = None

    def lines(self, width: float) -> list[tuple[str, str]]:
        """Return the lines of text, each with its kind."""
        folder = () if self.inner else sorted(path.stem for path in (PACKAGE / self.name).glob("*.py"))
        files = [name for name in self.modules or folder if name != "__init__"]
        texts = ("name", self.name), ("says", self.says), ("files", " ".join(files))
        return [
            (kind, line)
            for kind, text in texts
            for line in textwrap.wrap(text, int((width - 2 * PADDING) / CHARACTERS[kind]), break_on_hyphens=False)
        ]

    def height(self, width: float) -> float:
        """Return the height that the room needs."""
        inside = GAP + self.inner.height(width - 2 * PADDING) if self.inner else 0
        return LINE * len(self.lines(width)) + inside + PADDING

    def draw(self, x: float, y: float, width: float, height: float) -> Iterator[str]:
        """Yield the room in a place of this size."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
        yield f'<rect {place} style="fill:var(--{self.colour})"/>'
        end = y + 3
        for kind, line in self.lines(width):
            end += LINE
            yield f'<text x="{x + PADDING:g}" y="{end:g}" class="{kind}">{html.escape(line)}</text>'
        if self.inner:
            top = end + GAP - 3
            yield from self.inner.draw(x + PADDING, top, width - 2 * PADDING, y + height - top - PADDING)


@dataclass(frozen=True)
class Row:
    """Rooms side by side, of these widths in proportion."""

    parts: tuple[tuple[float, Room | Column], ...]

    def widths(self, width: float) -> list[float]:
        """Return the widths of the parts."""
        free = width - GAP * (len(self.parts) - 1)
        return [free * share / sum(share for share, _ in self.parts) for share, _ in self.parts]

    def height(self, width: float) -> float:
        """Return the height that the row needs."""
        return max(part.height(own) for own, (_, part) in zip(self.widths(width), self.parts, strict=True))

    def draw(self, x: float, y: float, width: float, height: float) -> Iterator[str]:
        """Yield the row in a place of this size."""
        for own, (_, part) in zip(self.widths(width), self.parts, strict=True):
            yield from part.draw(x, y, own, height)
            x += own + GAP


@dataclass(frozen=True)
class Column:
    """Floors, the upper first; they share the height that is left over."""

    floors: tuple[Room | Row, ...]

    def height(self, width: float) -> float:
        """Return the height that the column needs."""
        return sum(floor.height(width) for floor in self.floors) + GAP * (len(self.floors) - 1)

    def draw(self, x: float, y: float, width: float, height: float) -> Iterator[str]:
        """Yield the column in a place of this size."""
        more = (height - self.height(width)) / len(self.floors)
        for floor in self.floors:
            own = floor.height(width) + more
            yield from floor.draw(x, y, width, own)
            y += own + GAP


def room(name: str, says: str, colour: str, *modules: str) -> Room:
    """Return a room; without modules it is a folder."""
    return Room(name, says, colour, modules)


STUDY = Column((
    room("reproduction, report", "plan, run what is missing, report.html", "study", "reproduction", "report/"),
    room("experiments", "one file for each figure of the paper", "study"),
    Row(((1, room("sweeps", "many runs", "study")), (1, room("results", "jobs, outcomes", "study")))),
    room("simulation", "one run, as a compiled loop", "study", "simulation", "runs", "evaluation"),
))  # fmt: skip
SERVING = Column((
    room("service/serving", "models in memory, lists", "service"),
    room("service/telemetry", "Prometheus, log lines", "service"),
))  # fmt: skip
LEARNING = Column((
    room("service/learner", "the log becomes versions", "service"),
    room("service/history", "old clicks come into the log", "service"),
    room("service", "child processes", "service", "children", "settings"),
))  # fmt: skip
ROOMS = Column((
    Row((
        (1, room("service/http", "requests in, answers out", "service")),
        (1, room("service/evaluation", "other rankers judged on the log", "service")),
    )),
    Row(((1, SERVING), (1, LEARNING))),
    room("service/log", "one order of everything that decides a model", "service"),
))  # fmt: skip
SERVICE = Column((
    room("play, remote_simulation", "people and simulated users", "service", "play/", "remote_simulation"),
    Room("service", "ranks, logs, and learns in a process of its own", "ground", inner=ROOMS),
))  # fmt: skip
MEASURES = "metrics", "measures", "orders", "significance", "theory", "anytime", "interleaving", "drift"
ALGORITHMS = Row((
    (8, room("rankers", "one file for each algorithm", "library")),
    (4, room("clicks", "simulated users", "library")),
    (7, room("datasets", "readers, cache, generators", "library")),
    (6, room("metrics", "measures, tests, bounds", "library", *MEASURES)),
))  # fmt: skip
MACHINE = "threads, caches, Ctrl-C; the built pages"
VOCABULARY = "Query, Ranking, Interaction, Ranker and its protocols, settings"
HOUSE = Column((
    room("cli", "the command line", "shared"),
    Row(((8, STUDY), (12, SERVICE), (4, room("client", "the API from Python, without JAX", "service")))),
    Row((
        (5, room("exports", "rankers in formats of other systems", "library")),
        (5, room("sklearn, teaching", "labels, teachers, an estimator", "library", "sklearn", "teachers", "teaching")),
        (8, room("storage, catalogue", "files; everything that has a name", "library", "storage", "catalogue")),
        (5, room("counterfactual", "the value of a ranker on lists of another", "library")),
    )),
    ALGORITHMS,
    room("parts", "what rankers are made of: pure functions on arrays", "library"),
    room("core", VOCABULARY, "library", "core", "publishing", "hyperparameters", "layers", "errors"),
    Row((
        (3, room("wire", "requests, answers, specifications: what service and client share", "shared")),
        (2, room("machine, pages", MACHINE, "shared", "machine", "interrupts", "pages/")),
    )),
))  # fmt: skip


def draw() -> str:
    """Return the picture."""
    inside = WIDTH - 2 * GAP
    height = HOUSE.height(inside)
    whole = f"{WIDTH} {height + 2 * GAP:g}"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole}" width="{WIDTH}">',
        "<title>The package as a house: every room with its files; imports lead down</title>",
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" style="fill:var(--ground);stroke:none"/>',
        *HOUSE.draw(GAP, GAP, inside, height),
        "</svg>\n",
    ])  # fmt: skip


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
