"""Every contract on every ranker of the catalogue, with small settings; `perturank check` runs the same functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import scorers, small

from perturank.catalogue import rankers
from perturank.contracts import CONTRACTS, Contract, DoesNotApply
from perturank.contracts import rankers as contracts
from perturank.contracts.terms import KEYS, case, require_list
from perturank.core import Remembers
from perturank.publishing import Published

# What costs much, or depends on the class alone, is checked once for every class.
ONCE_PER_KIND = (
    contracts.a_list_may_have_one_place,
    contracts.a_program_that_learns_past_its_room_is_found_out,
    contracts.numbers_of_its_settings_may_be_arrays,
)
# Settings that decide lists are varied where lists are enumerated.
VARIED: dict[str, Any] = {"sort": "blocks", "floor": 0.4}


def shrunk(name: str, **changes: Any) -> Published:
    """Return the ranker with settings that compile and learn fast."""
    return replace(rankers()[name], settings=small.settings(name, **changes))


def is_as_shipped(contract: Contract, name: str) -> bool:
    """Say whether it is compiled as users compile it. Rankers with a history learn so in tests of their own."""
    if contract.check is contracts.it_learns_an_easy_problem_from_perfect_users:
        return name in small.one_of_each_kind() and name not in small.able(Remembers)
    return contract.check is contracts.a_prior_alone_decides_the_first_list


def parameters() -> list[Any]:
    found = []
    for name, published in rankers().items():
        is_first = name in small.one_of_each_kind()
        for contract in (each for each in CONTRACTS if each.applies_to(published)):
            if contract.check in ONCE_PER_KIND and not is_first:
                continue
            marks = pytest.mark.as_shipped if is_as_shipped(contract, name) else ()
            found.append(pytest.param(contract, name, {}, id=f"{name}: {contract.name}", marks=marks))
            if contract.check.__module__.endswith("limits") and is_first:
                own = published.settings.as_dict()
                changes = [{field: value} for field, value in VARIED.items() if field in own]
                found += [pytest.param(contract, name, c, id=f"{name} {c}: {contract.name}") for c in changes]
    return found


@pytest.mark.parametrize("contract, name, changes", parameters())
def test_every_ranker_keeps_every_contract(contract: Contract, name: str, changes: dict[str, Any]) -> None:
    try:
        contract.check(shrunk(name, **changes))
    except DoesNotApply as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(
    "name, scorer",
    [("pdgd-neural", scorers.ATTENTION), ("p2neurrank", scorers.PERCEPTRON), ("olranknet", scorers.PERCEPTRON)],
)
def test_a_ranker_keeps_its_contracts_with_a_scorer_of_ones_own(name: str, scorer: str) -> None:
    chosen = shrunk(name, scorer=scorer)
    contracts.it_shows_a_permutation_of_the_documents(chosen)
    contracts.what_stands_in_the_padding_changes_nothing(chosen)
    contracts.a_prior_is_part_of_the_score(chosen)
    contracts.a_saved_ranker_goes_on_with_the_same_bits(chosen)
    if name == "p2neurrank":
        contracts.a_prior_alone_decides_the_first_list(chosen)
    if scorer == scorers.PERCEPTRON:
        contracts.a_row_wise_score_is_the_same_in_every_list(chosen)
    assert not np.array_equal(*(each.score(small.query(9)) for each in (case(chosen).fresh, case(chosen).learned)))


@pytest.mark.parametrize("name", small.able(Remembers))
def test_more_room_leaves_what_is_stored_in_its_place(name: str) -> None:
    ranker = case(shrunk(name)).learned
    roomy = ranker.with_room(200, small.PLACES)
    for now, before in zip(small.arrays(roomy), small.arrays(ranker), strict=True):
        if before.shape == now.shape:
            assert now.tobytes() == before.tobytes()
        elif now.dtype != np.int32:  # all but the cells of hash tables begin like the old ones
            np.testing.assert_array_equal(now[: len(before)], before)
            assert not now[len(before) :].any()


def test_a_list_is_never_longer_than_the_padded_query() -> None:
    require_list(case(shrunk("pdgd-linear")).learned.rank(small.query(9), KEYS[7], 20), 9)
