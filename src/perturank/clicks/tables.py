"""Probabilities by relevance grade or by place, as people write them: checked once, then arrays."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from perturank.core import Array
from perturank.errors import BadInput


def probabilities(values: ArrayLike, name: str = "table") -> Array:
    """Return a list of probabilities as an array [g]; anything outside [0, 1] is refused."""
    try:
        table = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise BadInput(f"the {name} probabilities are {values!r}", "give a list of numbers such as 0,.5,1") from None
    if table.ndim != 1 or table.size == 0:
        raise BadInput(f"the {name} probabilities have shape {table.shape}", "give a list, one number per entry")
    outside = np.flatnonzero(~((table >= 0) & (table <= 1)))
    if outside.size:
        at = int(outside[0])
        raise BadInput(f"entry {at} of the {name} probabilities is {table[at]:g}", "it must be between 0 and 1")
    return jnp.asarray(table)


def check_grades(grades: ArrayLike, n_grades: int) -> None:
    """Refuse grades that a table of n_grades entries does not know."""
    labels = np.asarray(grades)
    if labels.dtype.kind not in "iu":
        raise BadInput(f"grades have type {labels.dtype}", "they must be whole numbers from 0")
    strangers = labels[(labels < 0) | (labels >= n_grades)]
    if strangers.size:
        grade = int(strangers.flat[0])
        raise BadInput(
            f"grade {grade} has no entry in the click table of {n_grades} grades",
            f"grades must be 0 to {n_grades - 1}, or give a table with more entries",
        )


def as_text(values: ArrayLike) -> str:
    """Return probabilities as they are written in a user's specification.

    >>> as_text([0.0, 0.05, 1.0])
    '0,0.05,1'
    """
    return ",".join(f"{value:.7g}" for value in np.asarray(values, np.float32))


def no_table(name: str, n_grades: int, known: Sequence[int], example: str) -> BadInput:
    """Return the error for a named user without a table for this number of grades."""
    exist = ", ".join(map(str, sorted(known)))
    return BadInput(
        f"{name} users have no table for {n_grades} grades",
        f"tables exist for {exist} grades; give your own, such as {example}",
    )
