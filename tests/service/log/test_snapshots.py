from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from helpers import small
from helpers.service_small import created, learned, lived, spec
from hypothesis import given
from hypothesis import strategies as st

from perturank.catalogue import rankers
from perturank.service.learner.learner import Learner
from perturank.service.log import Log, snapshots
from perturank.service.log.records import Changed, Pinned
from perturank.service.log.snapshots import KEPT, SHARE, kept
from perturank.service.log.spec import Spec


@given(st.integers(1, 5000))
def test_the_newest_versions_are_kept_and_the_others_are_few(n: int) -> None:
    found = kept(range(1, n + 1))
    assert found >= set(range(max(1, n - KEPT + 1), n + 1))
    assert len(found) <= KEPT + SHARE * (math.log2(n) + 1)


@given(st.integers(1, 5000), st.data())
def test_a_version_of_about_any_age_is_kept(n: int, data: st.DataObject) -> None:
    age = data.draw(st.integers(0, n - 1))
    assert min(abs(n - version - age) for version in kept(range(1, n + 1))) <= age / SHARE


@given(st.integers(1, 300), st.integers(1, 40))
def test_it_does_not_matter_how_often_versions_are_thinned_out(n: int, step: int) -> None:
    left: set[int] = set()
    for first in range(1, n + 1, step):
        left = kept({*left, *range(first, min(first + step, n + 1))})
    assert left == kept(range(1, n + 1))


@given(st.sets(st.integers(1, 10**9)))
def test_only_what_is_there_is_kept_and_the_newest_always_is(versions: set[int]) -> None:
    found = kept(versions)
    assert found <= versions
    assert max(versions, default=0) == max(found, default=0)


def test_the_learner_thins_out_what_is_stored_but_for_what_is_pinned(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "KEPT", 2)
    monkeypatch.setattr(snapshots, "SHARE", 1)
    created(log)
    learned(log, spec(), 5)
    with log.transaction() as transaction:
        transaction.append("m", Pinned(5))
    learned(log, spec(), 6, 30)
    assert snapshots.versions(log, "m") == sorted({5, *kept(range(1, 12))}) == [4, 5, 8, 10, 11]


def test_versions_of_an_earlier_generation_stay_so_that_it_can_be_restored(log: Log) -> None:
    created(log)
    learned(log, spec(), 2)
    changed = spec(settings={"learning_rate": 0.5})
    with log.transaction() as transaction:
        position = transaction.append("m", Changed(0, changed))
    learner = Learner(log)
    learner.step()
    assert snapshots.versions(log, "m") == [1, 2]
    lived(log, changed, 1, 9, generation=position)
    learner.step()
    assert 2 in snapshots.versions(log, "m")  # the last of the earlier one
    assert 3 in snapshots.versions(log, "m")


def test_names_that_only_begin_alike_are_told_apart(either: Log) -> None:
    names = ["m/version/1", "m/version/2", "m/versions", "mm/version/1", "é/version/1"]
    with either.transaction() as transaction:
        for name in names:
            transaction.store(name, b"")
    assert either.names("m/version/") == names[:2]
    assert either.names("é") == names[4:]
    assert either.names("") == sorted(names)


FLOOR = {"noise_std": 0.0, "floor": 0.5}


@pytest.mark.parametrize("name", sorted(rankers()))
def test_a_served_version_draws_the_lists_of_the_ranker_that_has_its_history(name: str) -> None:
    ranker = small.learned(name, **FLOOR if "floor" in rankers()[name].settings.as_dict() else {})
    model = Spec(n_features=small.N_FEATURES, ranker=name, settings=ranker.settings.as_dict())
    served, _ = snapshots.ranker_of(snapshots.version_bytes(ranker), "the version", model)
    for seed in range(5):
        mine, theirs = (each.rank(small.query(), jax.random.key(seed), small.PLACES) for each in (ranker, served))
        assert np.array_equal(mine.order, theirs.order)
        assert np.array_equal(mine.free, theirs.free)
        assert (mine.log_p is None) == (theirs.log_p is None)
        assert np.array_equal(np.asarray(mine.log_p), np.asarray(theirs.log_p))
