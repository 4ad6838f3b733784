"""Hostile clicks in a made-up shop, in small."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from benchmarks.__main__ import app
from benchmarks.attack import CUSTOMERS, DEFENCES, EVERY_TIME, FOUND_BY, Attackers, Case, cases, target_of
from benchmarks.shop import FIRST_SEED, PLACES, Shop

SEED = FIRST_SEED


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["attack", *map(str, args)], prog_name="benchmarks")


def case(attack: str = "promote", share: float = 0.2, sources: int = 2) -> Case:
    return Case(attack, share, sources, CUSTOMERS, "none")


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop.of(SEED)


def test_the_target_is_bad_and_often_found(shop: Shop) -> None:
    target = target_of(shop)
    is_target = shop.products == target
    assert is_target.sum() >= FOUND_BY
    assert shop.grades[is_target].mean() < shop.grades.mean() / 2


def test_attackers_search_where_the_target_is_found_and_click_nothing_else(shop: Shop) -> None:
    attackers = Attackers(case(), shop, SEED, 100)
    sources = []
    for _ in range(4):
        query, source = attackers.search()
        sources.append(source)
        assert attackers.target in shop.products[query]
        others = shop.products[query][shop.products[query] != attackers.target][:PLACES]
        assert not attackers.reaction(others).clicks.any()
        assert attackers.search()[1] == source  # until the target is shown
        reaction = attackers.reaction(np.array([*others[:3], attackers.target]))
        assert reaction.clicks.tolist() == [False, False, False, True]
        assert reaction.seen is None
    assert sources == ["bot 0", "bot 1", "bot 0", "bot 1"]
    assert attackers.n_clicks == 4


def test_attackers_keep_to_their_share_or_their_budget(shop: Shop) -> None:
    attackers = Attackers(case(share=0.05), shop, SEED, 1000)
    for n_honest in range(1, 1001):
        while attackers.are_due(n_honest):
            attackers.reaction(np.array([attackers.target]))
    assert attackers.n_clicks == 1000 * 5 // 95
    early = Attackers(case("early", 0.0), shop, SEED, 1000)
    while early.are_due(0):
        early.reaction(np.array([early.target]))
    assert early.n_clicks == round(4 * np.log(1000))


def test_demoting_attackers_say_that_they_saw_the_whole_list(shop: Shop) -> None:
    attackers = Attackers(case("demote", sources=EVERY_TIME), shop, SEED, 100)
    assert attackers.reaction(np.array([0, attackers.target])).seen == PLACES
    assert attackers.reaction(np.array([attackers.target + 1])).seen is None
    assert attackers.search()[1] == "bot 1"


def test_every_defence_meets_every_attack_of_ten_sources() -> None:
    tried = {(each.attack, each.share, each.defence) for each in cases([0.01, 0.05]) if each.sources == 10}
    attacks = {("promote", 0.01), ("promote", 0.05), ("demote", 0.01), ("demote", 0.05), ("early", 0.0)}
    assert tried == {(*attack, defence) for attack in attacks for defence in DEFENCES}


def test_a_service_is_attacked_once_and_its_runs_are_kept(tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    options = ("--searches", "60", "--seeds", "1", "--only", "early", "--json", kept)
    first = run(*options)
    assert first.exit_code == 0, first.output
    found = {each["case"]["defence"]: each for each in map(json.loads, kept.read_text().splitlines())}
    assert list(found) == list(DEFENCES)
    assert {(each["seed"], each["searches"]) for each in found.values()} == {(SEED, 60)}
    assert all(10 < each["n_hostile"] <= round(4 * np.log(60)) for each in found.values())  # more than sources
    assert found["none"]["learned"] == 1 > found["votes 1"]["learned"]
    assert found["both"]["ndcg"] == found["votes 1"]["ndcg"]  # nobody asks for 20 lists
    again = run(*options)
    assert again.exit_code == 0
    assert again.stdout == first.stdout
    assert len(kept.read_text().splitlines()) == len(DEFENCES)
    assert run("--shares", "many").exit_code != 0
