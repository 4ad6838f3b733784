from __future__ import annotations

from collections import defaultdict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from hypothesis import given, settings
from hypothesis import strategies as st

from perturank.core import Query
from perturank.parts import soundness
from perturank.parts.history import DOCUMENT_BLOCK, PAIR_BLOCK, History
from perturank.parts.preferences import Pairs

KEY = jax.random.key(0)
POOL = small.rows(7, seed=4)
PRIORS = np.linspace(-1, 1, 7).astype(np.float32)
add = eqx.filter_jit(History.add)
newer_half = eqx.filter_jit(History.newer_half)

# A list: four documents of the pool (a document may stand there twice), and winner, loser, weight of some places.
PLACE = st.integers(0, 3)
PAIR = st.tuples(PLACE, PLACE, st.sampled_from([0.0, 0.25, 1.0, 1 / 3])).filter(lambda pair: pair[0] != pair[1])
LIST = st.tuples(
    st.lists(st.integers(0, 6), min_size=4, max_size=4), st.lists(PAIR, max_size=4, unique_by=lambda pair: pair[:2])
)


def shown(documents: list[int]) -> Query:
    """Return four documents; their number is their identity."""
    ids = np.stack([documents, np.ones(4)], 1).astype(np.uint32)
    features, mask, names, prior = map(jnp.asarray, (POOL[documents], np.ones(4, bool), ids, PRIORS[documents]))
    return Query(features, mask, names, prior)


def pairs_of(pairs: list[tuple[int, int, float]]) -> Pairs:
    padded = [*pairs, *[(0, 0, 0.0)] * (4 - len(pairs))]
    winner, loser, weight = zip(*padded, strict=True)
    return Pairs(jnp.asarray(winner, jnp.int32), jnp.asarray(loser, jnp.int32), jnp.asarray(weight, jnp.float32))


def contents(history: History) -> dict[frozenset[int], tuple[float, float]]:
    """Return the total weight of each pair, and the weight with which its lower document (in the pool) won."""
    assert soundness.fault(history) is None
    n_documents, n_pairs = int(history.n_documents), int(history.n_pairs)
    names = [int(np.flatnonzero((row == POOL).all(1))[0]) for row in np.asarray(history.documents)[:n_documents]]
    assert len(set(names)) == n_documents
    np.testing.assert_array_equal(np.asarray(history.priors)[:n_documents], PRIORS[names])
    found = {}
    ends, weights, wins = (np.asarray(a) for a in (history.pair_table.keys, history.weight, history.preferred))
    for (i, j), weight, preferred in zip(ends[:n_pairs], weights, wins, strict=False):
        assert i < j
        of_lower = preferred if names[i] < names[j] else weight - preferred
        found[frozenset({names[i], names[j]})] = (float(weight), float(of_lower))
    assert len(found) == n_pairs
    assert not weights[n_pairs:].any()
    return found


@settings(max_examples=25, deadline=None)
@given(st.lists(LIST, max_size=8), st.integers(0, 8))
def test_a_history_is_a_dictionary_of_pairs_with_their_weights(
    lists: list[tuple[list[int], list[tuple[int, int, float]]]], cut: int
) -> None:
    history, known = History.empty(5), defaultdict[frozenset[int], list[float]](lambda: [0.0, 0.0])
    for i, (documents, pairs) in enumerate(lists):
        if i == cut:
            before = contents(history)
            history = history.with_room(2 * DOCUMENT_BLOCK, 2 * PAIR_BLOCK)
            assert contents(history) == before
        history, slots = add(history, shown(documents), pairs_of(pairs), KEY)
        ends, rows = np.asarray(history.pair_table.keys), np.asarray(history.documents)
        for (winner, loser, weight), slot in zip(pairs, np.asarray(slots), strict=False):
            a, b = documents[winner], documents[loser]
            is_real = weight > 0 and a != b
            assert (slot < history.weight.shape[0]) == is_real
            if is_real:
                assert {tuple(rows[end]) for end in ends[slot]} == {tuple(POOL[a]), tuple(POOL[b])}
                known[frozenset({a, b})][0] += weight
                known[frozenset({a, b})][1] += weight * (a < b)
    found = contents(history)
    assert found.keys() == known.keys()
    for pair, sums in known.items():
        assert found[pair] == pytest.approx(tuple(sums), abs=1e-5)


def test_targets_without_noise_are_the_weights_of_the_preferences() -> None:
    history, _ = add(History.empty(5), shown([0, 1, 2, 3]), pairs_of([(0, 1, 0.25), (3, 2, 1.0)]), KEY)
    targets = np.asarray(history.targets(0.0, 3, KEY))
    assert targets[:3].tolist() == [[0.25] * 3, [0.0] * 3, [0.0] * 3]


def test_a_history_with_room_is_itself_and_one_without_grows_by_doubling() -> None:
    history = History.empty(5)
    assert history.with_room(DOCUMENT_BLOCK, PAIR_BLOCK) is history
    grown = history.with_room(DOCUMENT_BLOCK + 1, 1)
    assert (grown.documents.shape[0], grown.weight.shape[0]) == (2 * DOCUMENT_BLOCK, PAIR_BLOCK)
    grown = history.with_room(1, 5 * PAIR_BLOCK)
    assert (grown.documents.shape[0], grown.weight.shape[0]) == (DOCUMENT_BLOCK, 8 * PAIR_BLOCK)


N_RANKERS = 3000
LISTS = [([0, 1, 2, 3], [(0, 1, 0.25), (2, 3, 1.0)]), ([1, 0, 4, 5], [(0, 1, 1.0), (2, 3, 0.5)])]


@pytest.mark.parametrize("kind", ["fresh", "frozen"])
def test_the_noise_of_a_pair_has_the_variance_of_its_total_weight(kind: str) -> None:
    """Each preference of weight w is perturbed by N(0, ν² w); those of one pair add up."""
    history, std = History.empty(5, N_RANKERS if kind == "frozen" else None), 0.3
    for i, (documents, pairs) in enumerate(LISTS):
        history, _ = add(history, shown(documents), pairs_of(pairs), jax.random.fold_in(KEY, i), std)
    targets = np.asarray(history.targets(std, N_RANKERS, KEY))
    assert not targets[3:].any()
    noise = targets[:3] - np.asarray(history.preferred)[:3, None]
    variances = std**2 * np.array([1.25, 1.0, 0.5])
    np.testing.assert_allclose(noise.mean(1), 0, atol=5 * np.sqrt(variances.max() / N_RANKERS))
    np.testing.assert_allclose(noise.var(1), variances, rtol=5 * np.sqrt(2 / N_RANKERS))
    correlations = np.corrcoef(noise)[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(N_RANKERS)


def test_fresh_noise_changes_with_the_key_and_frozen_noise_does_not() -> None:
    frozen, fresh = History.empty(5, 2), History.empty(5)
    for documents, pairs in LISTS[:1]:
        frozen, _ = add(frozen, shown(documents), pairs_of(pairs), KEY, 0.3)
        fresh, _ = add(fresh, shown(documents), pairs_of(pairs), KEY, 0.3)
    other = jax.random.key(1)
    np.testing.assert_array_equal(frozen.targets(0.3, 2, KEY), frozen.targets(0.3, 2, other))
    assert (np.asarray(fresh.targets(0.3, 2, KEY)) != np.asarray(fresh.targets(0.3, 2, other)))[:2].all()
    later, _ = add(frozen, shown([4, 5, 6, 0]), pairs_of([(0, 1, 1.0)]), other, 0.3)
    np.testing.assert_array_equal(later.targets(0.3, 2, KEY)[:2], frozen.targets(0.3, 2, KEY)[:2])


@pytest.mark.as_shipped
def test_noise_is_the_same_whatever_the_spare_room() -> None:
    history = History.empty(5)
    for documents, pairs in LISTS:
        history, _ = add(history, shown(documents), pairs_of(pairs), KEY)
    roomy = history.with_room(0, 2 * PAIR_BLOCK)
    np.testing.assert_array_equal(roomy.targets(0.3, 2, KEY)[:PAIR_BLOCK], history.targets(0.3, 2, KEY))


@settings(max_examples=25, deadline=None)
@given(st.lists(LIST, min_size=1, max_size=12), st.sampled_from([1, 2, 5, 9]))
def test_a_full_history_forgets_the_half_that_was_told_longest_ago(
    lists: list[tuple[list[int], list[tuple[int, int, float]]]], memory: int
) -> None:
    history, last = History.empty(5, 2, memory), dict[frozenset[int], int]()
    for i, (documents, pairs) in enumerate(lists):
        before, noise = contents(history), dict(zip(contents(history), np.asarray(history.frozen), strict=False))
        stay = set(before)
        if len(before) >= memory:
            stay = set(sorted(before, key=lambda pair: last[pair])[len(before) - memory // 2 :])
        history = newer_half(history) if history.is_full else history
        assert list(contents(history).items()) == [(pair, sums) for pair, sums in before.items() if pair in stay]
        if len(before) >= memory:
            assert int(history.n_documents) == len({document for pair in stay for document in pair})
        for pair, kept in zip(contents(history), np.asarray(history.frozen), strict=False):
            np.testing.assert_array_equal(kept, noise[pair])

        history, _ = add(history, shown(documents), pairs_of(pairs), jax.random.fold_in(KEY, i), 0.3)
        told = {frozenset({documents[winner], documents[loser]}) for winner, loser, weight in pairs if weight > 0}
        last |= {pair: i for pair in told if len(pair) == 2}
        after = contents(history)
        assert after.keys() == stay | {pair for pair in told if len(pair) == 2}
        assert all(after[pair] == before[pair] for pair in stay - told)


def test_a_history_with_a_memory_has_all_of_its_room_at_once() -> None:
    history = History.empty(5, memory=PAIR_BLOCK).with_room(4, 4)
    assert (history.documents.shape[0], history.weight.shape[0]) == (8 * DOCUMENT_BLOCK, 2 * PAIR_BLOCK)
    for documents, pairs in LISTS:
        history, _ = add(history, shown(documents), pairs_of(pairs), KEY)
    assert history.with_room(4 * DOCUMENT_BLOCK, PAIR_BLOCK) is history
    assert history.with_room(1, PAIR_BLOCK + 1) is not history


@pytest.mark.parametrize("memory", [None, 200])
def test_a_history_without_room_overflows_and_never_forgets_that_it_has(memory: int | None) -> None:
    history = History.empty(5, memory=memory)
    pairs = Pairs(jnp.arange(0, 16, 2), jnp.arange(1, 16, 2), jnp.ones(8))
    for t in range(40):
        history = newer_half(history) if history.is_full else history
        history, _ = add(history, small.query(16, seed=t), pairs, KEY)
        assert bool(history.has_overflowed) == (16 * (t + 1) > DOCUMENT_BLOCK)


def test_a_history_overflows_by_pairs_too() -> None:
    history = History.empty(5)
    query = small.query(16)
    winner, loser = (jnp.asarray(places) for places in np.triu_indices(16, 1))
    for t in range(5):
        ids = query.ids.at[:, 1].set(t)
        history, _ = add(
            history, Query(query.features, query.mask, ids, query.prior), Pairs(winner, loser, jnp.ones(120)), KEY
        )
        assert bool(history.has_overflowed) == (120 * (t + 1) > PAIR_BLOCK)


def test_a_faded_history_has_the_same_pairs_with_less_weight() -> None:
    history = small.learned("p2neurrank", noise="frozen").history
    faded = history.faded(0.25)
    for name, factor in (("weight", 0.25), ("preferred", 0.25), ("frozen", 0.5)):
        np.testing.assert_allclose(getattr(faded, name), factor * np.asarray(getattr(history, name)), rtol=1e-6)
    assert small.same_bits(faded.pair_table, history.pair_table)
    assert small.same_bits(faded.documents, history.documents)
