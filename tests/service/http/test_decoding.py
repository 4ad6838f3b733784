from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from perturank.service.http.decoding import LARGE, decoded, decoded_rank, offload
from perturank.service.log.refusals import Refused
from perturank.service.serving.service import Service
from perturank.wire.answers import Skipped
from perturank.wire.requests import Explain, Rank, RankBatch


def test_large_bodies_are_decoded_beside_the_event_loop() -> None:
    def is_main() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert asyncio.run(offload(b" " * LARGE, is_main))
    assert not asyncio.run(offload(b" " * (LARGE + 1), is_main))


def test_a_body_over_the_limit_is_refused_whether_or_not_it_states_its_length(
    http: TestClient, service: Service
) -> None:
    def chunks() -> Iterator[bytes]:
        yield from [b" " * 1000] * (service.settings.body_bytes // 1000 + 1)

    for content in (b"".join(chunks()), chunks()):
        answer = http.post("/v1/models/m/rank", content=content)
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")
        assert answer.json()["detail"] == f"send at most {service.settings.body_bytes} bytes"


def test_a_body_that_is_no_request_is_refused_with_the_reason(http: TestClient) -> None:
    for content, says in ((b"{", "Input data was truncated"), (b'{"documents": 3}', "Expected `array`, got `int`")):
        answer = http.post("/v1/models/m/rank", content=content)
        assert (answer.status_code, answer.json()["title"]) == (422, "the body cannot be understood")
        assert says in answer.json()["detail"]


@pytest.mark.parametrize(
    "body, says",
    [
        (b'{"documents": [], "mode": "guess"}', "one of learn, exploit, shadow"),
        (b'{"documents": [], "on_error": "guess"}', "one of refuse, skip"),
        (b'{"documents": [{"id": "a", "features": [NaN]}]}', "send null where a number is missing"),
        (b'{"documents": [{"id": "a", "features": {"x": -Infinity}}]}', "send null where a number is missing"),
    ],
)
def test_a_value_that_cannot_be_is_answered_with_those_that_can(body: bytes, says: str) -> None:
    with pytest.raises(Refused) as refused:
        decoded(body, Rank, False)
    assert says in refused.value.remedy


@pytest.mark.parametrize(
    "features, says",
    [
        ({"price": 1, "stock": "many"}, "feature 'stock' of document 'b' is 'many'; send a number, or null where"),
        ([1, True], "feature 1 of document 'b' is True; send a number"),
        ([1, {"x" * 50: 1}], "feature 1 of document 'b' is {'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…; send"),
        ("cheap", "the features of document 'b' are 'cheap'; send a list of numbers, or numbers by name"),
    ],
)
@pytest.mark.parametrize("kind", [Rank, RankBatch, Explain])
def test_a_value_that_is_no_number_is_named_with_its_feature_and_its_document(
    features: Any, says: str, kind: type
) -> None:
    asked: Any = {"documents": [{"id": "a", "features": [1, 2]}, {"id": "b", "features": features}]}
    body = msgspec.json.encode({"requests": [asked]} if kind is RankBatch else asked)
    with pytest.raises(Refused, match=f"^{re.escape(says)}"):
        decoded(body, kind, False)
    with pytest.raises(Refused, match="the body cannot be understood"):
        decoded(body[:-1], kind, False)
    if kind is Rank:
        _, (skipped,) = decoded_rank(msgspec.json.encode(asked | {"on_error": "skip"}), False)
        assert skipped == Skipped("b", says.partition(";")[0])
