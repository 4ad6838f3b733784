from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import scorers, small
from oracles import network as oracle

from perturank import storage
from perturank.core import Query
from perturank.errors import BadInput
from perturank.parts import scoring
from perturank.parts.scoring import Network, Start

X = small.rows(6)
KEY = jax.random.key(2)


@cache
def centred(widths: tuple[int, ...]) -> Network:
    net: Network = eqx.filter_jit(lambda key: scoring.network(5, widths, key, "centred"))(KEY)
    return net


def layers(net: Any) -> list[np.ndarray]:
    """Return W_1 … W_L as the oracle has them: one row a unit."""
    return [*(np.asarray(weight, np.float64).T for weight in net.hidden), np.asarray(net.output, np.float64)]


def like_parameters(gradients: list[np.ndarray]) -> np.ndarray:
    """Return an oracle's gradients in the order of our parameters: one column a unit."""
    return np.concatenate([*(g.T.ravel() for g in gradients[:-1]), gradients[-1].ravel()])


@pytest.mark.parametrize("widths", [(8,), (8, 4)])
def test_a_centred_network_is_that_of_the_paper_with_its_root_of_m(widths: tuple[int, ...]) -> None:
    net = centred(widths)
    expected = [oracle.score(layers(net), x) for x in X]
    np.testing.assert_allclose(net(jnp.asarray(X)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("widths", [(8,), (8, 4)])
def test_gradients_of_documents_are_those_of_back_propagation_by_hand(widths: tuple[int, ...]) -> None:
    net = centred(widths)
    expected = [like_parameters(oracle.gradient(layers(net), x)) for x in X]
    found = scoring.document_gradients(net, jnp.asarray(X))
    assert found.shape == (6, scoring.n_parameters(net))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.as_shipped
def test_a_network_that_starts_at_zero_scores_zero_to_the_bit_and_can_learn() -> None:
    for shortcut in (False, True):
        net = scoring.network(5, (8,), KEY, "zero", shortcut)
        assert not np.asarray(net(jnp.asarray(X))).any()
        assert np.asarray(scoring.document_gradients(net, jnp.asarray(X))).any()
    assert not np.asarray(scoring.linear(5)(jnp.asarray(X))).any()


@pytest.mark.as_shipped
@pytest.mark.parametrize("widths", [(8,), (8, 4)])
def test_centred_networks_score_zero_to_the_bit_at_their_start(widths: tuple[int, ...]) -> None:
    """A rest of 1e-8 would be an order on which the rankers can agree."""
    nets = jax.tree.map(lambda leaf: leaf[None], centred(widths))
    scores = jax.jit(scoring.centred_scores)(nets, jax.tree.map(jnp.copy, nets), jnp.asarray(X))
    assert not np.asarray(scores).any()


@pytest.mark.as_shipped
def test_a_shortcut_adds_a_linear_path() -> None:
    net = scoring.network(5, (8,), KEY, "centred", shortcut=True)
    theta = np.arange(5.0, dtype=np.float32)
    bare, path = Network(net.hidden, net.output, None, net.scale), Network(net.hidden, net.output, theta, net.scale)  # type: ignore[arg-type]
    np.testing.assert_array_equal(net(jnp.asarray(X)), bare(jnp.asarray(X)))
    np.testing.assert_allclose(path(jnp.asarray(X)) - bare(jnp.asarray(X)), X @ theta, atol=1e-5)


@pytest.mark.parametrize("start, n_in", [("zero", 400), ("centred", 100)])
def test_hidden_weights_have_the_variance_that_keeps_signals_alive(start: Start, n_in: int) -> None:
    (weight,) = eqx.filter_jit(lambda key: scoring.network(400, (100,), key, start))(KEY).hidden
    assert float(jnp.std(weight)) == pytest.approx(sqrt(2 / n_in), rel=5 / sqrt(2 * weight.size))


def test_an_ensemble_is_many_networks_in_one() -> None:
    keys = jax.random.split(KEY, 3)
    alone = [scoring.network(5, (8,), key, "centred") for key in keys]
    together = eqx.filter_jit(scoring.ensemble)(lambda key: scoring.network(5, (8,), key, "centred"), 3, KEY)
    scores = scoring.ensemble_scores(together, jnp.asarray(X))
    np.testing.assert_allclose(scores, np.stack([net(jnp.asarray(X)) for net in alone], 1), rtol=1e-4, atol=1e-5)
    assert len(set(np.asarray(scores)[0].tolist())) == 3


@pytest.mark.parametrize("shortcut", [False, True])
@pytest.mark.parametrize("widths", [(8,), (8, 6)])
def test_going_back_through_kept_activities_is_automatic_differentiation(
    widths: tuple[int, ...], shortcut: bool
) -> None:
    nets = scoring.ensemble(lambda key: scoring.network(5, widths, key, "centred", shortcut), 3, jax.random.key(2))
    x, slopes = jnp.asarray(small.rows(20)), jnp.asarray(np.random.default_rng(1).normal(size=(20, 3)), jnp.float32)
    scores, kept = scoring.forward(nets, x)
    np.testing.assert_allclose(scores, scoring.ensemble_scores(nets, x), rtol=1e-5)
    trained, fixed = eqx.partition(nets, eqx.is_array)
    expected = jax.vjp(lambda p: scoring.ensemble_scores(eqx.combine(p, fixed), x), trained)[1](slopes)[0]
    found = scoring.backward(nets, x, kept, slopes)
    for a, b in zip(small.arrays(found), small.arrays(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_other_modules_are_differentiated_without_keeping_anything() -> None:
    lines = scoring.Linear(jnp.asarray(np.random.default_rng(1).normal(size=(2, 5)), jnp.float32))
    x, slopes = jnp.asarray(small.rows(4)), jnp.ones((4, 2))
    scores, kept = scoring.forward(lines, x)
    assert kept == ()
    assert scores.shape == (4, 2)
    np.testing.assert_allclose(scoring.backward(lines, x, kept, slopes).weight, jnp.stack([x.sum(0)] * 2), rtol=1e-5)


def test_many_documents_are_scored_block_by_block_as_if_at_once() -> None:
    v, n = 2 * scoring.BLOCK + 100, 2 * scoring.BLOCK - 10
    features = jnp.asarray(small.rows(v))
    net = scoring.ensemble(lambda key: scoring.network(5, (8,), key, "centred"), 2, jax.random.key(2))
    found = scoring.by_blocks(lambda rows: scoring.ensemble_scores(net, rows), features, jnp.asarray(n))
    np.testing.assert_allclose(found[:n], scoring.ensemble_scores(net, features)[:n], rtol=1e-4, atol=1e-5)


# Scorers of one's own


def test_a_scorer_of_whole_lists_follows_a_permutation_of_its_candidates() -> None:
    ranker = small.learned("pdgd-neural", scorer=scorers.ATTENTION)
    order = np.random.default_rng(0).permutation(9)
    shuffled = Query.of(small.rows(9)[order])
    found = np.asarray(ranker.score(shuffled))[:9]
    np.testing.assert_allclose(found, np.asarray(ranker.score(small.query(9)))[:9][order], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        found, scorers.attention_scores(ranker.theta, small.rows(9)[order]), rtol=1e-4, atol=1e-5
    )


def test_a_step_of_a_scorer_of_whole_lists_is_along_the_gradient_of_the_shown_list() -> None:
    scorer = scorers.Attention.start(5, KEY)
    shown, slopes = small.query(6), np.pad(np.linspace(-1, 1, 6), (0, 10)).astype(np.float32)
    stepped = scoring.ascend(scorer, shown, jnp.asarray(slopes), 1.0)
    for name in ("own", "found"):
        for i in range(5):
            ends = []
            for change in (1e-4, -1e-4):
                array = getattr(scorer, name)
                moved = replace(scorer, **{name: np.asarray(array, np.float64) + change * np.eye(5)[i]})
                ends.append(scorers.attention_scores(moved, small.rows(6)) @ slopes[:6])
            gradient = float(getattr(stepped, name)[i] - getattr(scorer, name)[i])
            assert gradient == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", ["p2neurrank", "olranknet"])
def test_a_ranker_that_remembers_pairs_refuses_a_scorer_of_whole_lists(name: str) -> None:
    with pytest.raises(BadInput, match=r"looks at whole lists.*; use pdgd-neural"):
        small.ranker(name, scorer=scorers.ATTENTION)


@pytest.mark.parametrize(
    "name, says",
    [
        ("a_module_of_theirs:Scorer", r"not imported; import 'a_module_of_theirs' first"),
        ("helpers.scorers:Nothing", "is no scorer; name a class"),
        ("helpers.scorers:jnp", "is no scorer; name a class"),
        ("helpers.scorers", "is no scorer; name a class"),
        ("perturank.rankers.pdgd:PDGD", r"cannot be called: .*; its methods are start\(n_features, key\)"),
        ("helpers.scorers:Square", r"shape \(3, 1\) for 3 documents"),
    ],
)
def test_what_is_no_scorer_is_refused(name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        small.ranker("pdgd-neural", scorer=name)


def test_a_file_of_an_earlier_version_names_no_scorer(tmp_path: Path) -> None:
    ranker = small.learned("pdgd-neural")
    header = storage.header_of(ranker)
    del header["settings"]["scorer"]
    storage.write(tmp_path / "ranker", storage.arrays_of(ranker), header)
    loaded = storage.load(tmp_path / "ranker")
    assert loaded.settings == ranker.settings
    assert small.same_bits(loaded, ranker)
