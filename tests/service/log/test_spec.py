from __future__ import annotations

import contextlib
import sqlite3
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.service_small import N_FEATURES, PLACES, append, bits, created, learned, spec

from perturank.catalogue import published
from perturank.errors import BadInput
from perturank.service.learner.replay import matches_stored, rebuild
from perturank.service.log import Log
from perturank.service.log.records import Changed, decoded, encoded
from perturank.service.log.spec import IN_A_SERVICE, Spec, checked_spec
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.wire.specification import DEFAULT_RANKER, Feature, SpecRequest


def model(*features: Feature, n: int = 2) -> Spec:
    return Spec(n_features=n, ranker="random", features=features or None)


A, B = Feature("a"), Feature("b")


def goes_on(now: Spec, before: Spec) -> bool:
    return not now.follow(before)[1]


@pytest.mark.parametrize(
    "now",
    [
        model(),
        model(A, Feature("b", missing=3.0)),
        model(A, B),
    ],
)
def test_a_schema_that_gives_the_ranker_the_same_numbers_keeps_what_was_learned(now: Spec) -> None:
    assert goes_on(now, model(A, B))
    assert goes_on(model(A, B), now)


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
    assert not goes_on(now, model(A, B))


def test_another_value_for_what_is_missing_starts_anew() -> None:
    assert not goes_on(model(A, Feature("b", missing=1.0)), model(A, Feature("b", missing=0.0)))


def test_features_that_were_scaled_cannot_lose_their_names() -> None:
    assert not goes_on(model(), model(A, Feature("b", scale=2.0)))


# A model as earlier versions logged it: their default ranker is not named, and there was no floor.
SETTINGS: dict[str, Any] = {
    "n_rankers": 2,
    "noise_std": 0.1,
    "l2": 5.0,
    "examined_beyond": 1,
    "pairs": "all",
    "inclusion": "symmetric",
    "beyond_weight": 0.7,
    "loss": "symmetric",
    "sort": "topological",
    "memory": 14000,
    "noise": "fresh",
    "widths": [4],
    "shortcut": True,
    "start": "zero",
    "perturb": "clicks",
    "learning_rate": 1e-3,
    "n_steps": 1,
    "budget": 32,
}
EARLY = msgspec.msgpack.encode([1, 0, {"n_features": N_FEATURES, "settings": SETTINGS, "places": PLACES}])
WORDS: dict[str, Any] = {"n_features": N_FEATURES, "places": PLACES}


@pytest.fixture
def early(tmp_path: Path) -> Any:
    """Return a log that begins with the early record."""
    path = tmp_path / "early.db"
    opened = SqliteLog(path)
    created(opened)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE log SET body = ? WHERE position = 1", (EARLY,))
    yield opened
    opened.close()


def test_an_early_record_that_names_no_ranker_means_the_default_of_its_time() -> None:
    entry = decoded(EARLY)
    assert isinstance(entry, Changed)
    assert entry.spec.ranker == "p2neurrank"
    assert entry.spec.settings == SETTINGS
    assert entry.spec.chosen_settings() == published("p2neurrank").settings.changed(**SETTINGS, floor=0.0)


def test_a_new_record_names_its_ranker_also_where_it_is_the_early_default() -> None:
    assert b"p2neurrank" in encoded(Changed(0, spec("p2neurrank")))


@pytest.mark.parametrize("name", ["p2headrank", "p2neurrank", "p2linrank-paper"])
def test_a_setting_that_is_newer_than_the_record_is_as_if_it_were_not_there(name: str) -> None:
    known = spec(name, settings={"floor": 0.5})
    early = msgspec.structs.replace(known, settings={k: v for k, v in known.settings.items() if k != "floor"})
    assert early.chosen_settings() == known.chosen_settings().changed(floor=0.0)
    assert goes_on(early, spec(name, settings={"floor": 0.0}))
    assert not goes_on(early, known)


def test_an_early_log_is_learned_and_replayed_to_the_bits_of_its_ranker(early: Log, log: Log) -> None:
    same = Spec(**WORDS, ranker="p2neurrank", settings=SETTINGS | {"floor": 0.0})
    append(log, Changed(0, same))
    assert bits(learned(early, same, 2)) == bits(learned(log, same, 2))
    report = rebuild(early, "m")
    assert (report.checked, report.differs) == (2, None)
    assert matches_stored(early, report)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"ranker": "p2neurrank"},
        {"settings": {"widths": [4], "budget": 32}},
        {"ranker": "p2neurrank", "settings": SETTINGS},
    ],
    ids=str,
)
def test_an_early_model_that_is_put_again_in_the_words_of_its_time_goes_on(early: Log, words: dict[str, Any]) -> None:
    service = Service(early, ServeSettings())
    try:
        tail = early.tail()
        assert not service.put("m", SpecRequest(**WORDS, **words))
        assert early.tail() == tail  # nothing has changed
        assert not service.put("m", SpecRequest(**WORDS, **words, window=5.0))
        held = service.models.get("m")
        assert (held.generation, held.spec.ranker, held.spec.window) == (1, "p2neurrank", 5.0)
        assert held.spec.settings == SETTINGS | {"floor": 0.0, "scorer": "network"}
    finally:
        service.close()


@pytest.mark.parametrize("scorer", ["a_module_of_theirs:Scorer", "os:path", "perturank.rankers.pdgd:PDGD"])
def test_a_model_loads_no_code_by_the_name_of_a_scorer(scorer: str) -> None:
    with pytest.raises(BadInput, match="scorer"):
        checked_spec(SpecRequest(n_features=3, ranker="pdgd-neural", settings={"scorer": scorer}))
    assert "a_module_of_theirs" not in sys.modules


def test_a_new_model_has_the_default_ranker_with_the_settings_of_a_service() -> None:
    made = checked_spec(SpecRequest(n_features=3))
    assert made.ranker == DEFAULT_RANKER == "p2headrank"
    assert made.chosen_settings() == published(DEFAULT_RANKER).settings.changed(memory=14_000, **IN_A_SERVICE)


@pytest.mark.parametrize(("n", "ranker"), [(1000, "p2headrank"), (1001, "p2neurrank")])
def test_a_new_model_of_wide_documents_has_a_ranker_whose_size_grows_no_faster_than_they(n: int, ranker: str) -> None:
    assert checked_spec(SpecRequest(n_features=n)).ranker == ranker


def test_what_a_request_does_not_name_a_model_keeps_unless_it_has_other_features_or_another_ranker() -> None:
    held = checked_spec(SpecRequest(n_features=3, ranker="p2linrank", settings={"l2": 7.0}, window=5.0))
    assert checked_spec(SpecRequest(n_features=3, window=5.0), held) == held
    assert checked_spec(SpecRequest(n_features=3, settings={"n_rankers": 4}), held).settings == held.settings | {
        "n_rankers": 4
    }
    assert checked_spec(SpecRequest(n_features=3), held).window == SpecRequest(n_features=3).window
    assert checked_spec(SpecRequest(n_features=4), held) == checked_spec(SpecRequest(n_features=4))
    other = SpecRequest(n_features=3, ranker="pdgd-linear")
    assert checked_spec(other, held) == checked_spec(other)


def test_a_service_loads_no_ranker_by_the_name_of_its_module() -> None:
    with pytest.raises(BadInput, match="unknown ranker"):
        checked_spec(SpecRequest(n_features=3, ranker="perturank.rankers.pdgd:pdgd-linear"))
