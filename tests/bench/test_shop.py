"""The shop trial: a made-up shop that is the same for every arm, and a service that is gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.serving import children
from typer.testing import CliRunner, Result

from benchmarks.__main__ import app
from benchmarks.shop import FEATURES, FIRST_SEED, N_CANDIDATES, N_QUERIES, PLACES, Customers, Shop, Shown
from benchmarks.shop_arms import Counter, LightGBM
from perturank.metrics import query_ndcgs

SEED = FIRST_SEED


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["shop", *map(str, args)], prog_name="benchmarks", catch_exceptions=False)


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop.of(SEED)


def test_a_seed_decides_the_shop(shop: Shop) -> None:
    again, other = Shop.of(SEED), Shop.of(SEED + 1)
    np.testing.assert_array_equal(again.features, shop.features)
    np.testing.assert_array_equal(again.grades, shop.grades)
    assert not np.array_equal(other.grades, shop.grades)


def test_features_have_tails_binaries_constants_and_offsets(shop: Shop) -> None:
    columns = dict(zip(FEATURES, shop.features.reshape(-1, len(FEATURES)).T.astype(np.float64), strict=True))
    assert len(columns) == 30
    assert columns["sales"].max() > 100 * np.median(columns["sales"])
    assert set(columns["in_stock"]) == {0, 1}
    assert [name for name, column in columns.items() if np.ptp(column) == 0] == ["one", "nothing", "kelvin"]
    assert columns["listed_at"].min() > 10 * columns["listed_at"].std()


@pytest.mark.parametrize("seed", range(SEED, SEED + 5))
def test_the_engine_is_good_and_far_from_perfect(seed: int) -> None:
    shop = Shop.of(seed)
    ndcgs = [shop.ndcg(query, np.argsort(-shop.engine[query])) for query in range(N_QUERIES)]
    assert 0.55 <= np.mean(ndcgs) <= 0.75


def test_ndcg_is_that_of_the_package(shop: Shop) -> None:
    offsets = np.arange(N_QUERIES + 1) * N_CANDIDATES
    expected = query_ndcgs(shop.engine.ravel(), shop.grades.ravel(), offsets, PLACES)
    found = [shop.ndcg(query, np.argsort(-shop.engine[query])) for query in range(N_QUERIES)]
    np.testing.assert_allclose(found, expected)


def test_more_searches_begin_with_the_same_customers(shop: Shop) -> None:
    few, many = Customers.of(shop, SEED, 20), Customers.of(shop, SEED, 50)
    np.testing.assert_array_equal(few.queries, many.queries[:20])
    np.testing.assert_array_equal(few.of_places, many.of_places[:20])
    np.testing.assert_array_equal(few.of_candidates, many.of_candidates[:20])


def test_a_click_depends_on_the_place_and_its_candidate_alone(shop: Shop) -> None:
    customers = Customers.of(shop, SEED, 500)
    order = np.arange(PLACES)
    exchanged = order.copy()
    exchanged[[3, 4]] = 4, 3
    for t in range(500):
        grades = shop.grades[customers.queries[t]]
        same = customers.clicks(t, grades, order) == customers.clicks(t, grades, exchanged)
        assert np.delete(same, [3, 4]).all()


def test_baselines_show_the_engines_order_before_the_first_click(shop: Shop) -> None:
    for arm in (Counter(shop), LightGBM(shop)):
        arm.learn(0, Shown(np.arange(PLACES)), np.zeros(PLACES, bool))
        np.testing.assert_array_equal(arm.show(0).order, np.argsort(-shop.engine[0])[:PLACES])


def test_a_clicked_product_rises_and_the_rest_keeps_the_engines_order(shop: Shop) -> None:
    counter = Counter(shop)
    shown = counter.show(0)
    counter.learn(0, shown, np.arange(PLACES) == 4)
    expected = [shown.order[4], *np.delete(shown.order, 4)]
    np.testing.assert_array_equal(counter.show(0).order, expected)


def test_finished_runs_are_kept_and_not_run_again(tmp_path: Path) -> None:
    kept = tmp_path / "runs.json"
    options = ("--searches", "12", "--seeds", "1", "--json", kept)
    assert run(*options, "--arms", "engine,counter").exit_code == 0
    result = run(*options, "--arms", "engine,default", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == [f"default, seed {SEED}"]
    runs = json.loads(kept.read_text())["runs"]
    assert [each["arm"] for each in runs] == ["engine", "counter", "default"]
    assert 0 < runs[2]["shown"]["12"] < 1
    assert 0 < runs[2]["behind_most"] <= 12
    # Nothing but the engine's score is known of most queries.
    assert runs[2]["best_of_queries"]["12"] == pytest.approx(runs[0]["best_of_queries"]["12"], abs=0.1)
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert (tmp_path / "shop.png").read_bytes().startswith(b"\x89PNG")
    refused = run("--searches", "13", "--json", kept)
    assert "holds runs of 12 searches" in refused.stderr


@pytest.mark.kill
def test_a_run_that_is_told_to_end_leaves_no_service_behind() -> None:
    """By SIGTERM; test_interruption.py has the other signals."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "benchmarks", "shop", "--seeds", "1", "--arms", "default"]
    with subprocess.Popen(command, cwd=root, env=os.environ | {"PYTHONPATH": path}) as trial:
        end = time.monotonic() + 120
        while not (services := children(trial.pid)):
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(1)  # it may be compiling, or serving
        trial.send_signal(signal.SIGTERM)
        assert trial.wait(120) == 130
    assert not [pid for pid in services if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(
    "args, said",
    [
        (["--arms", "lightgmb"], "unknown arm 'lightgmb'; did you mean 'lightgbm'?"),
        (["--json", "nowhere/runs.json"], "there is no folder"),
        (["--json", __file__], "holds no runs of the shop trial"),
        (["--searches", "0"], "greater than or equal to 1"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(args: list[str], said: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
