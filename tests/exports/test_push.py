"""`perturank push` installs features and model in an engine with one command, and shows how to check it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers.engine import Plugin, Solr, running
from oracles import engines
from typer.testing import CliRunner, Result

import perturank as pr
from perturank.cli import app
from perturank.parts.standardised import Scale, standardised

NAMES = ["price", "age", "sales"]


@pytest.fixture
def rows() -> np.ndarray:
    """Return three features and the caller's own score."""
    return np.random.default_rng(0).gamma(1.0, 3.0, (16, 4)).astype(np.float32)


@pytest.fixture
def file(tmp_path: Path, rows: np.ndarray) -> Path:
    inside: Any = pr.make("p2linrank", 4)
    inside = jax.tree.map(lambda leaf: leaf + 0.3 if leaf.dtype == np.float32 else leaf, inside)
    pr.save(standardised(inside, Scale.of(rows), names=NAMES), tmp_path / "shop.safetensors")
    return tmp_path / "shop.safetensors"


def run(*words: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def scores(file: Path, rows: np.ndarray) -> np.ndarray:
    return np.asarray(pr.load(file).score(pr.Query.of(rows[:, :-1], prior=rows[:, -1])))


def fields(rows: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip([*NAMES, "bm25"], rows.T.astype(np.float64), strict=True))


def curl(said: Result) -> Any:
    shown = subprocess.run(said.stdout.splitlines()[-1], shell=True, capture_output=True, check=True, text=True)
    return json.loads(shown.stdout)


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
def test_a_model_is_installed_in_the_ltr_plugin_and_can_be_replaced(engine: str, file: Path, rows: np.ndarray) -> None:
    with running(Plugin()) as url:
        push = ["push", file, f"--{engine}", url, "--name", "shop-7", "--prior", "bm25"]
        first = run(*push)
        assert first.exit_code == 0, first.output
        installed = curl(first)["_source"]
        values = engines.ltr_features(installed["features"], fields(rows))
        found = engines.ltr_scores(installed["model"], values)
        assert np.allclose(found, scores(file, rows), rtol=1e-5, atol=1e-5)
        again = run(*push)
        assert (again.exit_code, "--replace" in again.stderr) == (2, True)
        assert run(*push, "--replace").exit_code == 0


def test_a_model_is_installed_in_solr_and_can_be_replaced(file: Path, rows: np.ndarray) -> None:
    with running(solr := Solr()) as url:
        push = ["push", file, "--solr", f"{url}/solr/shop/", "--prior", "bm25"]
        first = run(*push)
        assert first.exit_code == 0, first.output
        (model,) = curl(first)["models"]
        values = engines.solr_features(list(solr.features.values()), fields(rows))
        assert np.allclose(engines.solr_scores(model, values), scores(file, rows), rtol=1e-5, atol=1e-5)
        assert run(*push).exit_code == 2
        assert run(*push, "--replace").exit_code == 0


def test_mistakes_end_in_one_line(file: Path) -> None:
    wrong: list[tuple[list[Any], str]] = [
        (["push", file], "0 engines are named"),
        (["push", file, "--solr", "http://127.0.0.1:1/solr/shop", "--prior", "bm25"], "does not answer"),
        (["push", file, "--solr", "http://127.0.0.1:1/solr/shop"], "learned with a prior"),
        (["export", file, "--to", "sorl"], "did you mean 'solr'"),
        (["export", file, "--to", "json", "--version", "3"], "a file holds one version"),
        (["export", "--to", "json", "--names", "a,b"], "--names is for files"),
    ]
    for words, says in wrong:
        said = run(*words)
        assert (said.exit_code, says in said.stderr) == (2, True), said.output
        assert len(said.stderr.splitlines()) == 1


def test_an_export_overwrites_no_other_one_without_force(file: Path, tmp_path: Path) -> None:
    solr, plain = (["export", file, "--to", each, "--prior", "bm25", "--out", tmp_path] for each in ("solr", "json"))
    assert run(*solr).exit_code == run(*solr).exit_code == 0
    before = (tmp_path / "model.json").read_bytes()
    said = run(*plain)
    assert (said.exit_code, said.stderr.count("\n")) == (2, 1)
    assert "model.json is there already, with other content; choose another --out, or add --force" in said.stderr
    assert (tmp_path / "model.json").read_bytes() == before
    assert run(*plain, "--force").exit_code == 0
    assert (tmp_path / "model.json").read_bytes() != before


def test_a_file_is_exported_with_sources(file: Path, tmp_path: Path) -> None:
    (tmp_path / "sources.json").write_text('{"age": "ms(NOW,published)"}')
    said = run(
        "export", file, "--to", "solr", "--prior", "bm25", "--sources", tmp_path / "sources.json", "--out", tmp_path
    )
    assert [Path(json.loads(line)["file"]).name for line in said.stdout.splitlines()] == ["features.json", "model.json"]
    written = json.loads((tmp_path / "features.json").read_text())
    assert any("ms(NOW,published)" in str(feature) for feature in written)
