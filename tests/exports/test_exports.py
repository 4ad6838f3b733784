"""Exported scores are perturank's, in every format that can express a ranker; the rest is refused with the reason."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
import onnxruntime
import pytest
from helpers import scorers
from oracles import engines

import perturank as pr
from perturank.core import Query
from perturank.exports import formats
from perturank.exports.formula import formula_of
from perturank.parts.standardised import Scale, standardised

LINEAR = ["p2linrank", "pairrank", "pdgd-linear", "epsilon-greedy-linear", "dbgd-linear"]
NETWORKS = ["p2headrank", "p2headrank bias", "p2neurrank", "p2neurrank-paper", "olranknet", "pdgd-neural", "mgd-neural"]
D, LISTS, LENGTH = 7, 100, 100  # 10,000 documents
CLOSE = 1e-5  # of the list's largest |score|
NAMES = [f"f{i}" for i in range(D)]


@cache
def documents() -> tuple[np.ndarray, np.ndarray]:
    """Return features [lists, documents, D], with heavy tails and values that are missing, and priors; none below 0."""
    rng = np.random.default_rng(0)
    units = np.array([1, 100, 1e4, 0.01, 1, 1, 3])
    features = units * rng.gamma(0.4, 2.0, (LISTS, LENGTH, D))
    features[rng.random(features.shape) < 0.05] = np.nan
    return features.astype(np.float32), rng.gamma(2.0, 5.0, (LISTS, LENGTH)).astype(np.float32)


@cache
def ranker(name: str, is_scaled: bool) -> Any:
    """Return a ranker of the published size, all of whose numbers have moved, as it is or behind a scale.

    Behind its name stand settings that are true.
    """
    published, *true = name.split()
    inside = pr.make(published, D + is_scaled, **dict.fromkeys(true, True))
    rng = np.random.default_rng(1)

    def moved(leaf: Any) -> Any:
        is_number = eqx.is_inexact_array(leaf)
        return jax.device_put((leaf + 0.1 * rng.normal(size=leaf.shape)).astype(leaf.dtype)) if is_number else leaf

    inside = jax.tree.map(moved, inside)
    if not is_scaled:
        return inside
    features, prior = documents()
    scale = Scale.of(np.column_stack([features.reshape(-1, D), prior.ravel()]))
    fixed = [False, True, *[False] * (D - 1)]  # one column has its owner's scale
    return standardised(inside, scale, fixed=fixed, missing=[0.0, 0.7, *[0.0] * (D - 1)], strength=1.3, names=NAMES)


@cache
def expected(name: str, is_scaled: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features and priors as this ranker takes them, and its scores; [lists, documents, …]."""
    features, prior = documents()
    if not is_scaled:
        features, prior = np.nan_to_num(np.log1p(features)), np.zeros_like(prior)
    blank = np.ones((LISTS, LENGTH), bool), np.zeros((LISTS, LENGTH, 2), np.uint32)
    queries = Query(*jax.device_put((features, *blank, prior)))
    learned = ranker(name, is_scaled)
    scores = jax.jit(lambda each: jax.lax.map(learned.score, each))(queries)
    return features, prior, np.asarray(scores)


def assert_close(found: np.ndarray, scores: np.ndarray) -> None:
    """See that no score differs by more than a share of the list's largest."""
    found = found.reshape(scores.shape)
    worst = np.max(np.abs(found - scores) / np.max(np.abs(scores), axis=1, keepdims=True))
    assert worst <= CLOSE, worst


def as_fields(features: np.ndarray, prior: np.ndarray) -> dict[str, np.ndarray]:
    """Return documents as an engine has them: fields by name."""
    columns = zip(NAMES, features.reshape(-1, D).T.astype(np.float64), strict=True)
    return dict(columns) | {"bm25": prior.ravel().astype(np.float64)}


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("name", LINEAR + NETWORKS)
def test_onnx_runtime_gives_the_scores_of_perturank(name: str, is_scaled: bool) -> None:
    features, prior, scores = expected(name, is_scaled)
    exported = pr.export(ranker(name, is_scaled), "onnx", names=NAMES)
    session = onnxruntime.InferenceSession(exported.document)
    given = {"features": features.reshape(-1, D)} | ({"prior": prior.ravel()} if is_scaled else {})
    (found,) = session.run(["scores"], given)
    assert_close(found, scores)


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("name", ["p2linrank", "p2headrank", "p2neurrank-paper"])
def test_the_plain_form_gives_the_scores_of_perturank(name: str, is_scaled: bool) -> None:
    features, prior, scores = expected(name, is_scaled)
    columns = np.dstack([features, prior]) if is_scaled else features
    formula = formula_of(ranker(name, is_scaled), names=NAMES, default_prior="prior")
    assert_close(formula.scores(columns.reshape(-1, columns.shape[-1])), scores)
    written = json.loads(pr.export(ranker(name, is_scaled), "json", names=NAMES).document)
    assert written["columns"] == [dataclasses.asdict(column) for column in formula.columns]
    assert np.array_equal(written["layers"][0]["weight"], formula.layers[0].weight)


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("name", [*LINEAR, *NETWORKS])
def test_solr_gives_the_scores_of_perturank(name: str, is_scaled: bool) -> None:
    features, prior, scores = expected(name, is_scaled)
    prior_name = "bm25" if is_scaled else None
    files = pr.export(ranker(name, is_scaled), "solr", name="shop", names=NAMES, prior=prior_name).files
    values = engines.solr_features(files["features.json"], as_fields(features, prior))
    assert_close(engines.solr_scores(files["model.json"], values), scores)


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
def test_ltr_plugins_give_the_scores_of_perturank(engine: str, name: str, is_scaled: bool) -> None:
    features, prior, scores = expected(name, is_scaled)
    prior_name = "bm25" if is_scaled else None
    files = pr.export(ranker(name, is_scaled), engine, name="shop", names=NAMES, prior=prior_name).files
    values = engines.ltr_features(files["featureset.json"]["featureset"]["features"], as_fields(features, prior))
    assert_close(engines.ltr_scores(files["model.json"]["model"]["model"], values), scores)


def test_the_prior_of_a_ranker_without_a_scale_is_exported_when_it_is_named() -> None:
    features, _, scores = expected("p2headrank", False)
    more = documents()[1]
    exported = pr.export(ranker("p2headrank", False), "onnx", prior="bm25")
    session = onnxruntime.InferenceSession(exported.document)
    (found,) = session.run(None, {"features": features.reshape(-1, D), "prior": more.ravel()})
    assert_close(found, scores + more)


def test_features_that_were_dropped_do_not_matter() -> None:
    whole = ranker("p2headrank", True)
    slots = [0, 2, 3, D]  # three features and the prior are left
    scale = Scale(np.asarray(whole.location)[slots], np.asarray(whole.spread)[slots])
    fewer = standardised(whole.ranker, scale, names=["a", "b", "c"], slots=slots)
    rows, prior = documents()[0][0][:, slots[:-1]], documents()[1][0]
    scores = np.asarray(fewer.score(Query.of(rows, prior=prior, may_miss=True)))[:LENGTH]
    found = formula_of(fewer, default_prior="prior").scores(np.column_stack([rows, prior]))
    assert_close(found, scores[None])


def test_a_source_says_how_an_engine_computes_a_feature() -> None:
    query = {"match": {"title": "{{keywords}}"}}
    files = pr.export(ranker("p2linrank", False), "opensearch", names=NAMES, sources={"f1": query}).files
    feature = files["featureset.json"]["featureset"]["features"][1]
    assert (feature["template"], feature["params"]) == (query, ["keywords"])
    files = pr.export(ranker("p2linrank", False), "solr", names=NAMES, sources={"f1": "query($q)"}).files
    assert files["features.json"][1]["params"]["q"] == "{!func}max(div(sub(query($q),0.0),1.0),0)"


@pytest.mark.parametrize(
    "make, format, options, says",
    [
        (lambda: ranker("p2headrank", False), "elasticsearch", {}, "this ranker is a network"),
        (lambda: ranker("p2linrank", True), "solr", {}, "learned with a prior, which the engine does not have"),
        (lambda: pr.make("random", D), "onnx", {}, "the scores of Random cannot be written as layers"),
        (lambda: ranker("p2linrank", False), "solr", {"names": ["a b", *NAMES[1:]]}, "cannot name a feature 'a b'"),
        (lambda: ranker("p2linrank", False), "solr", {"names": NAMES[1:]}, "6 names are given"),
        (lambda: ranker("p2linrank", False), "solr", {"names": ["f1", *NAMES[1:]]}, "two features are named 'f1'"),
        (lambda: ranker("p2linrank", False), "solr", {"names": NAMES, "prior": "f1"}, "is a feature of the model"),
        (lambda: ranker("p2linrank", False), "tensorflow", {}, "unknown format 'tensorflow'"),
        (lambda: ranker("p2linrank", False), "solr", {"sources": {"pri": "x"}}, "unknown feature 'pri'"),
        (lambda: ranker("p2linrank", False), "solr", {"sources": {"feature_1": {}}}, "must be a function"),
        (lambda: ranker("p2linrank", False), "opensearch", {"sources": {"feature_1": "x"}}, "must be a query"),
        (lambda: standardised(pr.make("p2linrank", 3), Scale.unknown(3)), "json", {}, "not known yet"),
    ],
)
def test_what_a_format_cannot_express_is_refused_with_the_reason(
    make: Any, format: str, options: Any, says: str
) -> None:
    with pytest.raises(pr.BadInput, match=says):
        pr.export(make(), format, **options)


def test_a_scorer_that_looks_at_whole_lists_is_refused() -> None:
    made = pr.make("pdgd-neural", D, scorer=scorers.ATTENTION)
    with pytest.raises(pr.BadInput, match="Attention does not say how it is written as layers"):
        pr.export(made, "onnx")


def test_every_file_of_the_folder_has_formats() -> None:
    assert list(formats()) == ["elasticsearch", "json", "onnx", "opensearch", "solr"]
