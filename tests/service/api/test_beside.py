"""What runs beside the answers goes on, whatever fails of it."""

from __future__ import annotations

import time

import pytest
from starlette.testclient import TestClient

from perturank.service.api.application import application
from perturank.service.hosting import Host, Hosted
from perturank.service.service import Service
from perturank.service.spec import Spec

SECONDS = 30.0


def test_a_model_that_cannot_be_compiled_does_not_stop_the_others(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles = Host.compile

    def compile_but_one(host: Host, held: Hosted, length: int) -> None:
        if held.name == "a":
            raise MemoryError("too large")
        compiles(host, held, length)

    monkeypatch.setattr(Host, "compile", compile_but_one)
    for name in ("a", "b"):
        service.put(name, Spec(n_features=2, ranker="random", places=4))
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        end = time.monotonic() + SECONDS
        while http.get("/readyz").json()["to_compile"] > 1 and time.monotonic() < end:
            time.sleep(0.02)
        assert http.get("/readyz").json()["status"] == "failing"
        assert [held.name for held, _ in service.host.uncompiled()] == ["a"]
        service.delete("a")
        while http.get("/readyz").status_code != 200 and time.monotonic() < end:
            time.sleep(0.02)
        assert http.get("/readyz").json()["status"] == "ready"
