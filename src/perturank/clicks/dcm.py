"""The dependent click model: a user reads down the list, clicks, and at some point stops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from perturank.clicks.tables import as_text, check_grades, no_table, probabilities
from perturank.core import Array, ClickModel, Judgement, Key
from perturank.errors import BadInput

Stop = Literal["examined", "clicked"]

# Click and stop probabilities by grade. Five grades: table:click; three and two: the field's usual tables.
TABLES: dict[str, dict[int, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "perfect": {
        5: ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
        3: ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        2: ((0.0, 1.0), (0.0, 0.0)),
    },
    "navigational": {
        5: ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
        3: ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        2: ((0.05, 0.95), (0.2, 0.9)),
    },
    "informational": {
        5: ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
        3: ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        2: ((0.4, 0.9), (0.1, 0.5)),
    },
}


class DCM(eqx.Module):
    """A user who clicks an examined document of grade g with p_click[g] and stops with p_stop[g].

    `stop="examined"` draws a stop at every examined document, clicked or not, as the field's
    simulations do; `stop="clicked"` draws it at clicked documents only, as the model is defined.
    """

    judges_by: ClassVar[Judgement] = "grades"

    p_click: Array = eqx.field(converter=partial(probabilities, name="click"))
    p_stop: Array = eqx.field(converter=partial(probabilities, name="stop"))
    stop: Stop = eqx.field(static=True, default="examined")

    def __check_init__(self) -> None:
        if self.p_click.shape != self.p_stop.shape:
            raise BadInput(
                f"the table has {self.p_click.size} click and {self.p_stop.size} stop probabilities",
                "give one of each per grade",
            )
        if self.stop not in ("examined", "clicked"):
            raise BadInput(f"the stop rule is {self.stop!r}", "it must be 'examined' or 'clicked'")

    @classmethod
    def table(cls, click: ArrayLike, stop: ArrayLike, rule: Stop = "examined") -> DCM:
        """Return the user of this table, from grade 0 up.

        >>> DCM.table(click=[0, 0.5, 1], stop=[0, 0, 0.5]).spec
        'dcm:click=0,0.5,1;stop=0,0,0.5;rule=examined'
        """
        return cls(click, stop, rule)  # type: ignore[arg-type]

    @property
    def n_grades(self) -> int:
        """How many grades this user can tell apart."""
        return self.p_click.size

    @property
    def spec(self) -> str:
        """The user in one line, from which it can be made again."""
        return f"dcm:click={as_text(self.p_click)};stop={as_text(self.p_stop)};rule={self.stop}"

    def check(self, grades: ArrayLike) -> None:
        """Refuse grades without an entry in the table."""
        check_grades(grades, self.n_grades)

    def click(self, grades: Array, mask: Array, key: Key) -> Array:
        """Return the clicks on a list of grades [k], top first; masked places get none; [k]."""
        place = jnp.arange(grades.shape[0])
        draws = jax.random.uniform(key, (2, grades.shape[0]))
        # Outcomes at places never reached are drawn too, and then cut off by the first stop.
        attracted = mask & (draws[0] < self.p_click[grades])
        may_stop = mask if self.stop == "examined" else attracted
        stops = may_stop & (draws[1] < self.p_stop[grades])
        last = jnp.min(jnp.where(stops, place, grades.shape[0]))
        return attracted & (place <= last)


def _maker(name: str) -> Callable[..., ClickModel]:
    def maker(n_grades: int, stop: Stop = "examined") -> DCM:
        tables = TABLES[name]
        if n_grades not in tables:
            raise no_table(name, n_grades, list(tables), "'dcm:click=0,.5,1;stop=0,0,0'")
        return DCM.table(*tables[n_grades], rule=stop)

    return maker


PUBLISHED: dict[str, tuple[Callable[..., ClickModel], str]] = {
    "perfect": (_maker("perfect"), "clicks by relevance alone and reads every document"),
    "navigational": (_maker("navigational"), "looks for one highly relevant document and stops there"),
    "informational": (_maker("informational"), "reads on, and often clicks irrelevant documents"),
}
MODELS: dict[str, Callable[..., ClickModel]] = {"dcm": DCM.table}
