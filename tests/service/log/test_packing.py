from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from perturank.service.log.records import packed, unpacked
from perturank.service.log.refusals import Refused

ANY = arrays(np.uint32, array_shapes(min_dims=2, max_dims=2, max_side=20), elements=st.integers(0, 2**32 - 1))


@given(ANY)
def test_every_bit_of_every_float_comes_back(bits: np.ndarray) -> None:
    rows = bits.view(np.float32)
    features, prior, memo = unpacked(packed(rows, None, []), [])
    assert features.tobytes() == rows.tobytes()
    assert features.shape == rows.shape
    assert not prior.any()
    assert memo == []


def test_prior_and_memo_come_back_with_shape_and_type() -> None:
    memo = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array([7], np.uint32)]
    content = packed(np.ones((2, 3), np.float32), np.array([0.5, -1], np.float32), memo)
    _, prior, found = unpacked(content, memo)
    assert prior.tolist() == [0.5, -1]
    for leaf, like in zip(found, memo, strict=True):
        np.testing.assert_array_equal(leaf, like)
        assert leaf.dtype == like.dtype
    assert unpacked(content, None)[2] == []


@pytest.mark.parametrize("damage", [lambda b: b[:-3], lambda b: b[:10] + b"xx" + b[12:], lambda b: b""])
def test_damage_is_refused(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(Refused, match="cannot be read"):
        unpacked(damage(packed(np.ones((2, 3), np.float32), None, [])), [])
