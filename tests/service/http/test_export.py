"""A model of the service in the formats of other systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.service_small import wait_until_ready
from starlette.testclient import TestClient
from typer.testing import CliRunner

from perturank.cli import app
from perturank.core import Query
from perturank.exports.formula import Column, Formula
from perturank.layers import Layer
from perturank.service.learner.learner import Learner
from perturank.service.serving.service import Service

NAMES = ["price", "age"]
MODEL: dict[str, Any] = {"n_features": 2, "ranker": "p2linrank", "places": 4}


def documents(seed: int) -> list[dict[str, Any]]:
    rows = np.random.default_rng(seed).gamma(1.0, 3.0, (6, 3))
    return [
        {"id": f"d{i}", "features": {"price": 100 * row[0], "age": row[1]}, "prior": row[2]}
        for i, row in enumerate(rows)
    ]


def learn(http: TestClient, service: Service, model: str, seed: int) -> None:
    shown = http.post(f"/v1/models/{model}/rank", json={"documents": documents(seed)}).json()
    said = {"impression": shown["impression"], "clicks": [shown["ranking"][2]["id"]], "final": True}
    assert http.post(f"/v1/models/{model}/feedback", json=said).json() == {"status": "recorded"}
    Learner(service.log).step()
    service.refresh()


def formula(written: Any) -> Formula:
    layers = (Layer(np.array(each["weight"]), np.array(each["bias"]), relu=each["relu"]) for each in written["layers"])
    return Formula(tuple(Column(**each) for each in written["columns"]), tuple(layers), written["has_prior"])


def test_a_version_is_exported_by_the_service_and_from_its_log(
    http: TestClient, service: Service, tmp_path: Path
) -> None:
    http.put("/v1/models/shop", json=MODEL | {"features": [{"name": name} for name in NAMES]})
    wait_until_ready(http)
    fresh = http.get("/v1/models/shop/export", params={"format": "json"})
    assert (fresh.status_code, "not known yet" in fresh.json()["title"]) == (422, True)
    for seed in (1, 2):
        learn(http, service, "shop", seed)
    old, new = (http.get("/v1/models/shop/export", params={"format": "json", "version": v}).json() for v in (1, 2))
    assert old != new
    assert http.get("/v1/models/shop/export?format=json").json() == new
    rows = np.array([[each["features"][n] for n in NAMES] + [each["prior"]] for each in documents(3)])
    query = Query.of(rows[:, :2], prior=rows[:, 2])
    scores = np.asarray(service.models.get("shop").ranker.score(query))[: len(rows)]
    assert np.allclose(formula(new).scores(rows), scores, rtol=1e-4, atol=1e-5)

    url = f"sqlite:///{tmp_path / 'log.db'}"
    words = ["export", "--log", url, "--model", "shop", "--version", "1", "--to", "json", "--out", str(tmp_path)]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert json.loads((tmp_path / "model.json").read_text()) == old

    refused = http.get("/v1/models/shop/export?format=solr")
    assert (refused.status_code, "prior, which the engine does not have" in refused.json()["title"]) == (422, True)
    files = http.get("/v1/models/shop/export?format=solr&prior=bm25").json()
    assert (list(files), files["model.json"]["name"]) == (["features.json", "model.json"], "shop")
    binary = http.get("/v1/models/shop/export?format=onnx")
    assert binary.headers["content-type"] == "application/octet-stream"
    for asked, status in [("", 422), ("?format=pickle", 422), ("?format=json&version=9", 404)]:
        assert http.get(f"/v1/models/shop/export{asked}").status_code == status
    assert http.get("/v1/models/nobody/export?format=json").status_code == 404


def test_scales_of_the_owner_are_folded_in_and_scaling_within_lists_is_refused(
    http: TestClient, service: Service, tmp_path: Path
) -> None:
    own = [{"name": "price", "shift": 300.0, "scale": 200.0, "missing": 0.5}, {"name": "age"}]
    http.put("/v1/models/own", json=MODEL | {"scaling": "none", "features": own})
    http.put("/v1/models/within", json=MODEL | {"scaling": "query", "features": [{"name": name} for name in NAMES]})
    wait_until_ready(http)
    learn(http, service, "own", 1)
    written = http.get("/v1/models/own/export?format=json").json()
    asked = documents(2)
    del asked[0]["features"]["price"]
    explained = http.post("/v1/models/own/explain", json={"documents": asked}).json()
    scores = {each["id"]: each["score"] for each in explained["ranking"]}
    rows = np.array([[each["features"].get(n, np.nan) for n in NAMES] for each in asked])
    found = formula(written).scores(rows) + [each["prior"] for each in asked]
    shown = {each["id"]: score for each, score in zip(asked, found.tolist(), strict=True) if each["id"] in scores}
    assert shown == pytest.approx(scores, rel=1e-4, abs=1e-5)

    refused = http.get("/v1/models/within/export?format=json")
    assert (refused.status_code, "scaled within each list" in refused.json()["title"]) == (422, True)
    file = tmp_path / "within.safetensors"
    file.write_bytes(http.get("/v1/models/within/file").content)
    said = CliRunner().invoke(app, ["export", str(file), "--to", "json"])
    assert (said.exit_code, "scaled within each list" in said.stderr) == (2, True)
