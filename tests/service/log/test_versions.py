from __future__ import annotations

import pytest
from helpers.service_small import created, shown, spec

from perturank.service.log import Log, generations, snapshots
from perturank.service.log.records import Batch, Pinned, Snapshot
from perturank.service.serving.models import LoadedModel, LoadedModels

CONTENT = snapshots.version_bytes(spec().start())


def publish(log: Log, *numbers: int, generation: int = 1) -> None:
    """Publish versions that have all learned nothing, among records of other kinds and models."""
    with log.transaction() as transaction:
        for number in numbers:
            transaction.append("m", Batch(0, 0, []))
            transaction.append("n", Snapshot(2, number, 0, b"", b"", 1))
            entry = Snapshot(generation, number, number, b"", snapshots.checksum(CONTENT), 1)
            transaction.append("m", entry)
            transaction.store(snapshots.version_name("m", number), CONTENT)


def test_a_version_is_found_by_its_number(either: Log) -> None:
    created(either)
    created(either, "n")
    publish(either, *range(1, 30), *range(35, 40))
    shown(either)
    for number in (1, 2, 17, 29, 35, 39):
        found = snapshots.found(either, "m", number)
        assert found is not None
        assert (found.snapshot.version, found.snapshot.generation) == (number, 1)
        assert either.at([found.position])[0].entry == found.snapshot
    for number in (-1, 0, 30, 34, 40, 10**15):
        assert snapshots.found(either, "m", number) is None
    assert snapshots.found(either, "none", 1) is None


def test_versions_are_listed_page_by_page_and_none_of_an_earlier_generation(either: Log) -> None:
    created(either)
    publish(either, *range(1, 4))
    second = created(either)
    publish(either, *range(4, 12), generation=second)

    def listed(n: int, before: int | None = None) -> list[int]:
        return [each.snapshot.version for each in generations.versions_before(either, "m", second, n, before)]

    assert listed(3) == [11, 10, 9]
    assert listed(3, 9) == [8, 7, 6]
    assert listed(100, 6) == [5, 4]
    assert listed(100, 4) == listed(100, 1) == []
    assert listed(2, 10**15) == [11, 10]


def load(log: Log) -> LoadedModel:
    models = LoadedModels(log, 10)
    models.refresh()
    return models.get("m")


@pytest.mark.parametrize("pinned", [None, 3])
def test_a_process_holds_few_versions_however_many_there_are(log: Log, pinned: int | None) -> None:
    created(log)
    models = LoadedModels(log, 10)
    publish(log, *range(1, 6))
    models.refresh()
    with log.transaction() as transaction:
        transaction.append("m", Pinned(pinned))
    for first in range(6, 106, 10):
        publish(log, *range(first, first + 10))
        models.refresh()
    loaded = models.get("m")
    assert (loaded.version, loaded.fault) == (pinned or 105, None)
    newest = list(range(105 - snapshots.KEPT + 1, 106))
    assert list(loaded.published) == list(loaded.published_at) == ([3, *newest] if pinned else newest)
    other = load(log)  # one that starts now knows the same
    assert (other.version, other.published, other.published_at) == (
        loaded.version,
        loaded.published,
        loaded.published_at,
    )


def test_a_version_that_is_pinned_long_after_it_was_published_is_served(log: Log) -> None:
    created(log)
    publish(log, *range(1, 60))
    models = LoadedModels(log, 10)
    models.refresh()
    with log.transaction() as transaction:
        transaction.append("m", Pinned(7))
    models.refresh()
    assert models.get("m").version == 7
    with log.transaction() as transaction:
        transaction.append("m", Pinned(None))
    models.refresh()
    assert models.get("m").version == 59
