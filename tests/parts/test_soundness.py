from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from helpers import small

from perturank import catalogue, storage
from perturank.parts import soundness
from perturank.parts.history import History
from perturank.parts.table import Table

LARGEST, LEAST = np.iinfo(np.int32).max, np.iinfo(np.int32).min


def damaged(ranker: Any, name: str, value: Any) -> Any:
    """Return the ranker with one array full of a value, or another array in its place."""
    arrays = storage.arrays_of(ranker)
    wrong = value if isinstance(value, np.ndarray) else np.full_like(arrays[name], np.array(value))
    return storage.filled(ranker, arrays | {name: wrong.astype(arrays[name].dtype)}, "it")


@pytest.mark.parametrize("name", sorted(catalogue.rankers()))
def test_a_new_ranker_is_sound(name: str) -> None:
    assert soundness.fault(small.ranker(name)) is None


def test_a_ranker_that_learned_is_sound_and_says_which_array_is_not() -> None:
    ranker = small.learned("p2linrank", memory=1000)
    assert soundness.fault(ranker) is None
    for name, value in [
        (".history.document_table.cells", 0),
        (".history.document_table.cells", LARGEST),
        (".history.document_table.n", LARGEST),
        (".history.pair_table.n", -1),
        (".history.recency.n_lists", LARGEST),
        (".history.recency.n_lists", LEAST),
        (".history.recency.last", 3),
        (".history.recency.last", -1),
        (".history.weight", np.zeros(7)),
        (".history.documents", np.zeros((7, 5))),
    ]:
        found = soundness.fault(damaged(ranker, name, value))
        assert found is not None
        assert found.array == name


def test_counts_of_an_optimiser_and_of_a_covariance_are_not_below_zero_nor_beyond_its_room() -> None:
    ranker = small.ranker("olranknet")
    for name, value in [(".optimiser[0].count", -1), (".covariance.n", -1), (".covariance.n", LARGEST)]:
        found = soundness.fault(damaged(ranker, name, value))
        assert found is not None
        assert found.array == name


def test_pairs_are_of_documents_that_are_there() -> None:
    history: History = small.learned("p2linrank", memory=1000).history
    none = Table.empty(history.document_table.capacity)
    found = soundness.fault(eqx.tree_at(lambda h: h.document_table, history, none), ".history")
    assert found is not None
    assert found.array == ".history.pair_table.keys"


def test_a_file_without_an_empty_cell_is_loaded_and_learning_from_it_ends(tmp_path: Path) -> None:
    ranker = damaged(small.learned("p2linrank", memory=1000), ".history.document_table.cells", LARGEST)
    storage.save(ranker, tmp_path / "ranker")
    shown = small.query(seed=3)
    after: Any = storage.load(tmp_path / "ranker").learn(small.interaction(shown, [0, 1, 2, 3], [2]), jax.random.key(3))
    assert int(after.history.n_documents) == int(ranker.history.n_documents)
    assert small.is_finite(after)
