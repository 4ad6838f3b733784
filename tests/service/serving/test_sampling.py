"""Lists as they are answered: what may be shown, and how probable it was."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from collections import Counter
from typing import Any

import equinox as eqx
import jax
import msgspec
import numpy as np
import pytest
from helpers import small
from helpers.service_small import PLACES, impression, rows, spec

from perturank.core import Query
from perturank.rankers.p2headrank import N_RESIDUALS
from perturank.service.log.spec import checked_spec
from perturank.service.serving.explain import explored
from perturank.service.serving.sampling import MOST_PROGRAMS, ListProgram, SampledList, place_log_p, sample_list
from perturank.wire.specification import Exploration, SpecRequest


def test_where_no_list_explores_every_place_is_certain() -> None:
    model = spec("random", exploration=Exploration(share=0.0))
    found = sample_list(ListProgram.of(model.start(), model), rows(6), None, PLACES)
    assert found.order == found.best
    assert found.free == [1] * PLACES
    assert found.log_propensity == 0.0


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_every_share_of_lists_that_explore_has_a_probability(share: float) -> None:
    """Two documents in random order: an exploring list is either with probability 1/2, another is the best."""
    model = spec("random", exploration=Exploration(share=share))
    program = ListProgram.of(model.start(), model)
    found = [sample_list(program, rows(2), None, PLACES, draw=i) for i in range(50)]
    assert {each.order == each.best for each in found} == ({True} if share == 0 else {True, False})
    for each in found:
        assert each.log_propensity is not None
        assert math.exp(each.log_propensity) == pytest.approx(share / 2 + (1 - share) * (each.order == each.best))


def test_a_list_uses_what_is_known_of_its_documents_beyond_their_features() -> None:
    model = checked_spec(SpecRequest(n_features=3, settings={"widths": [4]}))
    lots = np.random.default_rng(1)
    known = jax.device_put(lots.normal(0, 10, size=N_RESIDUALS).astype(np.float32))
    ranker: Any = eqx.tree_at(lambda each: each.ranker.fit.residual, model.start(), known)
    documents, prior = lots.normal(size=(6, 3)).astype(np.float32), np.arange(6, dtype=np.float32)
    documents[2, 1] = np.nan
    scores = np.asarray(ranker.score(Query.of(documents, prior=prior, may_miss=True)))[:6]
    found = sample_list(ListProgram.of(ranker, model), documents, prior, PLACES)
    assert found.best == np.argsort(-scores)[:PLACES].tolist() != [5, 4, 3, 2]


def test_programs_of_shapes_that_nobody_asks_for_any_more_are_given_back() -> None:
    model = spec()
    program = ListProgram.of(model.start(), model)
    assert ListProgram.of(model.start(), model).run is program.run
    sample_list(program, rows(6), None, PLACES)
    run = weakref.ref(program.run)
    del program
    wider = msgspec.structs.replace(model, n_features=model.n_features + 1)
    ranker = wider.start()
    assert ListProgram.of(ranker, wider).run is not run()
    for places in range(MOST_PROGRAMS):
        ListProgram.of(ranker, msgspec.structs.replace(wider, places=places))
    gc.collect()
    assert run() is None


EVERYWHERE = Exploration()
LIMITS = [EVERYWHERE, Exploration(protected=1), Exploration(displacement=1), Exploration(protected=1, share=0.5)]


def sure_lists(floor: float, limits: Exploration, n: int) -> list[SampledList]:
    """Return lists of five documents by a ranker that is certain of every order, and has a floor of exploration."""
    ranker = small.learned("p2headrank", noise_std=0.0, floor=floor)
    program = ListProgram.of(ranker, spec("p2headrank", exploration=limits))
    return [sample_list(program, rows(5), None, PLACES, draw=i) for i in range(n)]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_a_floor_explores_within_the_limits_with_the_probability_that_is_logged(limits: Exploration) -> None:
    found = sure_lists(0.5, limits, n := 2000)
    best = found[0].best
    shown = Counter(tuple(each.order) for each in found)
    assert len(shown) > 3
    for each in {tuple(each.order): each for each in found}.values():
        p = math.exp(each.log_propensity or 0.0)
        assert shown[tuple(each.order)] == pytest.approx(n * p, abs=5 * math.sqrt(n * p) + 1)
        assert each.order[: limits.protected] == best[: limits.protected]
        if limits.displacement is not None:
            assert all(abs(place - best.index(row)) <= 1 for place, row in enumerate(each.order) if row in best)


def test_a_place_is_certain_where_its_document_alone_was_free_and_no_floor_has_put_another_there() -> None:
    lists = sure_lists(0.3, EVERYWHERE, 200)
    assert {tuple(each.free) for each in lists} == {(1,) * PLACES}
    assert {each.order == each.best for each in lists} == {True, False}
    for each in lists:
        left = list(range(5))
        first = sorted(left, key=lambda row: each.best.index(row) if row in each.best else PLACES)
        for row, certain in zip(each.order, each.certain, strict=True):
            assert certain == (row == next(other for other in first if other in left))
            left.remove(row)


def test_the_log_says_that_a_floor_could_have_put_another_wherever_no_limit_protects() -> None:
    agreeing = [each for each in sure_lists(0.02, Exploration(protected=2), 50) if each.order == each.best]
    assert agreeing
    for each in agreeing:
        entry = impression(log_propensity=each.log_propensity, agreed=each.agreed)
        assert explored(entry, always=True) == [False, False, True, True]


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_the_places_have_their_probabilities_over_lists_that_explore_and_that_do_not(share: float) -> None:
    first, best = [0.5, 0.2, 0.3], [1, 0]  # of three documents; below the first, both others are equally probable

    def prefix(*documents: int) -> float:
        explores = first[documents[0]] * (0.5 if len(documents) > 1 else 1)
        return share * explores + (1 - share) * (list(documents) == best[: len(documents)])

    for order in itertools.permutations(range(3), 2):
        log_ps = [math.log(first[order[0]]), math.log(0.5)]
        found = np.exp(np.frombuffer(place_log_p(log_ps, order, best, share), "<f4"))
        assert found.tolist() == pytest.approx([prefix(order[0]), prefix(*order) / prefix(order[0])], rel=1e-6)
    assert place_log_p([math.log(0.2), math.log(0.5)], [1, 0], best, 0.0) == b""
