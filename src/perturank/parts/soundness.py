"""Whether a ranker that comes from outside can be one: each part says it of its own arrays."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np


class Fault(NamedTuple):
    """An array that no learning makes, by its path, and what is wrong with it."""

    array: str
    what: str


@runtime_checkable
class Checked(Protocol):
    """A part that knows more of its arrays than that whole numbers count something; it may have grown."""

    def fault(self) -> Fault | None:
        """Return what is wrong with its own arrays, whose kinds fit and whose inner parts are sound."""


def growing(ranker: Any) -> tuple[str, ...]:
    """Return how the paths of those arrays begin that grow as the ranker learns."""
    parts = jax.tree_util.tree_flatten_with_path(ranker, lambda node: isinstance(node, Checked))[0]
    return tuple(jax.tree_util.keystr(path) for path, part in parts if isinstance(part, Checked))


def fault(tree: Any, at: str = "") -> Fault | None:
    """Return the first fault of a ranker or of a part of it, inner parts first; None: it is sound."""
    knows = isinstance(tree, Checked)
    parts = jax.tree_util.tree_flatten_with_path(tree, lambda node: node is not tree and isinstance(node, Checked))[0]
    for path, part in parts:
        name = at + jax.tree_util.keystr(path)
        if isinstance(part, Checked):
            found = fault(part, name)
        else:
            found = None if knows or not _is_below_zero(part) else Fault(name, "counts below zero")
        if found is not None:
            return found
    own = tree.fault() if isinstance(tree, Checked) else None
    return None if own is None else Fault(at + own.array, own.what)


def _is_below_zero(leaf: Any) -> bool:
    """Return whether it holds whole numbers with a sign that nothing counts: all but a table's are counts."""
    return eqx.is_array(leaf) and np.dtype(leaf.dtype).kind == "i" and bool((np.asarray(leaf) < 0).any())
