"""The OpenAPI document against the running service: whatever it allows or forbids, the answers are as it says."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis
from helpers.clicking import Say
from helpers.serving import Serving
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, Config, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
)
from schemathesis.transport.serialization import Binary

from perturank.service.http.openapi import document
from perturank.service.http.routes import ROUTES
from perturank.service.log.spec import checked_spec
from perturank.wire.specification import SpecRequest

MODEL: dict[str, Any] = {"n_features": 1, "ranker": "random", "places": 4}
ONE_EVENT = Config.from_dict({"max-stream-events": 1})  # of a stream that never ends
SCHEMA = schemathesis.openapi.from_dict(document(), config=ONE_EVENT)
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)}
STREAM = "GET /v1/live"
# Of what the schema allows, more is refused than it can say: as many features as the model has, ids that differ.
BEYOND_THE_SCHEMA: list[Any] = [positive_data_acceptance]
# OpenAPI 3.1 cannot describe events: what it says of a stream is taken for what it says of each of them.
BEYOND_THE_SCHEMA_OF_STREAMS: list[Any] = [*BEYOND_THE_SCHEMA, response_schema_conformance]
# A record that cannot be read is refused by itself, in an answer that takes its neighbours.
BEYOND_THE_SCHEMA_OF_RECORDS: list[Any] = [*BEYOND_THE_SCHEMA, negative_data_rejection]
BEYOND = {STREAM: BEYOND_THE_SCHEMA_OF_STREAMS} | dict.fromkeys(
    ("POST /ubi_events", "POST /ubi_queries"), BEYOND_THE_SCHEMA_OF_RECORDS
)


@schemathesis.serializer("application/msgpack")
def packed(context: Any, value: Any) -> bytes:
    """Return a generated body as MessagePack; features and prior stand in the schema as base64."""
    if isinstance(value, dict):
        value = value | {name: raw(value[name]) for name in ("features", "prior") if name in value}
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:
        return b"\xc1"


@schemathesis.serializer("application/vnd.safetensors")
def file(context: Any, value: Any) -> bytes:
    """Return a generated file."""
    return value.data if isinstance(value, Binary) else msgspec.json.encode(value)


def raw(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return value


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("serving")
    started = Serving(folder, PERTURANK_LEARNER="none", PERTURANK_COMPILE_FIRST="false").ready()
    yield started
    started.kill()


def cases(operation: Any) -> list[st.SearchStrategy[Any]]:
    """Return what the schema allows and what it forbids, of any model and of one that is there."""
    known = [{}] if operation.method == "delete" or not operation.path_parameters else [{}, {"model": "m"}]
    found = [operation.as_strategy(path_parameters=each or None) for each in known]
    for each in known:
        if operation.body or (operation.path_parameters and not each):
            forbidden = operation.as_strategy(GenerationMode.NEGATIVE, path_parameters=each or None)
            found.append(forbidden)
    return found


def test_the_document_can_be_read_whole() -> None:
    assert len(OPERATIONS) == len(ROUTES)


@pytest.mark.long
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_as_the_document_says(label: str, serving: Serving, is_long: bool, say: Say) -> None:
    with serving.client() as client:
        client.put_model("m", **MODEL, begin_anew=True)  # a generated PATCH may have reset its places
    anything, answered = st.one_of(cases(OPERATIONS[label])), list[str]()
    excluded = BEYOND.get(label, BEYOND_THE_SCHEMA)

    @settings(
        max_examples=500 if is_long else 20,
        deadline=None,
        database=None,
        derandomize=not is_long,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=anything)
    def conforms(case: Case[Any]) -> None:
        answer = case.call_and_validate(base_url=serving.url, excluded_checks=excluded, timeout=60)
        answered.extend(answer.headers["x-request-id"])

    conforms()
    if is_long:
        say(f"{len(answered)} requests: {label}")
    assert set(answered) <= serving.requests_logged()
    assert httpx.get(f"{serving.url}/healthz", timeout=60).status_code == 200


def test_the_default_ranker_is_that_of_a_new_model() -> None:
    schemas = document()["components"]["schemas"]
    assert schemas["SpecRequest"]["properties"]["ranker"]["default"] == checked_spec(SpecRequest(n_features=1)).ranker
    assert "ranker" not in schemas["SpecRequest"]["required"]
