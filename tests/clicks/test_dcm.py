from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import clicks as oracle

from perturank.clicks import user
from perturank.clicks.dcm import DCM, TABLES, Stop
from perturank.core import ClickModel

DRAWS = 40_000


def frequencies(model: ClickModel, grades: list[int], mask: list[bool] | None = None) -> dict[tuple[bool, ...], float]:
    """Return how often each click pattern came up."""
    seen = jnp.ones(len(grades), bool) if mask is None else jnp.asarray(mask)
    keys = jax.random.split(jax.random.key(3), DRAWS)
    clicks = jax.jit(jax.vmap(lambda key: model.click(jnp.asarray(grades), seen, key)))(keys)
    counts = Counter(map(tuple, np.asarray(clicks).tolist()))
    return {pattern: count / DRAWS for pattern, count in counts.items()}


def assert_same_law(seen: dict[tuple[bool, ...], float], exact: dict[tuple[bool, ...], float]) -> None:
    """Compare frequencies with probabilities, at five standard deviations."""
    assert sum(exact.values()) == pytest.approx(1)
    for pattern in exact.keys() | seen.keys():
        p = exact.get(pattern, 0.0)
        assert abs(seen.get(pattern, 0.0) - p) <= 5 * np.sqrt(p * (1 - p) / DRAWS) + 1e-12, pattern


@pytest.mark.parametrize("stop", ["examined", "clicked"])
@pytest.mark.parametrize("name", ["perfect", "navigational", "informational"])
def test_clicks_have_the_probabilities_of_the_enumerated_readings(name: str, stop: Stop) -> None:
    grades = [1, 0, 4, 2]
    p_click, p_stop = TABLES[name][5]
    assert_same_law(frequencies(user(name, 5, stop=stop), grades), oracle.dcm(grades, p_click, p_stop, stop))


@pytest.mark.parametrize("stop", ["examined", "clicked"])
def test_masked_places_are_neither_clicked_nor_a_place_to_stop(stop: Stop) -> None:
    model = DCM.table(click=[0.5, 0.8], stop=[0.7, 0.4], rule=stop)
    seen = frequencies(model, [1, 0, 0, 1], mask=[True, False, True, False])
    exact: dict[tuple[bool, ...], float] = {
        (a, False, b, False): p for (a, b), p in oracle.dcm([1, 0], [0.5, 0.8], [0.7, 0.4], stop).items()
    }
    assert_same_law(seen, exact)


def test_the_perfect_user_is_the_same_under_both_stop_rules() -> None:
    grades, mask, key = jnp.array([0, 2, 1, 2]), jnp.ones(4, bool), jax.random.key(0)
    examined, clicked = (user("perfect", 3, stop=stop).click(grades, mask, key) for stop in ("examined", "clicked"))
    np.testing.assert_array_equal(examined, clicked)


def test_a_user_works_inside_scan_and_vmap() -> None:
    model = user("informational", 5)
    grades, mask = jnp.array([4, 0, 2]), jnp.array([True, True, False])
    keys = jax.random.split(jax.random.key(1), 6)
    _, scanned = jax.lax.scan(lambda carry, key: (carry, model.click(grades, mask, key)), 0, keys)
    batched = jax.vmap(model.click, in_axes=(None, None, 0))(grades, mask, keys)
    np.testing.assert_array_equal(scanned, batched)
    assert scanned.dtype == bool
    assert not scanned[:, 2].any()


def test_every_table_has_one_click_and_one_stop_probability_per_grade() -> None:
    for tables in TABLES.values():
        for n_grades, (click, stop) in tables.items():
            assert len(click) == len(stop) == n_grades
