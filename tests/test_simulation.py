from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import scorers, small
from oracles import metrics as oracle

from perturank import catalogue, datasets, simulation, storage
from perturank.clicks import user
from perturank.core import LEARNING, LISTS, QUERIES, START, USERS, Interaction, Query, streams
from perturank.datasets.dataset import Head
from perturank.datasets.fold import Fold
from perturank.errors import BadInput
from perturank.runs import Run
from perturank.simulation import Plan, Shelf, World, drawn_query, simulate

TOP, ROUNDS, STOPS = small.PLACES, 40, (10, 25)
KINDS = ["p2linrank", "p2neurrank", "p2headrank", "pairrank", "pdgd-linear"]


def plan(name: str, **changes: Any) -> Plan:
    given = Plan(name, small.settings(name), small.PERFECT, small.fold(), ROUNDS, 3, STOPS, TOP)
    return replace(given, **changes)


@cache
def whole(name: str) -> Run:
    """Return a run that nobody disturbed."""
    return simulate(plan(name))


def must_be_the_same(one: Run, other: Run) -> None:
    """Compare everything but the time that it took."""
    assert one.ndcgs.tobytes() == other.ndcgs.tobytes()
    assert small.same_bits(one.ranker, other.ranker)
    timeless = [[replace(checkpoint, seconds=0.0) for checkpoint in run.checkpoints] for run in (one, other)]
    assert timeless[0] == timeless[1]
    assert (one.seed, one.rounds) == (other.seed, other.rounds)


def test_a_run_is_evaluated_when_asked_and_at_its_end() -> None:
    run = whole("pdgd-linear")
    assert [c.round for c in run.checkpoints] == [10, 25, 40]
    assert len(run.ndcgs) == ROUNDS
    assert all(0 <= c.ndcg <= 1 for c in run.checkpoints)
    assert all(c.uncertain is None for c in run.checkpoints)
    assert all(c.uncertain is not None and 0 <= c.uncertain <= 1 for c in whole("p2linrank").checkpoints)
    assert all(c.certain_wrong is None for c in run.checkpoints)
    assert all(0 <= c.certain_wrong <= 1 for c in whole("p2linrank").checkpoints if c.certain_wrong is not None)
    assert whole("p2linrank").checkpoints[-1].certain_wrong is not None
    assert 0 < run.random_ndcg < run.checkpoints[-1].ndcg
    assert run.rounds_per_second > 0
    assert run.as_dict(TOP)["checkpoints"][2][f"ndcg@{TOP}"] == run.checkpoints[2].ndcg


@pytest.mark.parametrize("name", KINDS)
def test_the_length_of_chunks_changes_nothing(name: str) -> None:
    lengths: list[int] = []
    must_be_the_same(simulate(plan(name), longest_chunk=7, on_progress=lengths.append), whole(name))
    assert max(lengths) <= 7
    assert sum(lengths) == ROUNDS


@pytest.mark.parametrize("name", KINDS)
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(name: str, tmp_path: Path) -> None:
    file, done = tmp_path / "run", []

    def stop_after_three_chunks(n: int) -> None:
        done.append(n)
        if len(done) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(plan(name), checkpoint=file, on_progress=stop_after_three_chunks, longest_chunk=7)
    assert 0 < sum(done) < ROUNDS
    resumed: list[int] = []
    must_be_the_same(simulate(plan(name), checkpoint=file, on_progress=resumed.append), whole(name))
    assert sum(resumed) == ROUNDS - sum(done)
    must_be_the_same(simulate(plan(name), checkpoint=file), whole(name))


def other_numbers(name: str, factor: float) -> Plan:
    """Return the plan with other values for all numbers of the settings."""
    own = small.settings(name)
    return plan(name, settings=own.changed(**{k: factor * v for k, v in own.as_dict().items() if type(v) is float}))


@pytest.mark.parametrize("name", [*KINDS, "olranknet-diag", "dbgd-linear", "epsilon-greedy-linear"])
def test_other_numbers_are_other_runs_and_compile_nothing(name: str, caplog: pytest.LogCaptureFixture) -> None:
    first = whole(name)
    with jax.log_compiles():
        other = simulate(other_numbers(name, 0.75))
    assert [record.message for record in caplog.records if record.message.startswith("Compiling")] == []
    assert not small.same_bits(other.ranker, first.ranker)
    assert other.ranker.settings == other_numbers(name, 0.75).settings


def test_a_setting_of_0_and_a_whole_number_are_compiled_in(caplog: pytest.LogCaptureFixture) -> None:
    whole("p2linrank")
    for changes in ({"noise_std": 0.0}, {"n_rankers": 3}):
        caplog.clear()
        with jax.log_compiles():
            simulate(plan("p2linrank", settings=small.settings("p2linrank", **changes), rounds=10, evaluate_at=()))
        assert any(record.message.startswith("Compiling") for record in caplog.records)


@pytest.mark.long
def test_many_settings_leave_no_memory_maps_behind(is_long: bool) -> None:
    def n_maps() -> int:
        return Path("/proc/self/maps").read_text().count("\n")

    whole("pairrank")
    before = n_maps()
    for i in range(60 if is_long else 5):
        simulate(other_numbers("pairrank", 0.5 + i / 200))
    assert n_maps() < before + 100


@cache
def streamed() -> Fold:
    """Return a stream of 40 new queries behind a head of four."""
    train = replace(small.easy(44, (3, 5, 8), 1), head=Head(4, 0.3))
    return replace(small.fold(), train=train)


def test_a_stream_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    file, given = tmp_path / "run", plan("p2linrank", fold=streamed())
    simulate(replace(given, rounds=25, evaluate_at=(10,)), checkpoint=file)
    must_be_the_same(simulate(given, checkpoint=file), simulate(given))


@pytest.mark.as_shipped
@pytest.mark.parametrize("name", ["p2linrank", "pdgd-linear"])
def test_orders_are_kept_where_the_plan_asks_for_them_also_over_an_interruption(name: str, tmp_path: Path) -> None:
    assert whole(name).orders == ()
    file, asked = tmp_path / "run", plan(name, keeps_orders=True)
    simulate(replace(asked, rounds=25, evaluate_at=(10,)), checkpoint=file)
    run = simulate(asked, checkpoint=file)
    must_be_the_same(run, whole(name))
    assert [orders.certain_wrong for orders in run.orders] == [c.certain_wrong for c in run.checkpoints]
    simulate(plan(name), checkpoint=tmp_path / "other")
    with pytest.raises(BadInput, match="its keeps_orders"):
        simulate(asked, checkpoint=tmp_path / "other")


def test_a_checkpoint_of_an_earlier_version_goes_on_without_what_it_did_not_measure(tmp_path: Path) -> None:
    file = tmp_path / "run"
    simulate(plan("p2linrank", rounds=25, evaluate_at=(10,)), checkpoint=file)
    arrays, header = storage.read(file)
    for row in header["checkpoints"]:
        del row["certain_wrong"]
    storage.write(file, arrays, header)
    run = simulate(plan("p2linrank"), checkpoint=file)
    assert [c.certain_wrong is None for c in run.checkpoints] == [True, True, False]


def test_a_run_may_go_on_after_its_end(tmp_path: Path) -> None:
    file = tmp_path / "run"
    simulate(plan("pdgd-linear", rounds=25, evaluate_at=(10,)), checkpoint=file)
    must_be_the_same(simulate(plan("pdgd-linear"), checkpoint=file), whole("pdgd-linear"))
    with pytest.raises(BadInput, match="holds 40 rounds already"):
        simulate(plan("pdgd-linear", rounds=20, evaluate_at=()), checkpoint=file)


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"seed": 4}, "its seed is 3, not 4"),
        ({"top": 3}, "its top is 4, not 3"),
        ({"settings": small.settings("pdgd-linear", decay=0.5)}, "its settings"),
        ({"user": user("informational", 3)}, "its clicks"),
        ({"fold": replace(small.fold(), train=small.fold().test)}, "its data"),
        ({"ranker": "random", "settings": small.settings("random")}, "its ranker is 'pdgd-linear', not 'random'"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    file = tmp_path / "run"
    simulate(plan("pdgd-linear"), checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(BadInput, match=f"is of another run: {says}"):
        simulate(plan("pdgd-linear", **changes), checkpoint=file)
    assert file.read_bytes() == before


@pytest.mark.as_shipped
def test_a_seed_decides_everything_in_another_process_too() -> None:
    program = (
        "import test_simulation as t; from helpers import small; run = t.simulate(t.plan('p2linrank'));"
        "print(run.ndcgs.tobytes().hex(), b''.join(a.tobytes() for a in small.arrays(run.ranker)).hex())"
    )
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    run = whole("p2linrank")
    bits = b"".join(array.tobytes() for array in small.arrays(run.ranker)).hex()
    assert done.stdout.split() == [run.ndcgs.tobytes().hex(), bits]


def test_another_seed_is_another_run() -> None:
    assert simulate(plan("pdgd-linear", seed=4)).ndcgs.tolist() != whole("pdgd-linear").ndcgs.tolist()


@cache
def world(top: int = TOP) -> World:
    return World(Shelf.of(small.fold().train, top), small.PERFECT, streams(3), top)


@pytest.mark.as_shipped
def test_spare_room_changes_nothing() -> None:
    name = "p2linrank"

    def after_30_rounds(n_rounds: int) -> tuple[Any, np.ndarray, np.ndarray]:
        start: Any = catalogue.published(name).make(5, streams(3)[START], small.settings(name))
        return simulation.rounds_done(world(), start.with_room(n_rounds, TOP), 0, 30)

    (tight, *seen), (roomy, *seen_roomy) = after_30_rounds(60), after_30_rounds(simulation.LEAST_ROOM)
    assert tight.history.weight.shape[0] < roomy.history.weight.shape[0]
    assert small.same_bits(seen, seen_roomy)
    assert small.same_bits(tight.theta, roomy.theta)
    assert small.same_bits(tight.with_room(simulation.LEAST_ROOM, TOP).history.weight, roomy.history.weight)


def test_changing_the_ranker_never_changes_which_queries_come() -> None:
    def drawn(name: str) -> list[int]:
        start = catalogue.published(name).make(5, streams(3)[START], small.settings(name))
        given = world()
        shown = eqx.filter_jit(lambda t: simulation.shown_list(given, start, t)[0].ids[0, 0])
        rows = [int(shown(jnp.asarray(t))) for t in range(1, 61)]
        return (np.searchsorted(small.fold().train.offsets, rows, side="right") - 1).tolist()

    queries = drawn("pdgd-linear")
    assert queries == drawn("random")
    assert set(queries) == set(range(12))


def queries_of(seed: int, rounds: int, n_new: int, head: Head) -> np.ndarray:
    key = streams(seed)[QUERIES]
    draw: Any = jax.vmap(lambda t: drawn_query(key, t, head.n + n_new, head))
    return np.asarray(draw(jnp.arange(1, rounds + 1)))


def test_a_stream_repeats_its_head_and_shows_every_other_query_once_at_most() -> None:
    head, rounds = Head(50, 0.3), 5000
    queries = queries_of(3, rounds, rounds, head)
    is_head = queries < head.n
    assert is_head.mean() == pytest.approx(head.p, abs=5 * np.sqrt(head.p * (1 - head.p) / rounds))
    each = np.bincount(queries[is_head], minlength=head.n)
    assert np.abs(each - each.mean()).max() < 5 * np.sqrt(each.mean())
    new = queries[~is_head]
    assert len(set(new)) == len(new)
    assert new.max() < head.n + rounds


def test_seeds_begin_a_stream_at_different_queries() -> None:
    head = Head(50, 0.3)
    one, other = (set(queries_of(seed, 100, 5000, head)) - set(range(head.n)) for seed in (1, 2))
    assert len(one) > 50
    assert not one & other


def test_a_stream_that_is_too_short_is_refused() -> None:
    with pytest.raises(BadInput, match=r"easy has 40 new queries, too few for 41 rounds; .* easy:41"):
        plan("pdgd-linear", fold=streamed(), rounds=41)


@pytest.mark.parametrize(
    "name, changes", [("p2linrank", {}), ("pdgd-linear", {}), ("pdgd-neural", {"scorer": scorers.ATTENTION})]
)
def test_the_compiled_loop_is_the_plain_loop_over_the_public_methods(name: str, changes: dict[str, Any]) -> None:
    data, keys, settings = small.fold().train, streams(3), small.settings(name, **changes)
    ranker: Any = catalogue.published(name).make(5, keys[START], settings)
    click = eqx.filter_jit(type(small.PERFECT).click)
    ndcgs, regrets = [], []
    for t in range(1, 31):
        of = [jax.random.fold_in(key, t) for key in keys]
        q = int(jax.random.randint(of[QUERIES], (), 0, data.n_queries))
        features, labels = data.query(q)
        query = Query.of(features, ids=np.arange(data.offsets[q], data.offsets[q + 1]))
        ranking = ranker.rank(query, of[LISTS], TOP)
        shown, grades = ranking.documents.tolist(), labels.tolist()
        ndcgs.append(oracle.ndcg([grades[d] for d in shown] + [0] * (TOP - len(shown)), grades))
        regrets.append(oracle.misordered_shown(shown, grades, np.asarray(ranker.score(query))[: len(grades)].tolist()))
        padded = jnp.asarray(np.pad(labels, (0, 16 - len(labels))), jnp.int32)
        clicks = click(small.PERFECT, padded[ranking.order], query.mask[ranking.order], of[USERS])
        ranker = ranker.learn(Interaction.observed(query, ranking, clicks), of[LEARNING])
    run = simulate(plan(name, settings=settings, rounds=30, evaluate_at=()))
    np.testing.assert_allclose(run.ndcgs, ndcgs, rtol=1e-5)
    (end,) = run.checkpoints
    assert end.regret == pytest.approx(sum(regrets))
    assert end.cumulative_ndcg == pytest.approx(oracle.cumulative_ndcg(ndcgs, 0.9995), rel=1e-5)
    query = small.query(9)
    np.testing.assert_allclose(run.ranker.score(query), ranker.score(query), rtol=1e-3, atol=1e-4)
    test = small.fold().test
    scores = [np.asarray(ranker.score(Query.of(test.query(i)[0])))[: test.lengths[i]] for i in range(test.n_queries)]
    by_score = [
        [int(labels[d]) for d in np.argsort(-s)[:TOP]]
        for s, labels in zip(scores, (test.query(i)[1] for i in range(12)), strict=True)
    ]
    each = [
        oracle.ndcg(shown + [0] * (TOP - len(shown)), test.query(i)[1].tolist()) for i, shown in enumerate(by_score)
    ]
    assert end.ndcg == pytest.approx(
        np.mean([value for i, value in enumerate(each) if test.query(i)[1].any()]), rel=1e-5
    )


def test_queries_of_very_different_lengths_are_all_ranked_and_learned_from() -> None:
    data = small.easy(8, (1, 3, 40, 200), seed=5)
    sizes = Shelf.of(data, TOP).sizes
    assert len(sizes) > 1
    assert all(any(n <= size for size in sizes) for n in data.lengths)
    run = simulate(plan("pdgd-linear", fold=Fold("lengths", 1, 1, data, data, data, collection_grades=3), rounds=60))
    assert np.isfinite(run.ndcgs).all()
    assert small.is_finite(run.ranker)
    assert run.checkpoints[-1].ndcg > 0.6


@pytest.mark.parametrize("top", [1, 4, 10])
def test_every_query_fits_in_its_bucket_and_every_bucket_holds_the_list(top: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        lengths = rng.integers(1, rng.integers(2, 1200), rng.integers(1, 30))
        sizes = simulation.bucket_sizes(lengths, top)
        assert 1 <= len(sizes) <= 4
        assert list(sizes) == sorted(set(sizes))
        assert sizes[-1] >= lengths.max()
        assert sizes[0] >= top


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"rounds": 0}, "rounds is 0; it must be 1 or more"),
        ({"top": 0}, "top is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"evaluate_at": (10, 41)}, "rounds go from 1 to 40"),
        ({"evaluate_on": "train"}, "evaluate_on is 'train'"),
    ],
)
def test_an_impossible_plan_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        plan("pdgd-linear", **changes)


def test_users_who_do_not_know_a_grade_are_refused() -> None:
    with pytest.raises(BadInput, match="grade"):
        simulate(plan("pdgd-linear", user=user("perfect", 2)))


DATA = Path(os.environ.get("PERTURANK_TEST_DATA", "")) / "mq2008"


@pytest.mark.skipif(
    "PERTURANK_TEST_DATA" not in os.environ or not DATA.is_dir(),
    reason="set PERTURANK_TEST_DATA to the folder that holds mq2008/",
)
@pytest.mark.parametrize("name", ["pdgd-linear", "p2linrank"])
def test_real_queries_are_learned_within_300_rounds(name: str) -> None:
    fold = datasets.load(DATA)
    shipped = catalogue.published(name).settings
    run = simulate(Plan(name, shipped, user("perfect", fold.n_grades), fold, 300))
    assert run.checkpoints[-1].ndcg > 0.60
