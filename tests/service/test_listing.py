"""Lists as they are answered: what may be shown, and how probable it was."""

from __future__ import annotations

import gc
import math
import weakref

import msgspec
import pytest
from service_small import PLACES, rows, spec

from perturank.service.listing import MOST_PROGRAMS, Flat, _log_propensity, listed
from perturank.service.spec import Exploration


def test_where_no_list_explores_every_place_is_certain() -> None:
    model = spec("random", exploration=Exploration(share=0.0))
    found = listed(Flat.of(model.start(), PLACES), model, rows(6), None, PLACES)
    assert found.order == found.best
    assert found.free == [1] * PLACES
    assert found.log_propensity == 0.0


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("is_best", [False, True])
def test_every_share_of_lists_that_explore_has_a_probability(share: float, is_best: bool) -> None:
    found = _log_propensity([-0.1], [2], share, is_best)
    expected = {0.0: 1.0, 0.25: 0.25 * math.exp(-0.1) + 0.75 * is_best, 1.0: math.exp(-0.1)}[share]
    assert math.exp(found) == pytest.approx(expected)


def test_programs_of_shapes_that_nobody_asks_for_any_more_are_given_back() -> None:
    model = spec()
    flat = Flat.of(model.start(), PLACES)
    assert Flat.of(model.start(), PLACES).program is flat.program
    listed(flat, model, rows(6), None, PLACES)
    program = weakref.ref(flat.program)
    del flat
    wider = msgspec.structs.replace(model, n_features=model.n_features + 1).start()
    assert Flat.of(wider, PLACES).program is not program()
    for places in range(MOST_PROGRAMS):
        Flat.of(wider, places)
    gc.collect()
    assert program() is None
