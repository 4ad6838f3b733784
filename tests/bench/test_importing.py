"""`python -m benchmarks import` in small."""

from __future__ import annotations

from benchmarks.importing import Histories, measure_imports


def test_every_list_is_imported_once_and_learned_twice() -> None:
    scale, steps = Histories(lists=1100, documents=4, features=5), list[str]()
    part = measure_imports(scale, steps.append)
    assert len(steps) == scale.n_steps == len(part.rows)
    assert all((row.values["lists_per_second"] or 0) > 0 for row in part.rows.values())
    assert all((row.values["per_processor_second"] or 0) > 0 for row in part.rows.values())
