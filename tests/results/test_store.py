from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from results.made_up import job, outcome

from perturank import BadInput, __version__
from perturank.orders import Orders
from perturank.results.outcome import MEASURES, NEWER, TIMES, from_parquet, to_parquet
from perturank.results.store import Store, digest


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "results", {"rounds": 20})


def test_a_run_comes_back_as_it_was(store: Store) -> None:
    kept = outcome(ndcg=0.25, uncertain=float("nan"))
    store.keep(kept)
    back = store.outcome(kept.job.key)
    assert back.job == kept.job
    assert back.bits() == kept.bits()
    assert back.made_by == kept.made_by
    assert np.isnan(back.last("uncertain"))


def test_orders_come_back_as_they_were(store: Store) -> None:
    rng = np.random.default_rng(1)
    of = job(keeps_orders=True)
    seen = tuple(
        Orders.of(rng.integers(0, 3, (2, 8)), rng.normal(size=(2, 8)), c) for c in (rng.random((2, 8, 8)) < 0.5, None)
    )
    store.keep(replace(outcome(of), orders=seen, random_ndcg=0.25))
    back = store.outcome(of.key)
    assert back.random_ndcg == 0.25
    for given, found in zip(seen, back.orders, strict=True):
        assert given.arrays.keys() == found.arrays.keys()
        assert all(np.array_equal(given.arrays[name], found.arrays[name]) for name in given.arrays)


def test_a_run_without_orders_is_named_as_before_there_were_any() -> None:
    assert job().key == "043f765779c49cb210581f37"
    assert job(keeps_orders=True).key != job().key


def test_a_result_of_an_earlier_version_is_read_and_merged_without_what_it_did_not_measure(
    store: Store, tmp_path: Path
) -> None:
    other = Store.open(tmp_path / "other", {})
    for each in (store, other):
        each.keep(replace(outcome(), random_ndcg=0.25))
    path = store.path(job().key)
    pq.write_table(pq.read_table(path).drop_columns([*NEWER, "keeps_orders"]), path)
    found = store.outcome(job().key)
    assert found.job == job()
    assert np.isnan(found.last("certain_wrong"))
    assert found.last("ndcg") == 1.0
    assert found.is_collapse is None
    assert store.take([other]) == 0


def test_a_run_that_ends_below_a_random_ranker_is_a_collapse() -> None:
    assert [replace(outcome(ndcg=ndcg), random_ndcg=0.4).is_collapse for ndcg in (0.39, 0.41)] == [True, False]


def test_all_runs_are_one_table_for_other_programs(store: Store) -> None:
    for seed in (1, 2):
        store.keep(outcome(job(seed=seed)))
    table = pq.read_table(store.runs)
    assert table.num_rows == 4
    assert {"ranker", "user", "seed", "round", *MEASURES} <= set(table.column_names)


def test_bits_are_all_numbers_but_times(store: Store) -> None:
    for measure in MEASURES:
        same = outcome(**{measure: 2.0}).bits() == outcome().bits()
        assert same == (measure in TIMES), measure


def test_keeping_a_run_removes_what_it_left_while_under_way(store: Store) -> None:
    kept = outcome()
    store.checkpoint(kept.job.key).write_bytes(b"half")
    store.keep(kept)
    assert list(store.running.iterdir()) == []


def test_a_damaged_run_is_refused_with_its_name(store: Store) -> None:
    store.keep(outcome())
    path = store.path(outcome().job.key)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BadInput, match=path.name):
        store.outcomes()


def test_a_run_under_another_name_is_refused(store: Store) -> None:
    store.keep_file("other", to_parquet(outcome()))
    with pytest.raises(BadInput, match="holds the run"):
        store.outcome("other")


def test_bytes_that_are_no_result_are_refused() -> None:
    with pytest.raises(BadInput, match="here is damaged"):
        from_parquet(b"not parquet", "here")


def test_a_folder_of_other_conventions_is_refused(store: Store) -> None:
    path = store.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["conventions"]["gamma"] = 0.5
    path.write_text(json.dumps(manifest))
    with pytest.raises(BadInput, match=r"another convention: gamma is 0\.5"):
        Store.open(store.folder, {})


@pytest.mark.parametrize("change", [{"format": 99}, {"version": "99.0"}])
def test_a_folder_of_a_newer_version_is_refused(store: Store, change: dict[str, object]) -> None:
    path = store.folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BadInput, match=f"this is {__version__}.*upgrade"):
        Store.open(store.folder)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(BadInput, match="not empty"):
        Store.open(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_goes_on_with_what_is_asked_last(store: Store) -> None:
    again = Store.open(store.folder, {"rounds": 40})
    assert again.manifest["asked"] == {"rounds": 40}
    assert Store.open(store.folder).manifest["asked"] == {"rounds": 40}


def test_folders_merge(store: Store, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "other", {})
    store.keep(outcome(job(seed=1)))
    other.keep(outcome(job(seed=1), seconds=9.0))  # the same run, on a slower machine
    other.keep(outcome(job(seed=2)))
    assert store.take([other]) == 1
    assert digest(store.outcomes()) == digest(other.outcomes())


def test_the_same_run_with_other_numbers_is_not_merged(store: Store, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "other", {})
    store.keep(outcome(ndcg=0.5))
    other.keep(outcome(ndcg=0.6))
    with pytest.raises(BadInput, match="differs"):
        store.take([other])


def test_no_space_left_is_said_and_leaves_nothing_half_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store.keep(outcome(job(seed=1)))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match=r"No space left.*make room"):
        store.keep(outcome(job(seed=2)))
    assert [path.stem for path in store.runs.iterdir()] == [job(seed=1).key]
