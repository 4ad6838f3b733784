from __future__ import annotations

import pytest

from perturank.service.spec import Feature, Spec


def model(*features: Feature, n: int = 2) -> Spec:
    return Spec(n_features=n, ranker="random", features=features or None)


A, B = Feature("a"), Feature("b")


@pytest.mark.parametrize(
    "now",
    [
        model(),
        model(A, Feature("b", missing=3.0)),
        model(A, B),
    ],
)
def test_a_schema_that_gives_the_ranker_the_same_numbers_keeps_what_was_learned(now: Spec) -> None:
    assert now.learns_like(model(A, B))
    assert model(A, B).learns_like(now)


@pytest.mark.parametrize(
    "now",
    [
        model(A, B, Feature("c", missing=0.0), n=3),
        model(B, A),
        model(A, Feature("c")),
        model(A, Feature("b", shift=1.0)),
        model(A, Feature("b", scale=2.0)),
    ],
)
def test_a_schema_that_gives_it_others_starts_anew(now: Spec) -> None:
    assert not now.learns_like(model(A, B))


def test_another_value_for_what_is_missing_starts_anew() -> None:
    assert not model(A, Feature("b", missing=1.0)).learns_like(model(A, Feature("b", missing=0.0)))


def test_features_that_were_scaled_cannot_lose_their_names() -> None:
    assert not model().learns_like(model(A, Feature("b", scale=2.0)))
