from __future__ import annotations

import numpy as np
import pytest
from helpers import small

from benchmarks import growth, histories
from benchmarks.loop import fresh
from benchmarks.section import Row
from perturank import storage


def test_the_exponent_is_that_of_a_power_law_at_late_rounds() -> None:
    power = {t: 0.02 * t**0.7 for t in (500, 1000, 2000, 5000)}
    assert growth.exponent({100: 99.0, **power}) == pytest.approx(0.7, abs=1e-3)
    assert growth.exponent({10: 1.0, 20: 4.0}) == pytest.approx(2)
    assert growth.exponent({100: 1.0, 1000: None}) is None


def test_repeated_queries_are_different_documents_with_equal_content() -> None:
    data = small.easy(3, (2, 4), 0)
    more = growth.repeated(data, 7)
    assert more.lengths.tolist() == [2, 4, 2, 2, 4, 2, 2]
    np.testing.assert_array_equal(more.query(4)[0], data.query(1)[0])


def test_curves_have_the_oracle_in_every_panel() -> None:
    rows = {
        f"{growth.BUDGET}, 300 queries": Row({"ms_at_100": 1.0, "ms_at_5000": 2.0, "exponent": 0.1}),
        f"{growth.BUDGET}, 6,000 queries": Row({"ms_at_100": 3.0, "ms_at_5000": None}),
        growth.ORACLE: Row({"ms_at_100": 9.0}),
    }
    panels = growth.curves(rows)
    assert panels["300 queries"] == {growth.BUDGET: {100: 1.0, 5000: 2.0}, "oracle of p2neurrank": {100: 9.0}}
    assert panels["6,000 queries"][growth.BUDGET] == {100: 3.0}


def test_a_moved_history_is_that_of_the_small_network_and_nothing_else_changes() -> None:
    filled = histories.remembering(40, 3)
    documents, pairs = histories.sizes(filled)
    assert documents == 40
    assert pairs > 4
    for name in ("p2neurrank", "p2linrank", "p2headrank"):
        blank = fresh(name, 3)
        moved = histories.moved(filled, blank)
        assert histories.sizes(moved) == (documents, pairs)
        assert histories.sizes(blank) == (0, 0)
        theta = {key: array for key, array in storage.arrays_of(moved).items() if key.startswith((".theta", ".fit"))}
        assert theta
        for key, array in theta.items():
            np.testing.assert_array_equal(array, storage.arrays_of(blank)[key])
