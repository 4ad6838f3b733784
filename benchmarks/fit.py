"""Section `fit`: FLOP/s of a step on the whole history, as a share of the matrix product's.

Counted is what the formula needs: of a network with p weights, m of its units next to d features,
a document costs 2p forward, 2p for the gradient in the weights and 2(p − dm) back to the inputs.
Timed is all that `learn` does: noise, pairs and Adam included, and a second forward pass if there is one.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import histories
from benchmarks.loop import TOP, fresh
from benchmarks.section import Advance, Column, Effort, Row, Rows, Section
from benchmarks.timing import calibrate
from perturank import catalogue
from perturank.core import Interaction, Query
from perturank.sweeps.speed import shortest

N_FEATURES = 136
MANY = 10_000  # documents from which few steps are long enough to time

COLUMNS = (
    Column("milliseconds", "ms a step", "time"),
    Column("gflops", "GFLOP/s", "rate", "{:,.1f}"),
    Column("share_of_peak", "of the peak", "share", "{:.0%}"),
    Column("pairs", "pairs", "fact", "{:,.0f}"),
)


def flops(n_documents: int, n_rankers: int, widths: tuple[int, ...], n_features: int) -> float:
    """Return the operations of one gradient of n_rankers networks at so many documents.

    >>> flops(1, 1, (3,), 2) == 2 * 9 + 2 * 9 + 2 * 3
    True
    """
    sizes = (n_features, *widths, 1)
    p = sum(a * b for a, b in itertools.pairwise(sizes))
    return float(n_documents * n_rankers * (2 * p + 2 * p + 2 * (p - n_features * widths[0])))


def measure(effort: Effort, advance: Advance) -> Rows:
    """Return one row per size of history and ensemble."""
    rows: Rows = {}
    for n_documents in effort.fit_documents:
        filled = histories.remembering(n_documents, N_FEATURES)
        for n_rankers in effort.fit_rankers:
            # The peak is measured beside every number: a busy machine's speed changes within seconds.
            peak = calibrate(effort.seconds / 4)["gflops"]
            seconds = _seconds_a_step(filled, n_documents, n_rankers, effort)
            rate = flops(n_documents, n_rankers, effort.widths, N_FEATURES) / seconds / 1e9
            values = {"milliseconds": 1e3 * seconds, "gflops": rate, "share_of_peak": rate / peak}
            rows[f"N = {n_rankers}, {n_documents:,} documents"] = Row({**values, "pairs": histories.sizes(filled)[1]})
            advance(f"N = {n_rankers}, {n_documents:,} documents")
    return rows


def _seconds_a_step(filled: object, n_documents: int, n_rankers: int, effort: Effort) -> float:
    n_steps = 3 if n_documents >= MANY else 10
    entry = catalogue.published(histories.NAME)
    settings = entry.settings.changed(budget=None, n_steps=n_steps, n_rankers=n_rankers, widths=effort.widths)
    ranker = histories.moved(filled, fresh(histories.NAME, N_FEATURES, settings))
    rows = jax.random.uniform(jax.random.key(0), (TOP, N_FEATURES))
    shown = Query.of(rows, ids=np.arange(TOP)).take(jnp.arange(TOP))  # the first list once more
    interaction = Interaction(shown, jnp.arange(TOP) % 2 == 0, None)
    key = jax.random.key(1)
    return shortest(lambda: ranker.learn(interaction, key).theta, effort.seconds) / n_steps


SECTION = Section(
    "fit",
    "",
    "p2neurrank, one step on the whole history",
    lambda effort: COLUMNS,
    lambda effort: len(effort.fit_documents) * len(effort.fit_rankers),
    measure,
)
