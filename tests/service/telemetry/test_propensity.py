from __future__ import annotations

import math

import numpy as np
import pytest

from perturank.service.telemetry.cost import log_probability, probability


@pytest.mark.parametrize("free, p", [([2, 1], 0.5), ([4, 2, 1], 0.125), ([3, 2, 1], round(1 / 6, 7)), ([1, 1], 1.0)])
def test_equal_lots_have_exactly_their_probability(free: list[int], p: float) -> None:
    in_float32 = -np.log(np.array(free, np.float32))
    assert probability(log_probability(in_float32.tolist(), free)) == p


def test_half_is_a_half() -> None:
    assert math.exp(log_probability([float(np.float32(-0.6931472)), 0.0], [2, 1])) == 0.5


def test_other_probabilities_multiply() -> None:
    log_p = np.log(np.array([0.7, 0.25, 0.9], np.float32))
    assert math.exp(log_probability(log_p.tolist(), [4, 4, 2])) == pytest.approx(0.7 * 0.25 * 0.9, rel=1e-6)


def test_no_more_digits_are_said_than_are_known() -> None:
    assert probability(math.log(np.float32(0.1))) == 0.1
    assert probability(-1e9) == 0.0
