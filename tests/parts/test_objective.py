from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from oracles import objective as oracle

from perturank.core import Array
from perturank.parts import objective
from perturank.parts.objective import Loss

RNG = np.random.default_rng(3)
F = RNG.normal(0, 2, 40)
Y = RNG.integers(0, 2, 40).astype(float)
NOISE = RNG.normal(0, 0.3, 40)
WEIGHT = RNG.uniform(0.1, 3, 40)
PER_PAIR: dict[Loss, Callable[..., float]] = {
    "cross-entropy": oracle.cross_entropies,
    "symmetric": oracle.bounded,
    "mixed": oracle.mixed,
}
GIVEN: tuple[Array, Array, Array] = (
    jnp.asarray(F, jnp.float32),
    jnp.asarray(WEIGHT, jnp.float32),
    jnp.asarray(WEIGHT * (Y + NOISE), jnp.float32),
)


def of_one(kind: Loss, pair: int, f: np.ndarray) -> float:
    return PER_PAIR[kind](f, Y[pair], NOISE[pair], WEIGHT[pair])


@pytest.fixture(params=PER_PAIR)
def kind(request: pytest.FixtureRequest) -> Loss:
    chosen: Loss = request.param
    return chosen


def test_a_loss_is_that_of_the_paper_up_to_float32(kind: Loss) -> None:
    each = [of_one(kind, i, F[i]) for i in range(40)]
    np.testing.assert_allclose(objective.loss(*GIVEN, kind), each, rtol=1e-5, atol=1e-5)


def test_a_slope_is_the_difference_quotient_of_the_loss(kind: Loss) -> None:
    numeric = [oracle.central_differences(partial(of_one, kind, i), F[i : i + 1])[0] for i in range(40)]
    np.testing.assert_allclose(objective.slope(*GIVEN, kind), numeric, rtol=1e-4, atol=1e-5)


def second_differences(kind: Loss, pair: int, f: float, step: float = 1e-3) -> float:
    up, here, down = (of_one(kind, pair, np.array([f + s])) for s in (step, 0, -step))
    return (up - 2 * here + down) / step**2


def test_the_curvature_of_cross_entropy_is_its_second_difference() -> None:
    numeric = np.array([second_differences("cross-entropy", i, F[i]) for i in range(40)])
    np.testing.assert_allclose(objective.curvature(*GIVEN[:2], "cross-entropy"), numeric, rtol=1e-3, atol=1e-5)


def test_the_curvature_given_for_the_symmetric_loss_is_never_exceeded_by_plain_clicks() -> None:
    bound = np.asarray(objective.curvature(*GIVEN[:2], "symmetric"))
    np.testing.assert_allclose(bound, WEIGHT / 4, rtol=1e-5)
    for i in range(40):
        everywhere = [plain_second_differences(i, f) for f in (*np.linspace(-6, 6, 25), np.log(2 + 3**0.5))]
        assert 0.7 * bound[i] < max(everywhere) < 0.8 * bound[i]


def plain_second_differences(pair: int, f: float, step: float = 1e-3) -> float:
    up, here, down = (oracle.bounded(f + s, Y[pair], 0.0, WEIGHT[pair]) for s in (step, 0, -step))
    return abs(up - 2 * here + down) / step**2


def test_all_losses_begin_with_the_same_slope(kind: Loss) -> None:
    _, weight, target = GIVEN
    slope = objective.slope(jnp.zeros(40), weight, target, kind)
    np.testing.assert_allclose(slope, weight / 2 - target, rtol=1e-5, atol=1e-6)


def test_only_the_symmetric_loss_takes_no_notice_of_a_pair_that_contradicts_it() -> None:
    won, lost = jnp.ones(1), jnp.full(1, -20.0)
    slopes = {kind: float(objective.slope(lost, won, won, kind)[0]) for kind in PER_PAIR}
    assert slopes["cross-entropy"] == pytest.approx(-1)
    assert slopes["mixed"] == pytest.approx(-0.2)
    assert slopes["symmetric"] == pytest.approx(0, abs=1e-6)
