from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from oracles import network

from perturank.core import Array
from perturank.parts import scoring
from perturank.parts.tangents import Differences, inner, tangents

X = small.rows(7, seed=4)


class Curved(eqx.Module):
    """A scorer that is no network."""

    weight: Array
    shift: Array

    def __call__(self, features: Array) -> Array:
        return jnp.tanh(features @ self.weight + self.shift)


SCORERS: dict[str, Any] = {
    "network": scoring.network(5, (8, 4), jax.random.key(1), "centred"),
    "network at zero": scoring.network(5, (8,), jax.random.key(1), "zero"),
    "network with a shortcut": scoring.network(5, (6, 3), jax.random.key(2), "centred", shortcut=True),
    "linear": scoring.linear(5),
    "another": Curved(jnp.asarray(small.rows(1)[0]), jnp.asarray(0.3)),
}


@pytest.mark.parametrize("scorer", SCORERS.values(), ids=SCORERS)
def test_written_out_they_are_the_gradients_of_the_scores(scorer: Any) -> None:
    expected = scoring.document_gradients(scorer, jnp.asarray(X))
    found = tangents(scorer, jnp.asarray(X))
    np.testing.assert_allclose(found.explicit(), expected, rtol=1e-5, atol=1e-5)
    assert found.n_parameters == expected.shape[1] == scoring.n_parameters(scorer)


def test_those_of_a_network_are_its_gradients_by_hand() -> None:
    net = SCORERS["network"]
    layers = [np.asarray(w, np.float64).T for w in net.hidden] + [np.asarray(net.output, np.float64)]
    for x, found in zip(X, np.asarray(tangents(net, jnp.asarray(X)).explicit()), strict=True):
        first, second, last = network.gradient(layers, x)
        expected = np.concatenate([first.T.ravel(), second.T.ravel(), last])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scorer", SCORERS.values(), ids=SCORERS)
def test_inner_products_are_those_of_what_they_stand_for(scorer: Any) -> None:
    documents = tangents(scorer, jnp.asarray(X))
    pairs = Differences(documents.take(jnp.asarray([0, 1, 2])).scaled(0.5), documents.take(jnp.asarray([3, 3, 2])))
    g = np.asarray(scoring.document_gradients(scorer, jnp.asarray(X)), np.float64)
    u = 0.5 * g[[0, 1, 2]] - g[[3, 3, 2]]
    np.testing.assert_allclose(pairs.explicit(), u, atol=1e-4)
    for one, other, expected in ((documents, documents, g @ g.T), (pairs, documents, u @ g.T), (pairs, pairs, u @ u.T)):
        np.testing.assert_allclose(inner(one, other), expected, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(inner(other, one), expected.T, rtol=1e-4, atol=1e-3)
