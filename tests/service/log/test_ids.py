from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturank.service.log.records import made_at, new_id, own_id, sign_id, verify_id
from perturank.service.log.refusals import NotKnown

SECRET = b"s" * 32


def test_a_name_comes_back_and_says_when_it_was_made() -> None:
    name = new_id(123_456)
    text = sign_id(name, "m", SECRET)
    assert len(text) == 27
    assert verify_id(text, "m", SECRET) == name
    assert made_at(name) == 123_456


def test_no_two_names_are_alike() -> None:
    assert len({new_id(7) for _ in range(1000)}) == 1000


def test_a_name_of_another_model_or_log_is_nobodys() -> None:
    text = sign_id(new_id(1), "m", SECRET)
    for model, secret in (("n", SECRET), ("m", b"t" * 32)):
        with pytest.raises(NotKnown):
            verify_id(text, model, secret)


@given(st.text(max_size=40))
def test_made_up_names_are_refused(text: str) -> None:
    with pytest.raises(NotKnown):
        verify_id(text, "m", SECRET)


def test_a_second_spelling_of_a_name_is_refused() -> None:
    text = sign_id(new_id(1), "m", SECRET)
    for other in (text + "=", text[:-1], text + " ", " " + text):
        with pytest.raises(NotKnown):
            verify_id(other, "m", SECRET)


def test_a_query_id_always_gives_the_same_names_which_no_position_gives() -> None:
    name = own_id("q-1", "m", SECRET)
    assert name == own_id("q-1", "m", SECRET)
    assert verify_id(sign_id(name, "m", SECRET), "m", SECRET) == name
    assert len(name) == len(new_id(1))
    assert made_at(name) is None
    others = {own_id("q-2", "m", SECRET), own_id("q-1", "n", SECRET), own_id("q-1", "m", b"t" * 32)}
    assert len({name, own_id("q-1", "m", SECRET, 1), *others}) == 5
    assert made_at(new_id(2**39)) == 2**39
