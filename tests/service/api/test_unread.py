"""Reading all numbers at once gives what reading each by itself gives, or leaves it to that."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturank.service.api import unread
from perturank.service.api.requests import Rank
from perturank.service.api.unread import numbers
from perturank.service.reading import of_documents, of_numbers
from perturank.service.refusals import Refused
from perturank.service.spec import Feature, Spec

NUMBER = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70), st.just(0.1))
TEXT = st.text(alphabet="ab:é[,", min_size=1, max_size=4)


def spec(d: int, *, scaled: bool = False) -> Spec:
    features = tuple(Feature(f"f{i}", shift=0.1 * i, scale=3.0) for i in range(d))
    return Spec(n_features=d, features=features if scaled else None)


def outcome(read: Any) -> Any:
    """Return the arrays as bytes, or the refusal."""
    try:
        features, prior = read()
    except Refused as refused:
        return refused.what, refused.remedy
    return features.shape, features.tobytes(), None if prior is None else prior.tobytes()


@st.composite
def bodies(draw: st.DrawFn) -> tuple[int, bytes]:
    d = draw(st.integers(1, 3))
    row = st.lists(NUMBER, min_size=d, max_size=d)
    document = st.fixed_dictionaries({"id": TEXT, "features": row}, optional={"prior": st.one_of(st.none(), NUMBER)})
    rest = {"query": TEXT, "source": TEXT, "top": st.just(2), "mode": st.sampled_from(["learn", "shadow"])}
    rank = st.fixed_dictionaries({"documents": st.lists(document, min_size=1, max_size=4)}, optional=rest)
    indent = draw(st.sampled_from([None, 1]))
    return d, json.dumps(draw(rank), ensure_ascii=False, indent=indent).encode()


@given(bodies(), st.booleans())
def test_it_reads_what_the_slow_way_reads(case: tuple[int, bytes], scaled: bool) -> None:
    d, body = case
    model = spec(d, scaled=scaled)
    quick = numbers(body)
    if quick is None:
        return
    slow = msgspec.json.decode(body, type=Rank)
    assert msgspec.structs.replace(slow, documents=[]) == quick.asks
    assert [each.id for each in slow.documents] == quick.ids
    assert outcome(lambda: of_numbers(quick.ids, quick.features, quick.priors, model, 3)) == outcome(
        lambda: of_documents(slow.documents, model, 3)
    )


USUAL = b'{"query": "a:b", "documents": [{"id": "a", "features": [1, -2.5e-3]}, {"id": "b", "features": [0.1, 7]}]}'


@pytest.mark.skipif(find_spec("simdjson") is None, reason="pysimdjson has no wheel for this Python")
def test_the_usual_case_is_read_quickly() -> None:
    found = numbers(USUAL)
    assert found is not None
    np.testing.assert_array_equal(found.features, [[1, -0.0025], [0.1, 7]])
    assert (found.ids, found.priors, found.asks.query) == (["a", "b"], [None, None], "a:b")


@pytest.mark.parametrize(
    "was, becomes",
    [
        (b"[1, -2.5e-3]", b"[1, [2]]"),
        (b"[1, -2.5e-3]", b"[1]"),
        (b"[1, -2.5e-3]", b"[]"),
        (b"[1, -2.5e-3]", b'[1, "2"]'),
        (b"[1, -2.5e-3]", b"[1, null]"),
        (b"[1, -2.5e-3]", b"[1, true]"),
        (b"[1, -2.5e-3]", b"[1, NaN]"),
        (b"[1, -2.5e-3]", b"[1, 1e999]"),
        (b"[1, -2.5e-3]", b"[1, 02]"),
        (b"[1, -2.5e-3]", b'{"x": 1}'),
        (b"[1, -2.5e-3]", b"7"),
        (b'"id": "b"', b'"id": "b", "id": "c"'),
        (b'"id": "b"', b'"id": "\\u0062"'),
        (b'"id": "b"', b'"di": "b"'),
        (b'"query": "a:b"', b'"query": "a", "query": "b"'),
        (USUAL, b'{"documents": []}'),
        (USUAL, b"[]"),
        (USUAL, b"\xff"),
        (USUAL, b""),
    ],
)
def test_everything_else_is_left_to_the_slow_way(was: bytes, becomes: bytes) -> None:
    assert numbers(USUAL.replace(was, becomes)) is None


@pytest.mark.skipif(find_spec("simdjson") is None, reason="pysimdjson has no wheel for this Python")
def test_what_is_too_large_by_a_little_is_refused_both_ways() -> None:
    body = USUAL.replace(b"-2.5e-3", b"1000000001000")
    found, slow = numbers(body), msgspec.json.decode(body, type=Rank)
    assert found is not None
    with pytest.raises(Refused, match="is not a number up to"):
        of_numbers(found.ids, found.features, found.priors, spec(2), 3)
    with pytest.raises(Refused, match="is not a number up to"):
        of_documents(slow.documents, spec(2), 3)


def test_without_the_library_everything_is_left_to_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "simdjson", None)
    assert numbers(USUAL) is None
