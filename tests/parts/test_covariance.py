from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from oracles import certainty as oracle
from oracles import covariance

from perturank.core import Array
from perturank.parts import certainty, scoring
from perturank.parts import tangents as networks
from perturank.parts.covariance import MOST_PAIRS, Covariance, Diagonal, Full
from perturank.parts.preferences import Pairs
from perturank.parts.tangents import Tangents, inner

L2, PLACES = 0.5, 8
NET = scoring.network(5, (8, 4), jax.random.key(0), "centred", shortcut=True)
P = scoring.n_parameters(NET)
ROUNDS = 60
tangents = eqx.filter_jit(networks.tangents)  # each compiled as one program, not operation by operation
gradients = eqx.filter_jit(scoring.document_gradients)
DOCUMENTS = tangents(NET, jnp.asarray(small.rows(21, seed=99)))
G = np.asarray(gradients(NET, jnp.asarray(small.rows(21, seed=99))), np.float64)
widened = eqx.filter_jit(lambda a, shown, pairs, l2=L2: a.widened(shown, pairs, l2))
kernel = eqx.filter_jit(lambda a, needed, l2=L2: a.kernel(DOCUMENTS, inner(DOCUMENTS, DOCUMENTS), needed, l2))
EVERYONE = jnp.ones(21, bool)


def start(form: Any) -> Any:
    """Return λI; tiles of 32 rows give the full A several of them."""
    like = tangents(NET, jnp.zeros((1, 5)))
    return Full.start(like, L2, tile=MOST_PAIRS) if form is Full else Diagonal.start(like, L2)


@cache
def lesson(t: int, n_pairs: int = 3) -> tuple[Tangents, Pairs, np.ndarray]:
    """Return a list, its pairs, some of no weight or of a document with itself, and their gradient differences."""
    rng = np.random.default_rng(t)
    x = rng.normal(size=(PLACES, 5)).astype(np.float32)
    weight = rng.choice([0.0, 0.5, 1.0], n_pairs)
    winner, loser = rng.integers(0, PLACES, (2, n_pairs))
    g = np.asarray(gradients(NET, jnp.asarray(x)), np.float64)
    news = np.sqrt(weight)[:, None] * (g[winner] - g[loser])
    pairs = Pairs(jnp.asarray(winner), jnp.asarray(loser), jnp.asarray(weight, jnp.float32))
    return tangents(NET, jnp.asarray(x)), pairs, news


@cache
def course(form: Any) -> list[tuple[Covariance, np.ndarray]]:
    """Return A after every list, grown only when it must, and all gradient differences so far."""
    a, news, seen = start(form), np.zeros((0, P)), []
    for t in range(ROUNDS):
        shown, pairs, more = lesson(t)
        a = widened(a.with_room(1, 3), shown, pairs)
        news = np.concatenate([news, more])
        seen.append((a, news))
    return seen


@pytest.mark.parametrize("form", [Full, Diagonal])
def test_its_kernel_is_that_of_the_inverse_of_the_sum_of_outer_products(form: Any) -> None:
    for a, news in course(form)[::6]:
        expected = G @ np.linalg.inv(oracle.covariance(news, L2, diagonal=form is Diagonal)) @ G.T
        np.testing.assert_allclose(kernel(a, EVERYONE), expected, atol=1e-4 * expected.max())


def test_the_full_one_changes_its_form_on_the_way() -> None:
    forms = [bool(a.is_primal) for a, _ in course(Full) if isinstance(a, Full)]
    assert not forms[0]
    assert forms[-1]
    assert sorted(forms) == forms


@pytest.mark.parametrize("form", [Full, Diagonal])
def test_its_determinant_is_that_of_the_sum_of_outer_products(form: Any) -> None:
    for a, news in course(form)[::6]:
        full = covariance.log_det_ratio(news, L2)
        diagonal = np.log(np.diag(oracle.covariance(news, L2)) / L2).sum()
        assert float(a.log_det_ratio(L2)) == pytest.approx(full if form is Full else diagonal, rel=1e-5)


@pytest.mark.parametrize("form", [Full, Diagonal])
def test_its_bound_is_never_less_than_a_width(form: Any) -> None:
    for a, _ in course(form)[::6]:
        bound = certainty.distances(a.bound(DOCUMENTS, inner(DOCUMENTS, DOCUMENTS), L2))
        widths = certainty.distances(kernel(a, EVERYONE))
        assert (np.asarray(widths) <= np.asarray(bound) + 1e-2).all()


@pytest.mark.parametrize("form", [Full, Diagonal])
@pytest.mark.parametrize("needed", [[], [20], [0, 3, 19], range(2, 20)])
def test_its_kernel_is_known_between_all_documents_that_are_needed(form: Any, needed: list[int]) -> None:
    rows = list(needed)
    for a in (course(form)[5][0], course(form)[-1][0]):
        whole = np.asarray(kernel(a, EVERYONE))
        some = np.asarray(kernel(a, EVERYONE & jnp.asarray(np.isin(np.arange(21), rows))))
        np.testing.assert_allclose(some[np.ix_(rows, rows)], whole[np.ix_(rows, rows)], rtol=1e-4, atol=1e-4)


def test_pairs_without_weight_or_difference_add_no_row() -> None:
    shown, _, _ = lesson(0)
    same = Tangents(*jax.tree.map(lambda leaf: leaf.at[1].set(leaf[0]), (shown.inputs, shown.backwards)))
    for weight, second in ((0.0, 2), (1.0, 0), (1.0, 1)):
        pairs = Pairs(jnp.asarray([0, 2]), jnp.asarray([second, 3]), jnp.asarray([weight, 0.0]))
        a = widened(start(Full), same, pairs)
        assert int(a.n) == 0
        assert float(a.log_det) == 0
        assert small.same_bits(a, start(Full))


def after(rounds: int, room: int, n_pairs: int = 3) -> tuple[Full, Array]:
    a = start(Full)
    for t in range(rounds):
        shown, pairs, _ = lesson(t, n_pairs)
        a = widened(a.with_room(room, n_pairs), shown, pairs)
    return a, kernel(a, EVERYONE)


@pytest.mark.as_shipped
def test_spare_room_changes_nothing() -> None:
    for rounds in (5, 20, 45):
        (tight, seen), (roomy, seen_roomy) = after(rounds, 1), after(rounds, 200)
        assert small.same_bits(seen, seen_roomy)
        assert small.same_bits(tight.with_room(200, 3), roomy.with_room(200, 3))


def test_many_pairs_are_added_in_groups() -> None:
    a, found = after(3, 1, n_pairs=45)
    news = np.concatenate([lesson(t, 45)[2] for t in range(3)])
    expected = G @ np.linalg.inv(oracle.covariance(news, L2)) @ G.T
    np.testing.assert_allclose(found, expected, atol=1e-4 * expected.max())
    assert bool(a.is_primal)


def test_a_small_regulariser_is_not_lost_in_rounding() -> None:
    a: Any = Full.start(tangents(NET, jnp.zeros((1, 5))), 1e-4, tile=MOST_PAIRS).with_room(60, 3)
    for t in range(60):
        shown, pairs, _ = lesson(t)
        a = widened(a, shown, pairs, 1e-4)
    news = np.concatenate([lesson(t)[2] for t in range(60)])
    expected = G @ np.linalg.inv(oracle.covariance(news, 1e-4)) @ G.T
    # Rounding alone comes to a hundredth, more or less by processor; in dual form nothing finite would be left.
    np.testing.assert_allclose(kernel(a, EVERYONE, 1e-4), expected, atol=5e-2 * expected.max())
