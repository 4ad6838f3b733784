"""The position-based model: a place is examined or not, whatever stands above it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from perturank.clicks.tables import as_text, check_grades, probabilities
from perturank.core import Array, ClickModel, Judgement, Key
from perturank.errors import BadInput

NOISE = 0.1  # the click probability of an examined document of grade 0


def _places(values: ArrayLike | None) -> Array | None:
    return None if values is None else probabilities(values, "examine")


class PBM(eqx.Module):
    """A user who examines place r with p_examine[r], and clicks an examined document of grade g with p_click[g].

    Without p_examine, place r (from 1) is examined with probability (1 / r) ** eta.
    """

    judges_by: ClassVar[Judgement] = "grades"

    p_click: Array = eqx.field(converter=partial(probabilities, name="click"))
    p_examine: Array | None = eqx.field(converter=_places, default=None)
    eta: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if not (isinstance(self.eta, int | float) and 0 <= self.eta < float("inf")):
            raise BadInput(f"eta is {self.eta!r}", "it must be a number, 0 or more")

    @classmethod
    def table(cls, click: ArrayLike, examine: ArrayLike | None = None, eta: float = 1.0) -> PBM:
        """Return the user with these click probabilities by grade and examination probabilities by place.

        >>> PBM.table(click=[0.1, 1], eta=2).spec
        'pbm:click=0.1,1;eta=2'
        """
        return cls(click, examine, eta)  # type: ignore[arg-type]

    @property
    def n_grades(self) -> int:
        """How many grades this user can tell apart."""
        return self.p_click.size

    @property
    def spec(self) -> str:
        """The user in one line, from which it can be made again."""
        places = f"eta={self.eta:g}" if self.p_examine is None else f"examine={as_text(self.p_examine)}"
        return f"pbm:click={as_text(self.p_click)};{places}"

    def check(self, grades: ArrayLike) -> None:
        """Refuse grades without an entry in the table."""
        check_grades(grades, self.n_grades)

    def examination(self, k: int) -> Array:
        """Return the probability that each of the first k places is examined; [k]."""
        if self.p_examine is None:
            return jnp.asarray(np.arange(1, k + 1, dtype=np.float64) ** -self.eta, jnp.float32)
        if k > self.p_examine.size:
            raise BadInput(f"the user examines {self.p_examine.size} places of a list of {k}", "give more, or eta")
        return self.p_examine[:k]

    def click(self, grades: Array, mask: Array, key: Key) -> Array:
        """Return the clicks on a list of grades [k], top first; masked places get none; [k]."""
        draws = jax.random.uniform(key, (2, grades.shape[0]))
        examined = draws[0] < self.examination(grades.shape[0])
        return mask & examined & (draws[1] < self.p_click[grades])


def position_based(n_grades: int, stop: str = "examined") -> PBM:
    """Return the usual user of propensity studies: attraction .1 + .9 (2^g − 1) / (2^g_max − 1), eta = 1.

    A position-based user never stops, so the stop rule changes nothing.
    """
    gains = 2.0 ** np.arange(n_grades) - 1
    return PBM.table(NOISE + (1 - NOISE) * gains / max(gains[-1], 1.0))


PUBLISHED: dict[str, tuple[Callable[..., ClickModel], str]] = {
    "position-based": (position_based, "examines place r with probability 1/r, whatever was clicked above"),
}
MODELS: dict[str, Callable[..., ClickModel]] = {"pbm": PBM.table}
