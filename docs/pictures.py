"""The pictures of the idea, drawn from a real ranker: `python docs/pictures.py` writes docs/images/idea-*.svg.

Six documents, three linear rankers, 32 lists clicked by a simulated user. Nothing in them is made up:
ranks, certain orders, layers and lists are what the library returns.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import perturank as pr
from perturank.clicks import user
from perturank.parts import certainty
from perturank.rankers.p2rank import P2LinRank
from perturank.storage import put

IMAGES = Path(__file__).parent / "images"
NAMES = "ABCDEF"
FEATURES = np.random.default_rng(3).random((6, 3)).round(1)
GRADES = jnp.asarray([2, 2, 1, 1, 0, 0])
ROUNDS, N_RANKERS, N_LISTS = 32, 3, 3
SPREAD = (45, 105, 65)  # of a layer's documents; unequal, so that no line runs through a document between its ends

COLOURS = ("#0072B2", "#D55E00", "#007D5C", "#9A6700", "#B0478A", "#56606B")
ON_DARK = ("#5DB4EE", "#FF9355", "#35CFA2", "#F0B030", "#EE9DCB", "#B4BCC6")
STYLE = (
    "svg{--ground:#fff;--ink:#222;--soft:#5a5f66;--line:#c9ced4;"
    + "".join(f"--{name}:{colour};" for name, colour in zip(NAMES, COLOURS, strict=True))
    + "}@media(prefers-color-scheme:dark){svg{--ground:#17191c;--ink:#e3e4e6;--soft:#a4a9b0;--line:#4a5058;"
    + "".join(f"--{name}:{colour};" for name, colour in zip(NAMES, ON_DARK, strict=True))
    + "}}text{fill:var(--ink);text-anchor:middle;dominant-baseline:central}.soft{fill:var(--soft);font-size:13px}"
    ".on{fill:var(--ground);font-weight:bold}.left{text-anchor:start}"
)


@dataclass(frozen=True)
class Seen:
    """What the pictures show: ranks [6, N], certain [6, 6], the mean order [6], and lists with their free counts."""

    ranks: np.ndarray
    certain: np.ndarray
    order: list[int]
    lists: list[tuple[list[int], list[int]]]

    @property
    def layers(self) -> list[list[int]]:
        """Documents by how many others stand in the longest chain of certain orders above them."""
        depth = dict.fromkeys(range(len(NAMES)), 0)
        for low in self.order:  # whoever certainly precedes it stands before it in the mean order
            depth[low] = max((depth[high] + 1 for high in np.flatnonzero(self.certain[:, low]).tolist()), default=0)
        return [[i for i in self.order if depth[i] == layer] for layer in range(max(depth.values()) + 1)]

    @property
    def links(self) -> list[tuple[int, int]]:
        """Certain orders that do not follow from two others."""
        c = self.certain
        return [(int(i), int(j)) for i, j in np.argwhere(c) if not (c[i] & c[:, j]).any()]


def seen() -> Seen:
    """Return what a ranker knows that has learned from 32 lists."""
    query, watcher = pr.Query.of(FEATURES), user("perfect", 3)
    ranker = pr.make("p2linrank", n_features=3, n_rankers=N_RANKERS, noise_std=0.5, floor=0.0, seed=4)
    assert isinstance(ranker, P2LinRank)
    for t in range(ROUNDS):
        showing, clicking, learning = jax.random.split(jax.random.key(t), 3)
        ranking = ranker.rank(query, showing, 6)
        clicks = watcher.click(GRADES[ranking.order], jnp.ones(6, bool), clicking)
        seen = pr.Interaction.of(query, ranking, ranking.documents[np.asarray(clicks)])
        ranker = ranker.learn(seen, learning)
    scores = ranker.scores(query)
    certain = np.asarray(certainty.unanimous(scores, query.mask))[:6, :6]
    lists = [ranker.rank(query, jax.random.key(100 + i), 6) for i in range(N_LISTS)]
    return Seen(
        np.argsort(np.argsort(-np.asarray(scores)[:6], axis=0), axis=0),
        certain,
        np.argsort(-np.asarray(ranker.score(query))[:6]).tolist(),
        [(each.documents.tolist(), np.asarray(each.free).tolist()) for each in lists],
    )


def drawn(seen: Seen) -> dict[str, str]:
    """Return the four pictures by file name."""
    return {
        "idea-1-ensemble.svg": _svg("What each of the three rankers makes of the same clicks", 300, _ensemble(seen)),
        "idea-2-certain.svg": _svg("Pairs of documents on whose order all three agree", 340, _orders(seen)),
        "idea-3-layers.svg": _svg("The certain orders as layers", 90 + 70 * (len(seen.layers) - 1), _layers(seen)),
        "idea-4-lists.svg": _svg("Three lists that the ranker may show", 330, _lists(seen)),
    }


def _ensemble(seen: Seen) -> Iterator[str]:
    """One column per ranker, its best document on top; lines that cross are orders in dispute."""
    for n in range(N_RANKERS):
        yield _text(110 + 110 * n, 24, f"ranker {n + 1}", "soft")
    for i, name in enumerate(NAMES):
        heights = [60 + 42 * int(rank) for rank in seen.ranks[i]]
        points = " ".join(f"{110 + 110 * n},{y}" for n, y in enumerate(heights))
        yield f'<polyline points="{points}" fill="none" stroke="var(--{name})" stroke-width="3"/>'
        for n, y in enumerate(heights):
            yield _document(110 + 110 * n, y, name)


def _orders(seen: Seen) -> Iterator[str]:
    """Row over column: ● all rankers put the row's document first, ? they disagree."""
    for place, i in enumerate(seen.order):
        yield _document(90 + 44 * place, 30, NAMES[i])
        yield _document(44, 72 + 38 * place, NAMES[i])
        for other, j in list(enumerate(seen.order))[place + 1 :]:
            x, y = 90 + 44 * other, 72 + 38 * place
            sure = bool(seen.certain[i, j])
            yield f'<rect x="{x - 20}" y="{y - 17}" width="40" height="34" rx="4" fill="none" stroke="var(--line)"/>'
            yield f'<circle cx="{x}" cy="{y}" r="7" fill="var(--ink)"/>' if sure else _text(x, y, "?")
    n, pairs = int(seen.certain.sum()), len(NAMES) * (len(NAMES) - 1) // 2
    yield _text(44, 300, f"● {n} of {pairs} are certain", "soft left")
    yield _text(44, 322, f"? {pairs - n} must still be explored", "soft left")


def _layers(seen: Seen) -> Iterator[str]:
    """One row per layer; a line goes down from a document to those that it certainly precedes."""
    at = {
        i: (220 + SPREAD[row % 3] * (2 * place - len(layer) + 1), 45 + 70 * row)
        for row, layer in enumerate(seen.layers)
        for place, i in enumerate(layer)
    }
    for high, low in seen.links:
        (x, y), (to_x, to_y) = at[high], at[low]
        yield f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="var(--soft)" stroke-width="2"/>'
    for i, (x, y) in at.items():
        yield _document(x, y, NAMES[i])


def _lists(seen: Seen) -> Iterator[str]:
    """One column per list; beside each document how many could have stood there."""
    for n, (documents, free) in enumerate(seen.lists):
        x = 75 + 130 * n
        yield _text(x + 22, 24, f"list {n + 1}", "soft")
        for place, (i, among) in enumerate(zip(documents, free, strict=True)):
            y = 64 + 42 * place
            yield _document(x, y, NAMES[i])
            yield _text(x + 26, y, "certain" if among == 1 else f"one of {among}", "soft left")
    chance = [f"1/{int(np.prod(free))}" for _, free in seen.lists]
    for n, each in enumerate(chance):
        yield _text(97 + 130 * n, 310, f"probability {each}", "soft")


def _document(x: int, y: int, name: str) -> str:
    return f'<circle cx="{x}" cy="{y}" r="15" fill="var(--{name})"/>' + _text(x, y, name, "on")


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{html.escape(text)}</text>'


def _svg(title: str, height: int, parts: Iterator[str]) -> str:
    """Return a picture that brings its own ground, light or dark as the reader has it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 {height}" role="img" aria-labelledby="t" '
        f'font-family="system-ui, sans-serif" font-size="16"><title id="t">{title}</title><style>{STYLE}</style>'
        f'<rect width="440" height="{height}" rx="8" fill="var(--ground)"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    for file, picture in drawn(seen()).items():
        put(IMAGES / file, picture.encode())
