"""What is printed when the service starts."""

from __future__ import annotations

import shlex

import pytest

from perturank.service.starting import welcome


@pytest.mark.parametrize("asks_for_keys", [False, True])
def test_the_request_to_try_names_the_key_where_one_is_needed_and_never_holds_it(asks_for_keys: bool) -> None:
    words = shlex.split(welcome("http://127.0.0.1:1", asks_for_keys=asks_for_keys).partition("try: ")[2])
    assert words[:2] == ["curl", "http://127.0.0.1:1/v1/models/default/rank"]
    assert ("authorization: Bearer $PERTURANK_KEY" in words) == asks_for_keys
