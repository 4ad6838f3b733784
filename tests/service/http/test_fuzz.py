"""Whatever is sent, the answer is never a fault of ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from perturank.service.serving.service import Service
from perturank.wire.specification import SpecRequest

FEATURES = st.one_of(
    st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers()), min_size=2, max_size=2),
    st.lists(st.floats(allow_nan=False), max_size=3),
    st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False), max_size=2),
    st.none(),
)
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
DOCUMENT = st.fixed_dictionaries({"id": st.text(max_size=4), "features": FEATURES}, optional={"prior": st.floats()})
RANK = st.fixed_dictionaries(
    {"documents": st.lists(DOCUMENT, max_size=3)},
    optional={
        "top": st.integers(-1, 12),
        "mode": st.sampled_from(["learn", "exploit", "shadow", "x"]),
        "query": ANYTHING,
    },
)
FEEDBACK = st.fixed_dictionaries(
    {"impression": st.text()},
    optional={
        "clicks": st.lists(st.text(max_size=3)),
        "final": st.booleans(),
        "events": st.lists(st.fixed_dictionaries({"id": st.text(max_size=3), "action": st.text(max_size=3)})),
        "seen": st.integers(),
    },
)
PIN = st.fixed_dictionaries({"version": st.integers()})
PATHS = ["rank", "feedback", "explain", "pin", "rollback", "rank/batch", "feedback/batch", "file", ""]
BODY = st.one_of(
    RANK,
    FEEDBACK,
    PIN,
    st.fixed_dictionaries({"requests": st.lists(RANK, max_size=2)}),
    st.fixed_dictionaries({"requests": st.lists(FEEDBACK, max_size=2)}),
    ANYTHING,
)


@pytest.fixture(autouse=True)
def model(service: Service) -> None:
    service.put("m", SpecRequest(n_features=2, ranker="random", places=4))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODY, path=st.sampled_from(PATHS), method=st.sampled_from(["POST", "PUT"]), binary=st.booleans())
def test_no_body_breaks_it(http: TestClient, body: Any, path: str, method: str, binary: bool) -> None:
    try:
        content = msgspec.msgpack.encode(body) if binary else msgspec.json.encode(body)
    except (OverflowError, UnicodeEncodeError):
        return
    headers = {"content-type": "application/msgpack" if binary else "application/json"}
    answer = http.request(method, f"/v1/models/m/{path}".rstrip("/"), content=content, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60), path=st.sampled_from(PATHS), binary=st.booleans())
def test_no_bytes_break_it(http: TestClient, content: bytes, path: str, binary: bool) -> None:
    headers = {"content-type": "application/msgpack" if binary else "application/json"}
    answer = http.post(f"/v1/models/m/{path}".rstrip("/"), content=content, headers=headers)
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    "text",
    [
        rb'{"documents": [{"id": "\ud800", "features": [1, 2]}]}',
        rb'{"documents": [{"id": "a", "features": [1e999, 2]}]}',
        rb'{"documents": [{"id": "a", "features": [1, 2], "prior": 1e300}]}',
        rb'{"documents": [{"id": "a", "features": [123456789012345678901234567890, 2]}]}',
        rb'{"documents": [{"id": "\u0000", "features": [1, 2]}], "source": "\u0000"}',
    ],
)
def test_odd_numbers_and_texts(http: TestClient, text: bytes) -> None:
    assert http.post("/v1/models/m/rank", content=text).status_code in (200, 422)


@pytest.mark.parametrize("widths", [[10**9], [1] * 1000, [0], "wide", [1.5]])
def test_a_network_that_does_not_fit_is_refused(http: TestClient, widths: Any) -> None:
    body = {"n_features": 2, "ranker": "p2neurrank", "settings": {"widths": widths}}
    assert http.put("/v1/models/big", json=body).status_code == 422
    assert http.get("/v1/models/big").status_code == 404
