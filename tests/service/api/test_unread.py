"""Reading all numbers at once gives what reading each by itself gives, or leaves it to that."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perturank.service.api import unread
from perturank.service.api.repeating import _once, check_json
from perturank.service.api.requests import Rank
from perturank.service.api.unread import numbers
from perturank.service.reading import of_documents, of_numbers
from perturank.service.refusals import Refused
from perturank.service.spec import Feature, Spec

NUMBER = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70), st.just(0.1))
TEXT = st.text(alphabet='ab:é[,"\\', min_size=1, max_size=4)


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


class Written:
    """JSON as nobody else writes it: any character as an escape, any field said again, numbers as they are given."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._escapes = draw(st.sampled_from(["none", "needed", "some", "names"]))
        self._again = draw(st.one_of(st.just(-1), st.integers(0, 4)))
        self._chance = draw(st.randoms(use_true_random=False))

    def json(self, value: Any) -> str:
        if isinstance(value, dict):
            fields = [f"{self._text(name, is_name=True)}:{self.json(each)}" for name, each in value.items()]
            self._again -= 1
            fields += [self._chance.choice(fields)] if fields and self._again == -1 else []
            return f"{{{', '.join(fields)}}}"
        if isinstance(value, list):
            return f"[{','.join(map(self.json, value))}]"
        return self._text(value) if isinstance(value, str) and not isinstance(value, Token) else _plain(value)

    def _text(self, text: str, *, is_name: bool = False) -> str:
        if self._escapes == "some" or (self._escapes == "names" and is_name):
            return f'"{"".join(self._character(each) for each in text)}"'
        return json.dumps(text, ensure_ascii=self._escapes == "needed")

    def _character(self, character: str) -> str:
        escaped = f"\\u{ord(character):04{self._chance.choice('xX')}}"
        return escaped if self._chance.random() < 0.3 else json.dumps(character, ensure_ascii=False)[1:-1]


class Token(str):
    """A number as it is to be written."""


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, Token) else json.dumps(value)


TOKENS = [
    *("-0", "-0.0", "1E5", "1e-400", "5e-324", "2.2250738585072011e-308", "1e308", "1.7976931348623159e308", "1e999"),
    *(
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
    ),
    *("0.1000000000000000055511151231257827021181583404541015625", "123456789012345678901234567890.5", "1" + "0" * 310),
]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[int, bytes]:
    d = draw(st.integers(1, 3))
    number = st.one_of(NUMBER, st.sampled_from([Token(each) for each in TOKENS]))
    row = st.lists(number, min_size=d, max_size=d)
    document = st.fixed_dictionaries({"id": TEXT, "features": row}, optional={"prior": st.one_of(st.none(), number)})
    rest: dict[str, st.SearchStrategy[Any]] = {
        "query": st.one_of(st.none(), TEXT),
        "source": st.one_of(st.none(), TEXT),
        "top": st.sampled_from([None, 2]),
        "draw": st.sampled_from([None, 0]),
        "mode": st.sampled_from(["learn", "shadow", None]),
    }
    rank = st.fixed_dictionaries({"documents": st.lists(document, min_size=1, max_size=4)}, optional=rest)
    return d, Written(draw).json(draw(rank)).encode()


def slowly(body: bytes) -> Rank | None:
    """Return what the slow way makes of a body; None: it is refused."""
    try:
        found = msgspec.json.decode(body, type=Rank)
        json.loads(body, object_pairs_hook=_once, parse_int=len, parse_float=len)
    except (msgspec.MsgspecError, Refused):
        return None
    return found


@settings(max_examples=400, deadline=None)
@given(bodies(), st.booleans())
def test_it_reads_what_the_slow_way_reads(case: tuple[int, bytes], scaled: bool) -> None:
    d, body = case
    model = spec(d, scaled=scaled)
    quick, slow = numbers(body), slowly(body)
    if quick is None:
        return
    assert slow is not None
    assert msgspec.structs.replace(slow, documents=[]) == quick.asks
    assert [each.id for each in slow.documents] == quick.ids
    assert outcome(lambda: of_numbers(quick.ids, quick.features, quick.priors, model, 3)) == outcome(
        lambda: of_documents(slow.documents, model, 3)
    )


@given(bodies())
def test_a_second_field_is_found_whatever_is_escaped(case: tuple[int, bytes]) -> None:
    try:
        found = msgspec.json.decode(case[1], type=Rank)
    except msgspec.MsgspecError:
        return
    if slowly(case[1]) is not None:
        check_json(case[1], found)
    else:
        with pytest.raises(Refused, match="twice"):
            check_json(case[1], found)


USUAL = b'{"query": "a:b", "documents": [{"id": "a", "features": [1, -2.5e-3]}, {"id": "b", "features": [0.1, 7]}]}'


@pytest.mark.skipif(find_spec("simdjson") is None, reason="pysimdjson has no wheel for this Python")
def test_the_usual_case_is_read_quickly() -> None:
    found = numbers(USUAL)
    assert found is not None
    np.testing.assert_array_equal(found.features, [[1, -0.0025], [0.1, 7]])
    assert (found.ids, found.priors, found.asks.query) == (["a", "b"], [None, None], "a:b")


@pytest.mark.skipif(find_spec("simdjson") is None, reason="pysimdjson has no wheel for this Python")
@pytest.mark.parametrize(
    "was, becomes",
    [
        (b'"id": "b"', b'"id": "\\u00e9"'),
        (b'"id": "b"', b'"id": "\\"b\\\\:"'),
        (b'"id": "b"', b'"\\u0069d": "b"'),
        (b'"id": "b"', b'"id": "b", "prior": null'),
        (b'"query": "a:b"', b'"query": null, "top": null, "source": null, "draw": null, "mode": "learn"'),
    ],
)
def test_escapes_and_what_is_said_to_be_nothing_are_read_quickly(was: bytes, becomes: bytes) -> None:
    body = USUAL.replace(was, becomes)
    found, slow = numbers(body), slowly(body)
    assert found is not None
    assert slow is not None
    assert found.asks == msgspec.structs.replace(slow, documents=[])
    assert (found.ids, found.priors) == ([each.id for each in slow.documents], [None, None])


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
        (b'"id": "b"', b'"id": "\\u003a"'),
        (b'"id": "b"', b'"id": "b:\\u003A"'),
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
