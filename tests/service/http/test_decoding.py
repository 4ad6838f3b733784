from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from perturank.service.http.decoding import LARGE, decoded, offload
from perturank.service.log.refusals import Refused
from perturank.service.serving.service import Service
from perturank.wire.requests import Rank


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


def test_a_mode_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(Refused) as refused:
        decoded(b'{"documents": [], "mode": "guess"}', Rank, False)
    assert "one of learn, exploit, shadow" in refused.value.remedy
