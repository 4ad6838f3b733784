from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturank.service.api.repeating import check_json, check_packed
from perturank.service.api.requests import Feedback, FeedbackBatch, Rank, RankBatch
from perturank.service.refusals import Refused
from perturank.service.spec import Spec

TEXT = st.text(alphabet='ab:"\\é', min_size=1, max_size=4)
NUMBERS = st.lists(st.floats(-9, 9), max_size=2)
DOCUMENT = st.fixed_dictionaries(
    {"id": TEXT, "features": st.one_of(NUMBERS, st.dictionaries(TEXT, st.just(1.5), max_size=2))},
    optional={"prior": st.sampled_from([None, 1.5])},
)
RANK = st.fixed_dictionaries(
    {"documents": st.lists(DOCUMENT, max_size=3)},
    optional={
        "query": TEXT,
        "source": TEXT,
        "top": st.just(2),
        "draw": st.just(0),
        "mode": st.sampled_from(["learn", "exploit"]),
    },
)
FEEDBACK = st.fixed_dictionaries(
    {"impression": TEXT}, optional={"clicks": st.lists(TEXT, max_size=2), "final": st.booleans()}
)
CASES = st.one_of(
    st.tuples(RANK, st.just(Rank)),
    st.tuples(FEEDBACK, st.just(Feedback)),
    st.tuples(st.fixed_dictionaries({"requests": st.lists(RANK, max_size=2)}), st.just(RankBatch)),
    st.tuples(st.fixed_dictionaries({"requests": st.lists(FEEDBACK, max_size=2)}), st.just(FeedbackBatch)),
)


class Again:
    """Writes one object of a value with one of its fields twice."""

    def __init__(self, which: int) -> None:
        self.left = which

    def json(self, value: Any) -> str:
        if isinstance(value, list):
            return f"[{','.join(map(self.json, value))}]"
        if not isinstance(value, dict):
            return json.dumps(value)
        fields = [f"{json.dumps(name)} : {self.json(each)}" for name, each in value.items()]
        if fields:
            self.left -= 1
            fields += fields[:1] if self.left == -1 else []
        return f"{{{','.join(fields)}}}"


@given(case=CASES, which=st.integers(0, 8))
def test_what_is_said_once_passes_and_what_is_said_twice_does_not(case: tuple[Any, Any], which: int) -> None:
    value, kind = case
    body = msgspec.json.encode(value)
    check_json(body, msgspec.json.decode(body, type=kind))
    check_packed(msgspec.msgpack.encode(value), is_flat=False)
    again = Again(which)
    twice = again.json(value).encode()
    made = msgspec.json.decode(twice, type=kind)
    if again.left >= 0:  # it has not so many objects
        check_json(twice, made)
    else:
        with pytest.raises(Refused, match="twice"):
            check_json(twice, made)


def test_colons_in_texts_do_not_hide_a_second_field() -> None:
    body = b'{"documents": [{"id": "a", "features": [1]}, {"id": "\\u003a", "features": [1], "features": [2]}]}'
    with pytest.raises(Refused, match="'features'"):
        check_json(body, msgspec.json.decode(body, type=Rank))


def test_numbers_of_any_length_can_be_read_again() -> None:
    body = b'{"n_features": 2, "settings": {"a": 1%s}}' % (b"0" * 4000)
    check_json(body, msgspec.json.decode(body, type=Spec))


@pytest.mark.parametrize(
    "content",
    [
        b"\x82\xa1a\x01\xa1a\x02",
        b"\xde\x00\x02\xa1a\x01\xa1a\x02",
        b"\xdf\x00\x00\x00\x02\xa1a\x01\xa1a\x02",
        b"\x91\x81\xa1b\x82\xa1a\x01\xa1a\x02",
        b"\xdc\x00\x01\x82\xa1a\x01\xa1a\x02",
    ],
)
def test_packed_maps_are_looked_into(content: bytes) -> None:
    with pytest.raises(Refused, match="twice"):
        check_packed(content, is_flat=False)
