from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, Literal

import pytest

from perturank.errors import BadInput
from perturank.hyperparameters import (
    AT_LEAST_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    SHARE,
    WIDTHS,
    Settings,
    hyper,
    is_zero,
)


@dataclass(frozen=True)
class Everything(Settings):
    count: int = hyper(3, "how many", "N", AT_LEAST_ONE)
    rate: float = hyper(0.1, "how fast", "η", POSITIVE)
    noise: float = hyper(0.0, "how loud", "ν", NOT_NEGATIVE)
    chance: float = hyper(0.5, "how often", "ε", PROBABILITY)
    share: float = hyper(1.0, "how much", "κ", SHARE)
    widths: tuple[int, ...] = hyper((8, 4), "how wide", "m", WIDTHS)
    budget: int | None = hyper(None, "at most", "", AT_LEAST_ONE)
    alpha: float | Literal["lemma"] = hyper("lemma", "how sure", "α", NOT_NEGATIVE)
    kind: Literal["fresh", "frozen"] = hyper("fresh", "which")
    flag: bool = hyper(False, "whether")


def test_settings_are_frozen_and_change_by_copy() -> None:
    settings = Everything()
    changed = settings.changed(count=5, widths=[2, 2], rate=1)
    assert (changed.count, changed.widths, changed.rate) == (5, (2, 2), 1.0)
    assert settings.count == 3
    assert hash(changed) == hash(Everything(count=5, widths=(2, 2), rate=1.0))
    with pytest.raises(FrozenInstanceError):
        settings.count = 4  # type: ignore[misc]


def test_numbers_may_be_arrays_but_zeros_and_whole_numbers_stay() -> None:
    traced = Everything(alpha=0.25).traced(lambda number: [number])
    assert traced.arrays == ("rate", "chance", "share", "alpha")
    values: list[Any] = [traced.rate, traced.alpha, traced.noise, traced.count]
    assert values == [[0.1], [0.25], 0.0, 3]
    assert [is_zero(value) for value in (traced.noise, traced.rate, 0, 1.0)] == [True, False, True, False]
    assert Everything().traced(str).alpha == "lemma"
    assert Everything(rate=0.2).traced(lambda _: None) == Everything(rate=0.3).traced(lambda _: None)


def test_settings_are_the_same_after_json_and_after_text() -> None:
    settings = Everything(budget=7, alpha=0.5, flag=True)
    assert settings.changed(**json.loads(json.dumps(settings.as_dict()))) == settings
    texts = {"budget": "none", "alpha": "lemma", "widths": "100,100", "flag": "true", "kind": "frozen", "rate": "1e-3"}
    parsed = settings.parsed(texts)
    assert parsed == settings.changed(budget=None, alpha="lemma", widths=(100, 100), kind="frozen", rate=0.001)
    assert settings.parsed({"budget": "12", "alpha": ".25"}).as_dict()["alpha"] == 0.25


@pytest.mark.parametrize(
    "change, says",
    [
        ({"count": 0}, "count is 0; it must be 1 or more"),
        ({"count": 2.5}, "count is 2.5; it must be a whole number"),
        ({"count": True}, "count is True; it must be a whole number"),
        ({"rate": 0.0}, "rate is 0.0; it must be above 0"),
        ({"rate": "fast"}, "rate is 'fast'; it must be a number"),
        ({"rate": float("nan")}, "rate is nan; it must be a number"),
        ({"rate": None}, "rate is None; it must be a number"),
        ({"noise": -1e-9}, "noise is -1e-09; it must be 0 or more"),
        ({"chance": 1.5}, "it must be between 0 and 1"),
        ({"share": 0}, "it must be above 0 and at most 1"),
        ({"widths": ()}, "it must be one or more widths of 1 or more"),
        ({"widths": (8, 0)}, "widths is 8,0; it must be one or more widths"),
        ({"widths": (8, 2.5)}, "it must be whole numbers like 100,100"),
        ({"budget": 0}, "budget is 0; it must be 1 or more"),
        ({"budget": "all"}, "it must be a whole number or none"),
        ({"alpha": "lemmma"}, "alpha is 'lemmma'; it must be a number or 'lemma'"),
        ({"alpha": -1.0}, "alpha is -1.0; it must be 0 or more"),
        ({"kind": "stale"}, "kind is 'stale'; it must be 'fresh' or 'frozen'"),
        ({"flag": 1}, "flag is 1; it must be true or false"),
        ({"wdths": (8,)}, "unknown hyper-parameter 'wdths'; did you mean 'widths'?"),
        ({"zzz": 1}, "unknown hyper-parameter 'zzz'; known are"),
    ],
)
def test_impossible_values_and_unknown_names_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as refused:
        Everything().changed(**change)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("count", "many", "count is 'many'; it must be a whole number"),
        ("count", "2.5", "count is '2.5'; it must be a whole number"),
        ("rate", "", "rate is ''; it must be a number"),
        ("widths", "8;8", "it must be whole numbers like 100,100"),
        ("flag", "maybe", "it must be true or false"),
        ("kind", "stale", "it must be 'fresh' or 'frozen'"),
        ("rate", "-1", "rate is -1.0; it must be above 0"),
        ("cuont", "1", "did you mean 'count'?"),
    ],
)
def test_text_that_is_no_value_is_refused(name: str, text: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        Everything().parsed({name: text})
    assert says in str(refused.value)
