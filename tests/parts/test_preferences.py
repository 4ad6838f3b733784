from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import permutations, product
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.small import clicked_places
from oracles import preferences as oracle

from perturank.core import Rewards
from perturank.parts import preferences
from perturank.parts.preferences import Inclusion, Pairs, PairSet

KAPPA = 0.7
BEYOND = (0, 1, 2)
Weighted = dict[tuple[int, int], float]


def cases(k: int) -> list[tuple[tuple[bool, ...], int, int]]:
    """Return every click pattern on k places with every number of real places and every l."""
    lengths = range(k + 1) if k == 6 else (k,)
    patterns = [(p, n) for p in product((False, True), repeat=k) for n in lengths if not any(p[n:])]
    return [(p, n, beyond) for p, n in patterns for beyond in BEYOND]


@cache
def inferred(k: int, pairs: PairSet, inclusion: Inclusion, n_keys: int = 1) -> list[list[Weighted]]:
    """Return what is inferred in each case with each key, with κ = .7, all compiled as one program."""

    @jax.jit
    def run(clicks: jax.Array, mask: jax.Array, beyond: jax.Array, keys: jax.Array) -> Pairs:
        def one(clicks: jax.Array, mask: jax.Array, beyond: jax.Array, key: jax.Array) -> Pairs:
            return preferences.inferred(
                clicked_places(clicks, mask),
                key,
                beyond=beyond,  # type: ignore[arg-type]
                pairs=pairs,
                inclusion=inclusion,
                beyond_weight=KAPPA,
            )

        every_key = jax.vmap(one, (None, None, None, 0))
        return jax.vmap(every_key, (0, 0, 0, None))(clicks, mask, beyond, keys)

    patterns, lengths, beyond = (np.array(column) for column in zip(*cases(k), strict=True))
    mask = np.arange(k) < lengths[:, None]
    keys = jax.random.split(jax.random.key(5), n_keys)
    found = run(jnp.asarray(patterns), jnp.asarray(mask), jnp.asarray(beyond), keys)
    winner, loser, weight = (np.asarray(a) for a in (found.winner, found.loser, found.weight))
    return [
        [decoded(*of_key) for of_key in zip(*of_case, strict=True)]
        for of_case in zip(winner, loser, weight, strict=True)
    ]


def decoded(winner: np.ndarray, loser: np.ndarray, weight: np.ndarray) -> Weighted:
    real = [(int(i), int(j), float(w)) for i, j, w in zip(winner, loser, weight, strict=True) if w > 0]
    assert len({(i, j) for i, j, _ in real}) == len(real)
    return {(i, j): w for i, j, w in real}


def discount(clicks: tuple[bool, ...], pair: tuple[int, int], beyond: int) -> float:
    """Return κ for a pair whose unclicked document lies after the last click."""
    last = max(place for place, click in enumerate(clicks) if click)
    expected = KAPPA if pair[1] > last else 1.0
    if beyond <= 1:
        assert expected == oracle.trust(clicks, pair, KAPPA)
    return expected


@pytest.mark.parametrize("inclusion", ["paper", "symmetric"])
@pytest.mark.parametrize("k", [1, 5, 6])
def test_all_pairs_and_their_weights_are_those_of_the_oracle_for_every_click_pattern(
    k: int, inclusion: Inclusion
) -> None:
    oracle_pairs = oracle.all_pairs if inclusion == "paper" else oracle.symmetric_pairs
    for (pattern, n, beyond), (found,) in zip(cases(k), inferred(k, "all", inclusion), strict=True):
        clicks = pattern[:n]
        pairs = oracle_pairs(clicks, beyond)
        n_most = max((len({pair[end] for pair in pairs}) for end in (0, 1)), default=0)
        if inclusion == "paper" and pairs:
            assert oracle.balanced_weight(clicks, beyond) == 1 / n_most
        expected = {pair: discount(clicks, pair, beyond) / n_most for pair in pairs}
        assert found == pytest.approx(expected), (pattern, n, beyond)


def test_the_places_down_to_the_last_click_and_l_beyond_count_as_examined() -> None:
    examined = jax.jit(preferences.examined)
    for pattern in product((False, True), repeat=5):
        for beyond in BEYOND:
            seen = np.asarray(examined(jnp.asarray(pattern), jnp.ones(5, bool), beyond))
            depth = oracle.examined_depth(pattern, beyond)
            assert seen.tolist() == [place < depth for place in range(5)]


def test_independent_pairs_share_no_document_and_are_as_many_as_there_can_be() -> None:
    for (pattern, n, beyond), found in zip(cases(6), inferred(6, "independent", "paper", 4), strict=True):
        clicks = pattern[:n]
        allowed = set(oracle.all_pairs(clicks, beyond))
        depth = oracle.examined_depth(clicks, beyond)
        n_clicked = sum(clicks[:depth])
        for pairs in found:
            assert set(pairs) <= allowed
            assert len(pairs) == min(n_clicked, depth - n_clicked)
            places = [place for pair in pairs for place in pair]
            assert len(set(places)) == len(places)
            assert pairs == pytest.approx({pair: discount(clicks, pair, beyond) for pair in pairs})


def test_independent_pairs_that_are_not_symmetric_are_dropped_on_request() -> None:
    paper, symmetric = (inferred(6, "independent", inclusion, 4) for inclusion in ("paper", "symmetric"))
    for (pattern, n, beyond), of_paper, found in zip(cases(6), paper, symmetric, strict=True):
        kept = set(oracle.symmetric_pairs(pattern[:n], beyond))
        for with_all, pairs in zip(of_paper, found, strict=True):
            assert pairs == {pair: weight for pair, weight in with_all.items() if pair in kept}


def test_every_matching_is_equally_likely() -> None:
    clicks, n_draws = (True, False, False, True, False, False), 6000
    interaction = clicked_places(jnp.asarray(clicks), jnp.ones(6, bool))
    draw = jax.jit(jax.vmap(lambda key: preferences.inferred(interaction, key, beyond=1, pairs="independent")))
    drawn = draw(jax.random.split(jax.random.key(0), n_draws))
    found = Counter(
        frozenset(decoded(*one))
        for one in zip(*(np.asarray(a) for a in (drawn.winner, drawn.loser, drawn.weight)), strict=True)
    )
    matchings = {
        frozenset(oracle.independent_pairs(clicks, 1, clicked, unclicked))
        for clicked in permutations(range(2))
        for unclicked in permutations(range(3))
    }
    assert set(found) == matchings
    assert len(matchings) == factorial(3)
    p = 1 / len(matchings)
    for count in found.values():
        assert abs(count - n_draws * p) < 5 * np.sqrt(n_draws * p * (1 - p))


@pytest.mark.parametrize("k", range(1, 12))
def test_no_list_gives_more_pairs_than_there_is_room_for(k: int) -> None:
    assert preferences.n_pairs_at_most(k, "independent") == max(max(min(c, k - c) for c in range(k + 1)), 1)
    assert preferences.n_pairs_at_most(k, "all") == max(max(c * (k - c) for c in range(k + 1)), 1)


WORTHS = (-1.0, 0.0, 1.0, 10.0)


@pytest.mark.parametrize("inclusion", ["paper", "symmetric"])
def test_preferences_follow_worth_and_what_was_seen(inclusion: Inclusion) -> None:
    @jax.jit
    def weights(worth: jax.Array, seen: jax.Array) -> jax.Array:
        rewards = Rewards(worth, seen, jnp.zeros(4), jnp.asarray(0))
        interaction = clicked_places(worth > 0, jnp.ones(4, bool), rewards)
        return preferences.preference_weights(interaction, 1, inclusion)

    for worth in product(WORTHS, repeat=4):
        for seen in (0, 2, 4):
            expected = oracle.worth_pairs(worth, seen, 1, symmetric=inclusion == "symmetric")
            found = np.asarray(weights(jnp.asarray(worth), jnp.asarray(seen)))
            assert {(i, j): found[i, j] for i, j in np.argwhere(found)} == expected, (worth, seen)


@pytest.mark.parametrize("pairs", ["all", "independent"])
@pytest.mark.parametrize("inclusion", ["paper", "symmetric"])
def test_clicks_are_rewards_of_one(pairs: PairSet, inclusion: Inclusion) -> None:
    @jax.jit
    def both(clicks: jax.Array, mask: jax.Array) -> tuple[Pairs, Pairs]:
        rewards = Rewards(clicks.astype(jnp.float32), jnp.asarray(0), jnp.zeros(6), jnp.asarray(0))
        told = clicked_places(clicks, mask), clicked_places(clicks, mask, rewards)
        one, other = (
            preferences.inferred(
                each, jax.random.key(1), beyond=1, pairs=pairs, inclusion=inclusion, beyond_weight=KAPPA
            )
            for each in told
        )
        return one, other

    for pattern in product((False, True), repeat=6):
        for n in (4, 6):
            mask = np.arange(6) < n
            one, other = both(jnp.asarray(np.asarray(pattern) & mask), jnp.asarray(mask))
            plain, rewarded = (
                decoded(*(np.asarray(a) for a in (each.winner, each.loser, each.weight))) for each in (one, other)
            )
            if pairs == "all":
                assert rewarded == plain, (pattern, n)
            else:  # which places may be paired off differs where no pair is symmetric
                assert set(rewarded) <= set(oracle.all_pairs(pattern[:n], 1)), (pattern, n)
                assert len(rewarded) >= len(plain), (pattern, n)


def test_what_was_learned_before_is_not_learned_again() -> None:
    before, now = jnp.asarray([0.0, 1.0, 0.0, 0.0]), jnp.asarray([0.0, 10.0, 0.0, 1.0])
    rewards = Rewards(now, jnp.asarray(4), before, jnp.asarray(3))
    found = preferences.preference_weights(clicked_places(now > 0, jnp.ones(4, bool), rewards), 1)
    expected = {(1, 0): 9.0, (1, 2): 9.0, (1, 3): 9.0, (3, 0): 1.0, (3, 2): 1.0}
    assert {(int(i), int(j)): float(found[i, j]) for i, j in np.argwhere(np.asarray(found))} == expected
    same = Rewards(before, jnp.asarray(3), before, jnp.asarray(3))
    again = preferences.preference_weights(clicked_places(before > 0, jnp.ones(4, bool), same), 1)
    assert not np.asarray(again).any()


def test_of_many_worths_the_heaviest_pairs_are_kept() -> None:
    worth = jnp.arange(6.0)
    rewards = Rewards(worth, jnp.asarray(6), jnp.zeros(6), jnp.asarray(0))
    interaction = clicked_places(worth > 0, jnp.ones(6, bool), rewards)
    found = preferences.inferred(interaction, jax.random.key(0), beyond=1, pairs="all")
    weights = decoded(*(np.asarray(a) for a in (found.winner, found.loser, found.weight)))
    gaps = sorted((i - j for i in range(6) for j in range(i)), reverse=True)
    assert sorted(weights.values(), reverse=True) == pytest.approx([gap / 5 for gap in gaps[:9]])
