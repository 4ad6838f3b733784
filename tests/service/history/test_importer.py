"""Past lists in the log: each once, learned and replayed to the same bits, on both kinds of logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import small
from helpers.past_lists import imported, line, totals, written
from helpers.service_small import NOTHING, append, created, n_impressions, spec, versions

from perturank.errors import BadInput
from perturank.service.history.files import lists_in
from perturank.service.history.importer import Importer
from perturank.service.learner import retention
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Changed, Feedback, Impression, Scaled, as_json, own_id, unpacked
from perturank.wire.specification import Feature


def impressions(log: Log) -> list[Impression]:
    return [record.entry for record in log.read() if isinstance(record.entry, Impression)]


def said(log: Log) -> list[Feedback]:
    return [record.entry for record in log.read() if isinstance(record.entry, Feedback)]


def test_a_file_is_imported_once_learned_at_once_and_replayed_to_the_same_bits(either: Log, tmp_path: Path) -> None:
    created(either, ranker="p2linrank", scaling="auto", window=3600.0)
    path = written(tmp_path, [line(number) for number in range(40)])
    report = imported(either, path)
    assert (report.read, report.imported, report.known, report.n_refused) == (40, 40, 0, 0)
    tail = either.tail()
    again = imported(either, path)
    assert (again.imported, again.known) == (0, 40)
    assert either.tail() == tail
    learner = Learner(either)
    assert learner.step() == 40  # no window is waited for
    assert learner.states["m"].tracker.waiting == {}
    assert learner.states["m"].learned == 40
    scales = [record.entry for record in either.read() if isinstance(record.entry, Scaled)]
    assert [scale.n for scale in scales] == [32]
    report_of_replay = rebuild(either, "m")
    assert (report_of_replay.checked, report_of_replay.differs) == (len(versions(either)), None)
    assert small.same_bits(report_of_replay.state.ranker, learner.states["m"].ranker)
    assert list(faults(either)) == []


def test_old_clicks_are_no_clicks_of_today(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank")
    event = {"id": "d1-0", "action": "purchase", "value": 39.9, "time": "2025-03-01T10:00:00Z"}
    imported(log, written(tmp_path, [line(0), line(1, events=[event], time="2025-03-01T09:59:00Z", source="kim")]))
    found = totals(log)
    assert found["lists"] == {"learn": 0, "exploit": 0, "shadow": 0, "own": 0, "imported": 2, "test": 0}
    assert (found["clicks"], found["events"], found["values"], found["reward"]) == (0, {}, {}, 0)
    shown = next(record for record in log.read() if isinstance(record.entry, Impression) and record.entry.source)
    values = as_json(shown, log.secret)
    assert (values["mode"], values["propensity"], values["version"]) == ("imported", None, 0)
    assert values["shown_at"] == "2025-03-01T09:59:00.000+00:00"
    assert [(event.id, event.action, event.value) for event in said(log)[1].events or ()] == [
        ("d1-0", "purchase", 39.9)
    ]


def test_a_line_that_cannot_be_used_is_refused_with_its_number_and_the_others_are_imported(
    log: Log, tmp_path: Path
) -> None:
    created(log, ranker="p2linrank")
    wrong: list[Any] = [
        line(0),
        "{",
        '{"documents": [{"id": "a", "features": [1, 2, 3, 4, 5]}]}',
        line(3, querry="x"),
        line(4, clicks=["z"]),
        line(5, seen=9),
        line(6, events=[{"id": "d6-0", "action": "lick"}]),
        line(7, documents=[{"id": "d7-0", "features": [1.0]}]),
        line(8, documents=[{"id": "d8-0", "features": [1.0, 2.0, None, 4.0, 5.0]}], clicks=[]),
        line(9, time="yesterday"),
        line(0, clicks=[]),
        "",
        line(12, documents=[{"id": "a", "features": {"price": 3}}]),
        line(13),
    ]
    path = written(tmp_path, wrong)
    dry = imported(log, path, dry_run=True)
    assert n_impressions(log) == 0
    assert said(log) == []
    report = imported(log, path)
    assert (report.read, report.imported, report.known, report.n_refused) == (13, 2, 0, 11)
    assert (dry.read, dry.imported, dry.n_refused) == (13, 2, 11)
    told = {each.where: each.message for some in report.examples.values() for each in some}
    assert "truncated" in told["line 2"]
    assert "missing required field `query_id`" in told["line 3"]
    assert "unknown field `querry`" in told["line 4"]
    assert "document 'z' was clicked but not shown" in told["line 5"]
    assert "9 places were seen, and 4 shown" in told["line 6"]
    assert "the action 'lick' is not known; the model knows click" in told["line 7"]
    assert "document 'd7-0' has 1 feature" in told["line 8"]
    assert "feature 2 of document 'd8-0' is missing" in told["line 9"]
    assert "'yesterday' is no time" in told["line 10"]
    assert "the query_id 'q0' occurs twice" in told["line 11"]
    assert "features have no names" in told["line 13"]
    assert report.refused["document … was clicked but not shown"] == 1
    assert sum(report.as_dict()["refused_by_reason"].values()) == 11


def test_a_strict_import_stops_at_the_first_refusal_and_keeps_what_was_before_it(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank")
    path = written(tmp_path, [line(0), line(1), "[]", line(3)])
    with pytest.raises(BadInput, match=r"line 3: Expected `object`.*the 2 lists before it are in the log"):
        imported(log, path, strict=True)
    assert n_impressions(log) == 2


def test_a_list_longer_than_the_models_places_is_learned_as_pages(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank")
    long = line(0, 11, clicks=["d0-1", "d0-9"], source="kim")
    imported(log, written(tmp_path, [long, line(1, 11, clicks=["d1-6"], seen=5)]))
    first, second, third, *others = impressions(log)
    assert [len(each.ids) for each in (first, second, third)] == [4, 4, 3]
    assert [len(each.earlier) for each in (first, second, third)] == [0, 1, 2]
    assert [entry.clicks for entry in said(log)] == [["d0-1"], [], ["d0-9"], [], ["d1-6"]]
    assert [(entry.seen, len(page.ids)) for entry, page in zip(said(log)[3:], others, strict=True)] == [(4, 4), (1, 4)]
    assert Learner(log).step() == 5
    assert imported(log, written(tmp_path, [long])).known == 1
    assert list(faults(log)) == []


def test_the_cap_holds_and_later_events_of_an_imported_list_are_late(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank", cap=2)
    imported(log, written(tmp_path, [line(number, source="bot") for number in range(5)]))
    assert Learner(log).step() == 2
    name = own_id("q0", "m", log.secret)
    with log.transaction() as transaction:
        assert record_feedback(transaction, "m", name, ["d0-3"], True) == "late"
    assert list(faults(log)) == []


def test_a_model_that_begins_anew_may_be_taught_again(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank")
    path = written(tmp_path, [line(0, 6), line(1)])
    assert imported(log, path).imported == 2
    with log.transaction() as transaction:
        assert changes.put(transaction, "m", spec("pairrank"), begin_anew=True)
    assert imported(log, path).imported == 2
    assert imported(log, path).known == 2
    learner = Learner(log)
    learner.step()
    assert learner.states["m"].learned == 3
    assert rebuild(log, "m").differs is None
    assert list(faults(log)) == []


def test_features_are_kept_as_the_model_has_them_when_the_list_is_written(log: Log, tmp_path: Path) -> None:
    names = tuple(Feature(name) for name in "abcde")
    created(log, ranker="p2linrank", scaling="auto", features=names)
    values = list(range(5))
    document = {"id": "x", "features": dict(zip("abcde", values, strict=True))}
    path = written(tmp_path, [{"query_id": "q", "documents": [document]}])
    importer = Importer(log, "m")
    with log.transaction() as transaction:  # the model changes while the import runs
        assert not changes.put(
            transaction, "m", spec("p2linrank", scaling="auto", features=names[::-1]).follow(importer.spec)[0]
        )
    assert [fate for _, fate in importer.fates(lists_in(path))] == ["imported"]
    features, _, _ = unpacked(impressions(log)[0].packed, None)
    assert features[0].tolist() == values[::-1]


def test_a_model_that_cannot_learn_from_others_lists_or_is_not_there_is_refused(log: Log, tmp_path: Path) -> None:
    created(log)
    path = written(tmp_path, [line(0)])
    with pytest.raises(BadInput, match="pdgd-linear cannot learn from lists that it has not drawn itself"):
        imported(log, path)
    append(log, Changed(0, spec("p2linrank")))
    assert imported(log, path).imported == 1


def test_an_import_into_a_compacted_log_says_that_it_may_repeat_itself(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank")
    path = written(tmp_path, [line(0), line(1)])
    assert imported(log, path).notes == []
    learner = Learner(log)
    learner.step()
    learner.close()
    retention.compact(log, "m", NOTHING)
    assert rebuild(log, "m").differs is None
    (note,) = imported(log, path, dry_run=True).notes
    assert "not recognised" in note
