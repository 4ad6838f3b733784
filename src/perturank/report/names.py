"""What things are called in a report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from perturank.experiments.experiment import Experiment

HIGHER_IS_BETTER = ("ndcg", "cumulative_ndcg")
LOWER_IS_BETTER = ("regret", "seconds", "certain_wrong", "reversed")


def sign(measure: str) -> int:
    """Return 1 where more is better, -1 where less is, 0 where neither can be said.

    >>> sign("ndcg"), sign("regret"), sign("uncertain")
    (1, -1, 0)
    """
    return int(measure in HIGHER_IS_BETTER) - int(measure in LOWER_IS_BETTER)


def slug(text: str) -> str:
    """Return the text as part of a file name or an anchor.

    >>> slug("fig:offline_linear, twice")
    'fig-offline_linear-twice'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-") or "x"


def file_names(experiments: Sequence[Experiment]) -> dict[tuple[str, int], str]:
    """Return a file name for the i-th drawing of every experiment: its label, and more only where two share one."""
    asked = {(each.name, i): drawing for each in experiments for i, drawing in enumerate(each.drawings)}
    short = {one: slug(drawing.label.removeprefix("fig:")) for one, drawing in asked.items()}
    for more in (
        {one: slug(d.measure) for one, d in asked.items()},
        {one: slug(f"{one[0]}-{one[1]}") for one in asked},
    ):
        shared = Counter(short.values())
        short = {one: name if shared[name] == 1 else f"{name}-{more[one]}" for one, name in short.items()}
    return short


def p_value(p: float) -> str:
    """Return a p-value in words.

    >>> p_value(0.0123), p_value(1e-9)
    ('p = 0.012', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def plural(n: int, one: str, many: str = "") -> str:
    """Return a count with its noun.

    >>> plural(1, "run"), plural(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
