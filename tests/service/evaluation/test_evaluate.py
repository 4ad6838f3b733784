"""A challenger on the traffic of a model: everything follows from the log."""

from __future__ import annotations

import json
import re
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers.service_small import N_FEATURES, closed, created, impression, shown, spec
from typer.testing import CliRunner

from perturank.cli import app
from perturank.service.evaluation.chances import DRAWS
from perturank.service.evaluation.chances import chances as chances_of
from perturank.service.evaluation.evaluate import evaluate
from perturank.service.evaluation.traffic import read_traffic
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild_version
from perturank.service.log import Log, changes, open_log, snapshots
from perturank.service.log.records import new_id
from perturank.service.log.refusals import Refused
from perturank.service.serving.evaluations import Asked, Evaluations
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.wire.requests import ListFeedback
from perturank.wire.specification import Exploration, Feature

N, V = 800, 6
IDS = [f"d{row}" for row in range(V)]
TASTE = np.array([2.0, 0, 0, 0, 0])  # people like the first feature


def chances(features: np.ndarray) -> np.ndarray:
    """Return how probable a click on each of these documents [n, d] is."""
    found: np.ndarray = 1 / (1 + np.exp(1 - features @ TASTE))
    return found


def serve(log: Log, n: int, seed: int, model: str = "m") -> None:
    """Show n lists of the model and click down each until something is liked."""
    rng = np.random.default_rng(seed)
    service = Service(log, ServeSettings())
    try:
        loaded = service.models.get(model)
        features = rng.uniform(-1, 1, (n, V, N_FEATURES)).astype(np.float32)
        made = [
            service.rank(loaded, IDS, rows, rows[:, 0], draw=turn, query="shoes") for turn, rows in enumerate(features)
        ]
        said = []
        for rows, future in zip(features, made, strict=True):
            answer = future.result()
            liked = chances(rows[[IDS.index(id_) for id_ in answer.ids]])
            likes = [id_ for id_, p in zip(answer.ids, liked, strict=True) if rng.random() < p]
            said.append(service.feedback(model, ListFeedback(answer.impression, likes[:1], final=True)))
        for status in said:
            assert status.result() == "recorded"
    finally:
        service.close()


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """Yield a log of which half of the lists were drawn before its only version, and half by it."""
    log = open_log(f"sqlite:///{tmp_path_factory.mktemp('log') / 'log.db'}", create=True)
    created(log, ranker="pdgd-linear", candidates=1.0, chance="seeded", settings={"learning_rate": 0.01})
    serve(log, N // 2, 1)
    learner = Learner(log)
    learner.step()
    serve(log, N // 2, 2)
    learner.close()
    yield log
    log.close()


def late(log: Log) -> int:
    """Return a position behind which some lists are left, for tests to which their number is all one."""
    return read_traffic(log, "m").lists[-60].position


def test_the_order_of_the_caller_earns_what_it_would(taught: Log) -> None:
    found = evaluate(taught, "m", "own", places=1)
    assert (found.lists, found.places, found.left_out) == (N, 1, {})
    candidates = [each.candidates for each in read_traffic(taught, "m").lists]
    truth = float(chances(np.stack([each.features[each.own_order[0]] for each in candidates])).mean())
    by_name = {each.estimator: each for each in found.estimates}
    assert set(by_name) == {"ips", "snips", "rips", "snrips", "cdr", "dm"}
    for name in ("rips", "snrips", "cdr"):
        each = by_name[name]
        assert each.low is not None
        assert each.high is not None
        assert each.gain is not None
        assert each.support == 1
        assert each.low < truth < each.high
        assert each.gain.low > 0
    assert by_name["rips"] == replace(by_name["ips"], estimator="rips", assumes=by_name["rips"].assumes)
    assert "iips is left out" in found.note


def test_a_refusal_says_how_many_lists_would_do(taught: Log) -> None:
    found = evaluate(taught, "m", "own", estimators=["rips"], after=late(taught))
    (refused,) = found.estimates
    assert (refused.value, refused.gain) == (None, None)
    assert "lists of B" in refused.refusal
    assert found.needed is not None
    assert found.needed.share >= 0
    assert found.needed.lists > found.lists == 59


def test_the_same_log_gives_the_same_numbers(taught: Log) -> None:
    after = late(taught)
    first, second = (evaluate(taught, "m", "own", reward="clicks", places=2, after=after) for _ in range(2))
    assert first == second
    assert {each.estimator for each in first.estimates} >= {"iips", "sniips"}
    json.dumps(first.as_json(), allow_nan=False)


def test_nobody_is_judged_by_lists_that_taught_it(taught: Log, tmp_path: Path) -> None:
    published = snapshots.found(taught, "m", 1)
    assert published is not None
    version = evaluate(taught, "m", "1", places=1, estimators=["rips"])
    assert (version.against, version.lists) == ("version 1", N // 2)
    assert version.first > published.position
    other = evaluate(taught, "m", "pdgd-linear", settings={"learning_rate": "0.05"}, places=1, estimators=["rips"])
    assert other.lists == N // 2 - 1
    said = re.search(r"up to position (\d+)", other.note)
    assert said is not None
    assert other.first > int(said[1])
    path = tmp_path / "m.safetensors"
    path.write_bytes(snapshots.file_bytes(rebuild_version(taught, "m", 1), "m", 1))
    file = evaluate(taught, "m", str(path), places=1, estimators=["rips"], after=published.position)
    assert file.estimates == version.estimates
    assert "--after" in file.note


def test_the_versions_that_showed_the_lists_give_them_the_logged_probability(taught: Log) -> None:
    traffic = read_traffic(taught, "m")
    shown = [each.candidates.shown for each in traffic.lists]
    logged = np.exp(np.cumsum([each.log_p for each in traffic.lists], axis=1))
    assert {each.version for each in traffic.lists} == {0, 1}
    found = chances_of(taught, traffic, traffic.lists[N // 2 - 20 :][:40], shown[N // 2 - 20 :], marginals=True)
    for each, p in zip(found, logged[N // 2 - 20 :], strict=False):
        assert each is not None
        assert each.reach == pytest.approx(p, rel=1e-4)
        assert each.marginal is not None
        assert each.marginal_reach is not None
        assert each.marginal_reach[0] == pytest.approx(p[0], abs=5 * np.sqrt(0.25 / DRAWS))
        assert each.marginal == pytest.approx(each.marginal_reach, abs=1 / DRAWS)


def test_versions_that_are_not_stored_any_more_are_replayed(taught: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = evaluate(taught, "m", "own", places=1, after=late(taught))
    monkeypatch.setattr(snapshots, "versions", lambda log, model: [])
    assert evaluate(taught, "m", "own", places=1, after=late(taught)) == stored


def test_lists_that_mostly_do_not_explore_have_exact_probabilities_too(log: Log) -> None:
    created(log, ranker="random", candidates=1.0, exploration=Exploration(protected=1, share=0.5))
    serve(log, 30, 4)
    traffic = read_traffic(log, "m")
    shown = [each.candidates.shown for each in traffic.lists]
    found = chances_of(log, traffic, traffic.lists, shown, marginals=False)
    for each, logged in zip(found, traffic.lists, strict=True):
        assert each is not None
        assert each.reach == pytest.approx(np.exp(np.cumsum(logged.log_p)), rel=1e-4)
    assert len({tuple(np.round(each.log_p, 3)) for each in traffic.lists}) > 1


@pytest.mark.parametrize("change", [{"ranker": "p2headrank"}, {"ranker": "p2linrank", "settings": {"floor": 0.1}}])
def test_a_pinned_version_of_an_earlier_generation_judges_as_it_was_served(log: Log, change: dict[str, Any]) -> None:
    kept: dict[str, Any] = {"candidates": 1.0, "chance": "seeded"}
    created(log, ranker="p2linrank", settings={"floor": 0.5}, **kept)
    serve(log, 30, 1)
    Learner(log).step()
    with log.transaction() as transaction:
        changes.put(transaction, "m", spec(**kept, **change), begin_anew=True)
        changes.pin(log, transaction, "m", 1)
    serve(log, 30, 2)
    traffic = read_traffic(log, "m")
    assert {each.version for each in traffic.lists} == {1}
    shown = [each.candidates.shown for each in traffic.lists]
    for each, logged in zip(
        chances_of(log, traffic, traffic.lists, shown, marginals=False), traffic.lists, strict=True
    ):
        assert each is not None
        assert each.reach == pytest.approx(np.exp(np.cumsum(logged.log_p)), rel=1e-4)
    assert evaluate(log, "m", "own", places=1).lists == 30
    assert evaluate(log, "m", "1", places=1).against == "version 1"


def test_a_replayed_version_reads_the_features_of_now(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    named = [Feature(name) for name in "abcde"]
    kept: dict[str, Any] = {"ranker": "p2linrank", "scaling": "auto", "candidates": 1.0, "chance": "seeded"}
    created(log, features=tuple(named), **kept)
    serve(log, 30, 1)
    Learner(log).step()
    with log.transaction() as transaction:
        changes.put(transaction, "m", spec(features=tuple(reversed(named)), **kept))
    serve(log, 30, 2)
    stored = evaluate(log, "m", "own", places=1)
    monkeypatch.setattr(snapshots, "versions", lambda log, model: [])
    assert evaluate(log, "m", "own", places=1) == stored


def test_a_version_that_read_other_features_is_refused(log: Log) -> None:
    created(log, ranker="random", candidates=1.0)
    serve(log, 3, 1)
    Learner(log).step()
    with log.transaction() as transaction:
        changes.put(transaction, "m", spec("random", scaling="query"), begin_anew=True)
    with pytest.raises(Refused, match="version 1 of generation 1 read other features"):
        evaluate(log, "m", "1")


def test_lists_that_people_may_still_click_on_are_left_out(log: Log) -> None:
    created(log, ranker="random", candidates=1.0)
    serve(log, 3, 5)
    name = shown(log)  # an early record without probabilities, and without a word of it
    serve(log, 2, 6)
    found = read_traffic(log, "m")
    assert (len(found.lists), found.left_out) == (3, {"not complete yet": 3})
    closed(log)
    after = read_traffic(log, "m")
    assert (len(after.lists), after.left_out) == (5, {"not drawn": 1})
    assert name not in {each.name for each in after.lists}


def test_where_every_list_is_open_it_says_when_they_are_complete(log: Log) -> None:
    created(log, ranker="random", candidates=1.0, window=90)
    shown(log)
    with pytest.raises(Refused, match=r"\(not complete yet: 1\).*when its window closes, after 90 s"):
        evaluate(log, "m", "own")


def test_lists_that_cannot_be_judged_take_little_memory(log: Log) -> None:
    created(log, ranker="random")
    large = msgspec.structs.replace(impression(log_p=b""), packed=bytes(20_000))
    peaks = []
    for n in (500, 1500):  # a page of the log has 500 records
        with log.transaction() as transaction:
            for _ in range(n):
                transaction.append("m", large, new_id(0))
        closed(log)
        tracemalloc.start()
        found = read_traffic(log, "m")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert found.left_out == {"no candidates kept": 2000}
    assert peaks[1] - peaks[0] < 1500 * len(large.packed) / 2  # another page may be in memory, which is a third


@pytest.mark.parametrize(
    "model, against, options, says",
    [
        ("n", "own", {}, "the log knows no model 'n'"),
        ("m", "best", {}, "there is no ranker, version or file 'best'"),
        ("m", "7", {}, "has no version 7"),
        ("m", "own", {"estimators": ["iips"]}, "iips cannot judge the first click"),
        ("m", "own", {"estimators": ["x"]}, "no estimator is named 'x'"),
        ("m", "own", {"settings": {"l2": "1"}}, "--set changes a ranker"),
        ("m", "own", {"after": 10**9}, "no list of model 'm' can be judged"),
    ],
)
def test_what_cannot_be_judged_is_refused(taught: Log, model: str, against: str, options: Any, says: str) -> None:
    with pytest.raises(Refused, match=says):
        evaluate(taught, model, against, **options)


def test_the_command_prints_a_table_json_and_a_figure(taught: Log, tmp_path: Path) -> None:
    after = late(taught)
    words = ["evaluate", "--log", taught.url, "--model", "m", "--against", "own", "--after", str(after)]
    printed = CliRunner().invoke(app, words)
    assert printed.exit_code == 0, printed.stderr
    assert max(map(len, printed.stdout.splitlines())) <= 80
    assert "rips: What people do at a place depends on its document" in " ".join(printed.stdout.split())
    figure = tmp_path / "own.png"
    done = CliRunner().invoke(app, [*words, "--json", "--figure", str(figure)])
    assert json.loads(done.stdout) == evaluate(taught, "m", "own", after=after).as_json()
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_whoever_asks_over_http_gets_the_answer_of_a_child_process_and_then_the_kept_one(taught: Log) -> None:
    clock = iter([0.0, 599.0]).__next__  # when the answer came, and when it is asked for again
    evaluations = Evaluations(taught.url, threading.Event(), clock)
    asked = Asked.of("m", "own", "first-click", 1, late(taught))
    found = evaluations.make(asked)
    assert found == evaluate(taught, "m", "own", places=1, after=late(taught)).as_json()
    assert evaluations.make(asked) is found
    for against in (None, "/etc/passwd", "m.safetensors"):
        with pytest.raises(Refused, match="against is"):
            Asked.of("m", against, "first-click", None, 0)
    with pytest.raises(Refused, match="reward is 'love'"):
        Asked.of("m", "own", "love", None, 0)
