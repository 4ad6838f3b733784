from __future__ import annotations

import dataclasses
import json

import pytest
from results.made_up import job

from perturank import BadInput
from perturank.results.job import Job, settings_of


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Job) if f.name != "data"])
def test_everything_that_decides_a_run_is_in_its_name(field: str) -> None:
    old = getattr(job(), field)
    new = '{"other": 1}' if field == "settings" else {str: "other", int: 7}.get(type(old), (20,))
    assert job(**{field: new}).key != job().key


def test_a_run_keeps_the_name_it_had_before_there_were_scorers_of_ones_own() -> None:
    settings = json.loads(settings_of("pdgd-neural", {}))
    assert settings.pop("scorer") == "network"
    now, before = (
        job(ranker="pdgd-neural", settings=s) for s in (settings_of("pdgd-neural", {}), json.dumps(settings))
    )
    assert now.key == before.key
    assert job(ranker="pdgd-neural", settings=settings_of("pdgd-neural", {"scorer": "a:B"})).key != now.key


def test_the_place_of_the_data_is_not() -> None:
    assert job(data="/elsewhere/synthetic").key == job().key


def test_settings_are_all_of_them_so_that_a_changed_default_is_another_run() -> None:
    assert set(job().chosen) > {"learning_rate"}
    assert job(settings=settings_of("pdgd-linear", {"learning_rate": 0.5})).key != job().key


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(BadInput, match="did you mean 'learning_rate'"):
        settings_of("pdgd-linear", {"learning_rat": 1})


def test_a_plan_has_what_the_job_says() -> None:
    plan = job(user="informational", seed=3, top=5, evaluate_on="validation").plan()
    assert (plan.rounds, plan.seed, plan.top, plan.evaluate_on) == (20, 3, 5, "validation")
    assert plan.user.spec.startswith("dcm:click=0.4")
