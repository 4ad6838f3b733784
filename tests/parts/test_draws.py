from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

from perturank.parts import draws

KEY = jax.random.key(5)
LAWS = {
    "uniform": (draws.uniform, stats.uniform),
    "normal": (draws.normal, stats.norm),
    "gumbel": (draws.gumbel, stats.gumbel_r),
}


@pytest.mark.parametrize("law", LAWS)
def test_numbers_follow_their_law_and_are_independent(law: str) -> None:
    draw, expected = LAWS[law]
    found = np.asarray(draw(KEY, (40_000,)), np.float64)
    assert np.isfinite(found).all()
    assert stats.kstest(found, expected.cdf).pvalue > 1e-4
    for lag in (1, 2, 20_000):  # the two words of a block are neighbours
        assert abs(np.corrcoef(found[:-lag], found[lag:])[0, 1]) < 5 / np.sqrt(len(found) - lag)


def test_numbers_depend_on_the_key_and_on_nothing_else() -> None:
    again, other = draws.words(KEY, (7, 3)), draws.words(jax.random.key(6), (7, 3))
    np.testing.assert_array_equal(again, draws.words(KEY, (7, 3)))
    assert (np.asarray(again) != np.asarray(other)).any()
    assert len(np.unique(again)) == 21


def test_no_uniform_number_is_0_or_1() -> None:
    found = np.asarray(draws.uniform(KEY, (1 << 20,)))
    assert 0 < found.min() < 1e-5
    assert 1 > found.max() > 1 - 1e-5


def test_padding_does_not_change_what_is_drawn_before_it() -> None:
    key = jax.random.key(4)
    np.testing.assert_array_equal(draws.words(key, (7,)), draws.words(key, (64,))[:7])
