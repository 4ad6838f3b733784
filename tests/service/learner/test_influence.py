"""What one source may teach: the cap on its lists, and its votes for a document."""

from __future__ import annotations

from collections import deque

import pytest
from helpers.service_small import bits, closed, created, forget_state, served, spec
from hypothesis import given
from hypothesis import strategies as st
from oracles.influence import left_out

from perturank.service.learner import checkpoint, retention
from perturank.service.learner.influence import SourceLimits
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.state import Completed, Heard, Vote
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes, snapshots
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Batch, Event, source_seal

AMONG = 5
LISTS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sets(st.sampled_from("xyz"))), max_size=30)
LIMIT = st.one_of(st.none(), st.integers(1, 3))


def act(log: Log, name: bytes, *documents: str, action: str = "click", final: bool = True) -> None:
    with log.transaction() as transaction:
        actions = transaction.require_model("m").spec.actions
        events = [Event(document, action) for document in documents]
        record_feedback(transaction, "m", name, [], final, events=events, actions=actions)


def skipped(log: Log) -> list[bytes]:
    return [name for record in log.read() if isinstance(record.entry, Batch) for name in record.entry.skipped]


def listed(log: Log, source: str, start: int) -> bytes:
    """Show a source the first list from this seed on that holds d0 and d1."""
    for seed in range(start, start + 100):
        name = served(log, spec(), seed, source=source)
        if {"d0", "d1"} <= set(log.about([name])[0].entry.ids):  # type: ignore[union-attr]
            return name
    raise AssertionError


def visited(log: Log, sources: str, document: str = "d0", start: int = 0) -> list[bytes]:
    """Let each of these sources, one letter each, see a list and click a document."""
    names = [listed(log, source, start + 10 * i) for i, source in enumerate(sources)]
    for name in names:
        act(log, name, document)
    return names


@given(LISTS, LIMIT, LIMIT, st.integers(1, 4))
def test_the_limits_leave_out_what_counting_anew_leaves_out(
    lists: list[tuple[str | None, set[str]]], cap: int | None, votes: int | None, size: int
) -> None:
    sources: deque[bytes | None] = deque(maxlen=AMONG)
    recent: deque[Vote] = deque(maxlen=AMONG)
    found, limits = [], spec(cap=cap, votes=votes)
    complete = [
        Completed(i, i, i, bytes([i]), "learn", source and source.encode(), frozenset(clicks))  # type: ignore[arg-type]
        for i, (source, clicks) in enumerate(lists)
    ]
    for start in range(0, len(complete), size):
        batch = complete[start : start + size]
        names = SourceLimits(limits, sources, recent).skipped(batch)
        found += [name[0] for name in names]
        learned = [each for each in batch if each.name not in names]
        sources.extend(each.source for each in learned)
        recent.extend(vote for each in learned for vote in each.votes)
    assert found == left_out([each for each, _ in lists], [each for _, each in lists], cap, votes, AMONG)


def test_a_vote_is_a_document_of_which_nothing_was_known_whatever_was_done_with_it() -> None:
    before = Heard(frozenset("a"), frozenset({("b", "dismiss")}), 0)
    events = frozenset({("b", "dismiss"), ("a", "purchase"), ("c", "purchase")})
    about = Completed(3, 1, 1, b"x", "learn", b"alice", frozenset("ad"), events, 0, before)
    assert about.votes == [(b"alice", "c"), (b"alice", "d")]
    assert Completed(3, 1, 1, b"x", "learn", None, frozenset("a")).votes == []


def test_a_source_votes_once_for_a_document_and_replay_meets_the_bits(either: Log) -> None:
    created(either, votes=1)
    learner = Learner(either)
    names = visited(either, "aabab")
    other = visited(either, "a", "d1", start=100)
    closed(either)
    while learner.step():
        pass
    assert skipped(either) == [names[1], names[3], names[4]]
    assert other[0] not in skipped(either)
    report = rebuild(either, "m")
    assert (report.differs, report.state.learned) == (None, learner.states["m"].learned)
    assert list(faults(either)) == []


def test_a_repeated_vote_among_later_events_is_not_learned(log: Log) -> None:
    created(log, votes=1)
    learner = Learner(log)
    first, second = visited(log, "a"), visited(log, "a", "d1", start=100)
    assert learner.step() == 2
    act(log, first[0], "d0", action="purchase")  # in the list of the first vote
    act(log, second[0], "d0", action="purchase")
    assert learner.step() == 1
    assert skipped(log) == second
    assert rebuild(log, "m").differs is None


@pytest.mark.parametrize("looks_between", [True, False])
def test_what_was_complete_before_a_repeated_vote_is_learned_whenever_the_learner_looks(
    log: Log, looks_between: bool
) -> None:
    created(log, votes=1)
    learner = Learner(log)
    visited(log, "a")
    (second,) = visited(log, "a", "d1", start=100)
    n = learner.step() if looks_between else 0
    act(log, second, "d0", action="purchase")
    assert n + learner.step() == 2
    assert skipped(log) == [second]
    seal = source_seal("a", log.secret)
    assert list(learner.states["m"].votes) == [(seal, "d0"), (seal, "d1")]
    report = rebuild(log, "m")
    assert (report.differs, report.state.learned) == (None, 2)
    assert bits(learner) == snapshots.digest(report.ranker, whole=True)
    assert list(faults(log)) == []


def test_a_batch_of_an_earlier_version_skips_what_was_complete_before_too(log: Log) -> None:
    created(log, votes=1)
    visited(log, "a")
    (second,) = visited(log, "a", "d1", start=100)
    act(log, second, "d0", action="purchase")
    with log.transaction() as transaction:
        transaction.append("m", Batch(log.tail(), 2, [second], is_counted=True))
    assert rebuild(log, "m").state.learned == 1


def test_votes_count_after_a_restart_and_are_forgotten_with_their_source(log: Log) -> None:
    created(log, votes=1)
    first = Learner(log)
    visited(log, "a")
    assert first.step() == 1
    first.close()
    content = log.stored(snapshots.state_name("m"))
    assert content is not None
    assert checkpoint.header(content, "it")["votes"] == [[source_seal("a", log.secret).hex(), "d0"]]
    again = visited(log, "a", start=100)
    second = Learner(log)
    assert second.position > 0
    assert second.step() == 0
    assert skipped(log) == again
    retention.request_erasure(log, "a")
    while second.step() or not second.is_tidy:
        pass
    assert list(second.states["m"].votes) == []


def test_votes_can_be_limited_later_and_learning_goes_on(log: Log) -> None:
    created(log)
    learner = Learner(log)
    visited(log, "aa")
    assert learner.step() == 2
    before = bits(learner)
    with log.transaction() as transaction:
        assert not changes.put(transaction, "m", spec(votes=2))
    visited(log, "ab", start=100)
    assert learner.step() == 1
    assert bits(learner) != before
    now = bits(learner)
    learner.close()
    forget_state(log)
    again = Learner(log)
    again.catch_up()
    assert bits(again) == now
