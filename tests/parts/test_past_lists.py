from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from helpers import small

from perturank.core import Interaction, Query, Ranker
from perturank.errors import BadInput
from perturank.parts.past_lists import AT_ONCE, Memo, PastList, learn_from, learn_from_lists
from perturank.parts.standardised import Scale, standardised

D, KEY = small.N_FEATURES, jax.random.key(3)
WEIGHTS = np.linspace(-1, 1, D)


def documents(seed: int = 0, n: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (n, D)).astype(np.float32)


def past(seed: int, n: int = 6) -> PastList:
    """Return a list whose best document was clicked."""
    shown = documents(seed, n)
    return PastList(shown, [int(np.argmax(shown @ WEIGHTS))])


def must_be_close(one: Ranker, other: Ranker) -> None:
    for mine, theirs in zip(small.arrays(one), small.arrays(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["p2linrank", "epsilon-greedy-linear"])
def test_a_past_list_is_learned_as_one_that_the_ranker_drew_itself(name: str) -> None:
    start, query = small.ranker(name), Query.of(documents())
    ranking = start.rank(query, jax.random.key(1), 16)
    drawn = start.learn(Interaction.of(query, ranking, [int(ranking.documents[2])]), KEY)
    must_be_close(start.learn_from(documents()[ranking.documents], [2], key=KEY), drawn)


@pytest.mark.parametrize("name", small.one_of_each_kind())
def test_a_ranker_learns_from_past_lists_or_says_that_it_cannot(name: str) -> None:
    start = small.ranker(name)
    if Memo.of(start, 1).is_needed:
        assert name.startswith(("pdgd", "dbgd", "mgd"))
        with pytest.raises(BadInput, match="cannot learn from lists that it has not drawn itself"):
            start.learn_from(documents(), [0])
        with pytest.raises(BadInput, match="cannot learn from lists that it has not drawn itself"):
            start.learn_from_lists([past(0)])
    else:
        assert small.is_finite(start.learn_from(documents(), [3]))
        assert not name.startswith(("pdgd", "dbgd", "mgd"))


def test_clicks_are_places_or_booleans_and_rewards_say_more() -> None:
    start = small.ranker("p2linrank")
    clicked = start.learn_from(documents(), [2])
    assert small.same_bits(clicked, start.learn_from(documents(), np.arange(6) == 2))
    assert not small.same_bits(clicked, start)
    assert not small.same_bits(clicked, start.learn_from(documents(1), [2]))
    must_be_close(
        start.learn_from(documents(), [2], key=KEY),
        start.learn_from(documents(), rewards=[0, 0, 1, 0, 0, 0], key=KEY),
    )
    purchase = learn_from(start, documents(), rewards=[0, 0, 10, 0, 1, 0], seen=6, key=KEY)
    assert not small.same_bits(clicked, purchase)


def test_many_lists_leave_the_memory_that_they_leave_one_by_one() -> None:
    start, lists = small.ranker("p2linrank"), [past(seed, 4 + seed % 3) for seed in range(AT_ONCE + 3)]
    at_once, one_by_one = start.learn_from_lists(iter(lists)), start
    for each in lists:
        one_by_one = one_by_one.learn_from(each.features, each.clicks)
    for history in ("n_documents", "n_pairs"):
        assert int(getattr(at_once.history, history)) == int(getattr(one_by_one.history, history))
    query = Query.of(documents(999, 16))
    for learned in (at_once, one_by_one):
        assert np.corrcoef(learned.score(query), documents(999, 16) @ WEIGHTS)[0, 1] > 0.9
    assert small.same_bits(at_once, learn_from_lists(start, lists))


def test_lists_may_grow_longer_and_have_rewards_among_clicks() -> None:
    lists = [past(0), PastList(documents(1, 12), rewards=[0.0] * 11 + [3.0], prior=range(12), seen=12)]
    ids = PastList(documents(2), [1], ids=range(6))
    assert small.is_finite(small.ranker("pairrank").learn_from_lists([*lists, ids]))


def test_a_missing_feature_is_refused_unless_the_ranker_standardises() -> None:
    shown = documents()
    shown[1, 2] = np.nan
    with pytest.raises(BadInput, match=r"features\[1, 2\] is nan"):
        small.ranker("p2linrank").learn_from(shown, [0])
    behind: Any = standardised(small.ranker("p2linrank"), Scale.unknown(D))  # the prior is its last column
    assert small.is_finite(behind.learn_from(shown[:, : D - 1], [0]))


@pytest.mark.parametrize(
    "given, says",
    [
        ({}, "clicks or rewards"),
        ({"clicks": [0], "rewards": [1.0] * 6}, "clicks or rewards"),
        ({"clicks": [6]}, "place 6 was clicked, and 6 were shown"),
        ({"clicks": [-1]}, "place -1 was clicked"),
        ({"clicks": [0, 1, 0, 0, 0, 0]}, "names a place twice; give each place once, or a boolean"),
        ({"clicks": [True]}, r"clicks has shape \(1,\) for 6 documents"),
        ({"clicks": [0.5]}, "give places, counted from 0"),
        ({"rewards": [1.0]}, r"rewards has shape \(1,\) for 6 documents"),
        ({"rewards": [float("nan")] * 6}, "a finite number for each place"),
        ({"clicks": [0], "seen": 7}, "7 places were seen, and 6 shown"),
        ({"clicks": [0], "prior": [1.0]}, "prior has 1 scores for 6 documents"),
    ],
)
def test_what_cannot_have_happened_is_refused(given: dict[str, Any], says: str) -> None:
    start = small.ranker("p2linrank")
    with pytest.raises(BadInput, match=says):
        start.learn_from(documents(), **given)
    with pytest.raises(BadInput, match=f"list 1: .*{says}"):
        start.learn_from_lists([past(0), PastList(documents(), **given)])


def test_documents_of_another_width_are_refused() -> None:
    with pytest.raises(BadInput, match=f"documents have 2 features; this ranker was made for {D}"):
        small.ranker("p2linrank").learn_from([[1.0, 2.0]], [0])
    with pytest.raises(BadInput, match="list 0: features must be numbers in rows of equal length"):
        small.ranker("p2linrank").learn_from_lists([PastList([[1.0], [1.0, 2.0]], [0])])
