"""What every ranker promises of its lists and its learning, and what more those promise that can do more."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank import metrics, storage
from perturank.clicks import user
from perturank.contracts.terms import (
    KEYS,
    N_FEATURES,
    PLACES,
    DoesNotApply,
    arrays,
    case,
    query,
    require,
    require_close,
    require_finite,
    require_list,
    same_bits,
    start,
)
from perturank.core import CertainOrders, Ensemble, Interaction, OffPolicy, Query, Ranker, Remembers, RowWise, traced
from perturank.datasets import Dataset
from perturank.publishing import Published

ROUNDS = 150
MOST_ROUNDS = 10_000


def it_is_a_ranker_with_settings_that_json_can_hold(published: Published) -> None:
    """`score`, `rank`, `learn`, `settings`, `n_features`; model files and logs hold the settings as JSON."""
    ranker = case(published).fresh
    require(isinstance(ranker, Ranker), f"{type(ranker).__name__} is no Ranker", "see perturank.core.Ranker")
    n = ranker.n_features
    require(n == N_FEATURES, f"n_features is {n} of a ranker made for {N_FEATURES}", "it is the width of a document")
    for own in (ranker.settings, published.settings):
        again = own.changed(**json.loads(json.dumps(own.as_dict(), allow_nan=False)))
        require(again == own, f"settings {own} come back from JSON as {again}", "use numbers, text, and tuples of them")


def it_shows_a_permutation_of_the_documents(published: Published) -> None:
    """Check that a list holds different documents; padding follows only when they run out."""
    for n in (1, 2, 4, 9, 16):
        shown = query(n, seed=n)
        for ranker in (case(published).fresh, case(published).learned):
            for key in KEYS[:3]:
                require_list(ranker.rank(shown, key, PLACES), n)
            shape = ranker.score(shown).shape
            require(shape == (16,), f"score has shape {shape} for 16 rows", "return one score per row")


def it_ranks_and_learns_with_the_same_bits_from_the_same_key(published: Published) -> None:
    """Everything random comes from `key`."""
    ranker, shown = case(published).learned, query(9, seed=5)
    one, other = (ranker.rank(shown, KEYS[3], PLACES) for _ in range(2))
    require(same_bits(one, other), "two lists of one key differ", "draw everything random from `key`")
    fresh, seen = case(published).fresh, case(published).interactions[0]
    same = same_bits(fresh.learn(seen, KEYS[0]), fresh.learn(seen, KEYS[0]))
    require(same, "learning twice from one key differs", "draw everything random from `key`")


def learning_leaves_the_old_ranker_alone(published: Published) -> None:
    """`learn` returns a new value: versions, replay and roll-back need the old one."""
    ranker, seen = case(published).learned, case(published).interactions[0]
    before = arrays(ranker)
    later = ranker.learn(seen, KEYS[4])
    unchanged = all(old.tobytes() == now.tobytes() for old, now in zip(before, arrays(ranker), strict=True))
    require(unchanged, "learn changed the old ranker", "return a new one")
    require(
        type(later) is type(ranker), f"learn returned a {type(later).__name__}", f"return a {type(ranker).__name__}"
    )


def feedback_may_be_late_repeated_or_empty(published: Published) -> None:
    """All that `learn` needs is in the interaction: clicks come late, twice, and to another machine."""
    first = case(published).interactions[0]
    silent = Interaction(first.shown, jnp.zeros_like(first.clicks), first.memo)
    full = Interaction(first.shown, jnp.ones_like(first.clicks), first.memo)
    ranker = case(published).learned.learn(first, KEYS[5])  # clicks on a list that an older version showed
    for interaction in (first, silent, full, first):
        ranker = ranker.learn(interaction, KEYS[5])
    require_finite(ranker, "after repeated feedback")
    require_list(ranker.rank(query(9), KEYS[5], PLACES), 9)
    require_finite(case(published).fresh.learn(silent, KEYS[5]), "after a list without clicks")


def it_learns_from_lists_shorter_than_the_places(published: Published) -> None:
    """Check that queries of one or two documents are learned from, whatever was clicked."""
    for n in (1, 2):
        ranker, shown = case(published).learned, query(n, seed=3)
        for clicked in ([], [0], list(range(n))):
            ranking = ranker.rank(shown, KEYS[6], PLACES)
            ranker = ranker.learn(Interaction.of(shown, ranking, clicked), KEYS[6])
            require_finite(ranker, f"after a list of {n} in {PLACES} places")
        require_list(ranker.rank(shown, KEYS[6], PLACES), n)


def a_list_may_have_one_place(published: Published) -> None:
    """`k` may be 1."""
    ranker, shown = case(published).learned, query(9)
    ranking = ranker.rank(shown, KEYS[7], 1)
    require_list(ranking, 9)
    require_finite(
        ranker.learn(Interaction.of(shown, ranking, ranking.documents), KEYS[7]), "after a list of one place"
    )


def a_prior_is_part_of_the_score(published: Published) -> None:
    """`score` adds `query.prior`: the order in use today is where learning begins."""
    prior = np.linspace(3, -3, 9).astype(np.float32)
    for ranker in (case(published).fresh, case(published).learned):
        added = np.asarray(ranker.score(query(9, prior=prior))) - np.asarray(ranker.score(query(9)))
        require_close(added[:9], prior, "score does not add query.prior", "add it to the scores", atol=1e-5)


def what_stands_in_the_padding_changes_nothing(published: Published) -> None:
    """Rows outside the mask are anything: in a simulation, the documents of the next query."""
    ranker, shown = case(published).learned, query(9, seed=6)
    strange = dataclasses.replace(shown, features=shown.features.at[9:].set(7.0), prior=shown.prior.at[9:].set(3.0))
    mine, other = (np.asarray(ranker.score(each))[:9] for each in (shown, strange))
    require_close(mine, other, "rows outside the mask change a score", "mask them")
    one, another = (ranker.rank(each, KEYS[2], PLACES).order for each in (shown, strange))
    same = same_bits(one, another)
    require(same, "rows outside the mask change a list", "mask them")


def a_row_wise_score_is_the_same_in_every_list(published: Published) -> None:
    """Where `is_row_wise` is true, rows of many queries are scored together."""
    ranker, shown = case(published).learned, query(9, seed=6)
    if not ranker.is_row_wise:
        raise DoesNotApply("is_row_wise is false")
    few = dataclasses.replace(shown, mask=jnp.arange(16) < 3)
    mine, other = (np.asarray(ranker.score(each))[:3] for each in (shown, few))
    require_close(mine, other, "a score depends on the other documents of the list", "let is_row_wise be false")


def numbers_of_its_settings_may_be_arrays(published: Published) -> None:
    """In a simulation they are, so that a sweep compiles once; see `perturank.hyperparameters.is_zero`."""
    ranker, seen, shown = case(published).learned, case(published).interactions[0], query(9, seed=5)
    mine = traced(ranker)
    if mine is ranker:
        raise DoesNotApply("settings is a static field")
    require_list(mine.rank(shown, KEYS[3], PLACES), 9)
    one, other = (each.learn(seen, KEYS[4]).score(shown) for each in (mine, ranker))
    remedy = "never branch on a number of the settings, unless by is_zero"
    require_close(
        one, other, "a ranker with arrays in its settings learns something else", remedy, rtol=1e-3, atol=1e-4
    )


def a_saved_ranker_goes_on_with_the_same_bits(published: Published) -> None:
    """Everything that is learned is an array of the ranker."""
    ranker, seen, shown = case(published).learned, case(published).interactions[1], query(9, seed=8)
    with tempfile.TemporaryDirectory() as folder:
        storage.save(ranker, Path(folder) / "ranker")
        loaded: Any = storage.load(Path(folder) / "ranker")
    remedy = "keep everything that is learned in arrays of the ranker"
    require(loaded.settings == ranker.settings, "a loaded ranker has other settings", "start must keep its settings")
    require(same_bits(loaded, ranker), "a loaded ranker has other arrays", remedy)
    same = same_bits(loaded.rank(shown, KEYS[0], PLACES), ranker.rank(shown, KEYS[0], PLACES))
    require(same, "a loaded ranker shows another list", remedy)
    same = same_bits(loaded.learn(seen, KEYS[1]), ranker.learn(seen, KEYS[1]))
    require(same, "a loaded ranker learns something else", remedy)


def it_learns_an_easy_problem_from_perfect_users(published: Published) -> None:
    """In 150 rounds it gains three tenths of what a random order lacks; where there is nothing to set, nothing."""
    if not published.settings.as_dict():
        raise DoesNotApply("the ranker has no settings")
    ranker = start(published)
    for shown, grades, keys in _lessons():
        ranking = ranker.rank(shown, keys[0], PLACES)
        seen, clicks = _answer(shown, ranking.order, grades, keys[1])
        ranker = ranker.learn(Interaction(seen, clicks, ranking.memo), keys[2])
    easy = _easy()
    scores = np.concatenate([np.asarray(ranker.score(shown))[:9] for shown, _, _ in _lessons()[:8]])
    ndcg = metrics.mean_ndcg(scores, easy.labels, easy.offsets, k=PLACES)
    by_chance = [metrics.mean_ndcg(0 * scores, easy.labels, easy.offsets, k=PLACES, seed=seed) for seed in range(20)]
    least = 0.7 * np.mean(by_chance) + 0.3
    require(
        ndcg > least,
        f"NDCG@{PLACES} is {ndcg:.3f} after {ROUNDS} rounds where the first feature is the grade",
        f"it should pass {least:.3f}: check the sign of the step, or a larger one",
    )


@cache
def _easy() -> Dataset:
    """Return eight queries of nine documents whose grade, 0 to 2, is the third in which feature 0 lies."""
    x = np.random.default_rng(3).uniform(0, 1, (72, N_FEATURES))
    return Dataset.from_arrays(x, np.minimum((3 * x[:, 0]).astype(int), 2), group=[9] * 8, normalise=False)


@cache
def _lessons() -> list[tuple[Query, Any, Any]]:
    """Return the queries of all rounds with their grades and three keys each."""
    queries = [(Query.of(x), jnp.asarray(np.pad(y, (0, 7)))) for x, y in map(_easy().query, range(8))]
    keys = jax.random.key_data(jax.random.split(jax.random.key(2), (ROUNDS, 3)))
    return [(*queries[t % 8], [jax.random.wrap_key_data(key) for key in np.asarray(keys)[t]]) for t in range(ROUNDS)]


@eqx.filter_jit
def _answer(shown: Query, order: Any, grades: Any, key: Any) -> tuple[Query, Any]:
    """Return what was shown, and a perfect user's clicks on it."""
    taken = shown.take(order)
    return taken, user("perfect", 3).click(grades[order], taken.mask, key)


def room_changes_nothing_but_the_room(published: Published) -> None:
    """`with_room` grows the memory and changes neither scores nor lists."""
    ranker, shown = case(published).learned, query(9, seed=8)
    roomy = ranker.with_room(200, PLACES)
    require(
        same_bits(roomy.with_room(1, PLACES), roomy), "with_room(1) changes a ranker with room for 200", "return it"
    )
    for mine, other in ((roomy.score(shown), ranker.score(shown)), *_lists(roomy, ranker, shown)):
        require(same_bits(mine, other), "a ranker with more room ranks differently", "padding must not count")


def a_program_that_learns_past_its_room_is_found_out(published: Published) -> None:
    """`has_overflowed` is true for ever once a compiled program has learned past the room."""
    fresh = start(published)
    n = 10
    roomy = fresh.with_room(n, PLACES)
    if roomy.is_bounded:
        raise DoesNotApply("the memory is bounded")
    while _shapes(roomy.with_room(n, PLACES)) == _shapes(roomy):  # until there is no room for so many rounds
        n *= 2
        require(n < MOST_ROUNDS, f"with_room({n}, {PLACES}) does not grow the memory", "or declare is_bounded")
    few, many = (bool(_taught(roomy, each).has_overflowed()) for each in (10, 8 * n))
    require(not few, "has_overflowed is true after 10 rounds, for which it was given room", "give it that room")
    require(many, f"has_overflowed is false after {8 * n} rounds without room", "count what finds no room")


def _shapes(ranker: Any) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(eqx.filter(ranker, eqx.is_array))]


@eqx.filter_jit
def _taught(ranker: Any, n: Any) -> Any:
    """Return the ranker after so many rounds of new documents in one compiled program."""
    dynamic, static = eqx.partition(ranker, eqx.is_array)

    def one(i: Any, dynamic: Any) -> Any:
        now, key = eqx.combine(dynamic, static), jax.random.fold_in(KEYS[0], i)
        numbers = (PLACES * i + jnp.arange(PLACES)).astype(jnp.uint32)
        features = jax.random.uniform(key, (PLACES, N_FEATURES), minval=-1.0)
        ids = jnp.stack([numbers, numbers], axis=1)
        shown = Query(features, jnp.ones(PLACES, bool), ids, jnp.zeros(PLACES))
        seen = Interaction.observed(shown, now.rank(shown, key, PLACES), jnp.arange(PLACES) == 1)
        return eqx.filter(now.learn(seen, key), eqx.is_array)

    return eqx.combine(jax.lax.fori_loop(0, n, one, dynamic), static)


def what_only_learning_needs_is_never_read_by_serving(published: Published) -> None:
    """`rank` and `score` never read the fields in `learning_only`: the service does not load them."""
    learned, fresh, shown = case(published).learned, case(published).fresh, query(9, seed=8)
    served = dataclasses.replace(learned, **{field: getattr(fresh, field) for field in learned.learning_only})
    require(
        not same_bits(served, learned), "learning changes nothing in learning_only", "name the memory's fields there"
    )
    for mine, other in ((served.score(shown), learned.score(shown)), *_lists(served, learned, shown)):
        require(same_bits(mine, other), "rank or score reads a field in learning_only", "take it out of learning_only")


def _lists(one: Any, other: Any, shown: Query) -> list[tuple[Any, Any]]:
    return [(one.rank(shown, key, PLACES), other.rank(shown, key, PLACES)) for key in KEYS[:2]]


def certain_orders_contradict_neither_one_another_nor_the_lists(published: Published) -> None:
    """No list breaks `precedes`; `certain` has no contradiction, no padding, and `uncertain` counts the rest."""
    shown, found = query(9), case(_without_floor(published))
    for ranker in (found.fresh, found.learned):
        certain, precedes = (np.asarray(eqx.filter_jit(each)(shown)) for each in (ranker.certain, ranker.precedes))
        require(not (certain & certain.T).any(), "certain holds an order and its reverse", "an order has one direction")
        padding = certain[9:].any() or certain[:, 9:].any()
        require(not padding, "certain orders rows outside the mask", "mask them")
        share, counted = float(ranker.uncertain(shown)), 1 - certain.sum() / (9 * 8 / 2)
        require(abs(share - counted) < 1e-6, f"uncertain is {share}, but {counted} by certain", "count the same pairs")
        for key in KEYS[:3]:
            order = ranker.rank(shown, key, 9).documents
            kept = not np.tril(precedes[np.ix_(order, order)]).any()
            require(kept, f"the list {order.tolist()} breaks an order of precedes", "keep to it")


def _without_floor(published: Published) -> Published:
    """Return the ranker without a floor of exploration, which may put any document at any place."""
    if "floor" not in published.settings.as_dict():
        return published
    return dataclasses.replace(published, settings=published.settings.changed(floor=0.0))


def the_score_is_the_mean_of_an_ensembles(published: Published) -> None:
    """`score` is the mean of `scores`."""
    ranker, shown = case(published).learned, query(9)
    mean, score = np.mean(ranker.scores(shown), axis=1)[:9], np.asarray(ranker.score(shown))[:9]
    require_close(mean, score, "score is not the mean of scores", "return their mean", atol=1e-5)


def a_prior_alone_decides_the_first_list(published: Published) -> None:
    """Before the first click all rankers of an ensemble agree on the order of the prior."""
    prior = np.array([0.0, 3.0, 1.0, 2.0, -1.0, 0.5, 4.0, -2.0, 0.25])
    fresh, best = start(_without_floor(published)), np.argsort(-prior)[:PLACES].tolist()
    for key in KEYS:
        ranking = fresh.rank(query(9, prior=prior), key, PLACES)
        shown, free = ranking.documents.tolist(), np.asarray(ranking.free).tolist()
        require(shown == best, f"the first list is {shown}, the prior's {best}", "start with scores of 0")
        require(free == [1] * PLACES, f"free is {free} in the first list", "all agree: every place is certain")
        p = ranking.log_propensity
        require(p is not None and float(p) == 0, f"log_propensity of the first list is {p}", "it is certain: 0")


def a_list_that_another_ranker_showed_can_be_learned_from(published: Published) -> None:
    """`memo_of` has the shape of the ranker's own memo, and `learn` accepts it."""
    ranker, seen = case(published).fresh, case(published).interactions[1]
    memo = ranker.memo_of(seen.shown)
    mine, own = jax.tree.map(jnp.shape, memo), jax.tree.map(jnp.shape, seen.memo)
    require(mine == own, f"memo_of has the shapes {mine}, the memo {own}", "return one like that of rank")
    after = ranker.learn(Interaction(seen.shown, seen.clicks, memo), KEYS[0])
    require_finite(after, "after another ranker's list")
    require(not same_bits(after, ranker), "nothing is learned from another ranker's list", "learn by memo_of")


CONTRACTS: dict[Callable[[Published], None], tuple[type, ...]] = {
    it_is_a_ranker_with_settings_that_json_can_hold: (),
    it_shows_a_permutation_of_the_documents: (),
    it_ranks_and_learns_with_the_same_bits_from_the_same_key: (),
    learning_leaves_the_old_ranker_alone: (),
    feedback_may_be_late_repeated_or_empty: (),
    it_learns_from_lists_shorter_than_the_places: (),
    a_list_may_have_one_place: (),
    a_prior_is_part_of_the_score: (),
    what_stands_in_the_padding_changes_nothing: (),
    a_row_wise_score_is_the_same_in_every_list: (RowWise,),
    numbers_of_its_settings_may_be_arrays: (),
    a_saved_ranker_goes_on_with_the_same_bits: (),
    it_learns_an_easy_problem_from_perfect_users: (),
    room_changes_nothing_but_the_room: (Remembers,),
    a_program_that_learns_past_its_room_is_found_out: (Remembers,),
    what_only_learning_needs_is_never_read_by_serving: (Remembers,),
    certain_orders_contradict_neither_one_another_nor_the_lists: (CertainOrders,),
    the_score_is_the_mean_of_an_ensembles: (Ensemble,),
    a_prior_alone_decides_the_first_list: (Ensemble,),
    a_list_that_another_ranker_showed_can_be_learned_from: (OffPolicy,),
}
