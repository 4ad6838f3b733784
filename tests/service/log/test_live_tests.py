from __future__ import annotations

import msgspec
import pytest
from helpers.service_small import IDS, created

from perturank.service.log import Log, Transaction, live_tests, verdicts
from perturank.service.log.feedback import record_feedback
from perturank.service.log.live_tests import MOST_POINTS, N_GROUPS, Period, closing, group_of, stream
from perturank.service.log.records import Drafted, Event, Impression, new_id
from perturank.service.log.refusals import Contradiction, NotKnown
from perturank.wire.live_tests import LiveTest

SPEC = LiveTest(("m", "own"), actions={"click": 1.0, "purchase": 10.0}, window=60.0)
SPLIT = msgspec.structs.replace(SPEC, method="split")


def begun(log: Log, spec: LiveTest = SPEC) -> int:
    """Begin a test of the model m, and return where."""
    if log.tail() == 0:
        created(log)
    with log.transaction() as transaction:
        assert live_tests.put(transaction, "t", spec)
    return live_tests.required(log, "t").since


def shown(log: Log, since: int, teams: list[int], group: int = -1, *, arms: int = 1, counts: bool = True) -> bytes:
    name = new_id(log.tail())
    drafted = Drafted(teams, [since, arms, 0], [0, 0], counts, [], group)
    with log.transaction() as transaction:
        transaction.append(stream("t"), Impression(0, 0, "test", IDS, None, b"", drafted=drafted), name)
    return name


def clicked(log: Log, name: bytes, *documents: str, action: str = "click") -> None:
    with log.transaction() as transaction:
        events = [Event(document, action) for document in documents]
        record_feedback(transaction, stream("t"), name, [], False, events=events, actions=SPEC.actions)


def closed(log: Log) -> None:
    act = closing(log, "t", log.tail())
    with log.transaction() as transaction:
        act(transaction)


def told(log: Log) -> dict[str, object]:
    """Return what is stored of the test, which is what a replay makes."""
    standing, again = live_tests.required(log, "t"), live_tests.replayed(log, "t")
    assert standing == again
    return dict(verdicts.told(log, "t", standing))


def test_lists_count_once_when_their_window_closes_in_either_log(either: Log) -> None:
    since = begun(either)
    first = shown(either, since, [0, 1, 0, 1])
    clicked(either, first, "a")
    clicked(either, first, "b", action="purchase")
    shown(either, since, [0, 1, 0, 1], counts=False)
    assert told(either)["lists"] == 0
    one, two = closing(either, "t", either.tail()), closing(either, "t", either.tail())
    with either.transaction() as transaction:  # two processes, or one twice
        assert one(transaction) == two(transaction)
    found = told(either)
    assert (found["lists"], found["uncounted"]) == (1, 1)
    period = live_tests.required(either, "t").period
    assert (period.credit, period.pairs) == ([1.0, 10.0], [(-9.0, 81.0)])
    clicked(either, first, "c")  # too late
    closed(either)
    assert live_tests.required(either, "t").period.credit == [1.0, 10.0]
    told(either)


def test_a_split_counts_by_the_groups_of_its_sources(either: Log) -> None:
    since = begun(either, SPLIT)
    for group, documents in ((4, "ab"), (4, ""), (7, "a"), (9, "")):
        name = shown(either, since, [group % 2] * 4, group)
        clicked(either, name, *documents)
    closed(either)
    period = live_tests.required(either, "t").period
    assert period.groups == {4: (2, 2.0), 7: (1, 1.0), 9: (1, 0.0)}
    assert (period.lists, period.credit) == ([2, 2], [2.0, 1.0])
    (pair,) = period.differences(SPLIT)
    assert pair.total / pair.n == pytest.approx(2 / 2 - 1 / 2)
    told(either)


def test_an_arm_that_was_changed_begins_a_period_and_older_lists_no_longer_count(log: Log) -> None:
    since = begun(log)
    for arms in (1, 1, 5, 1, 5, 5):  # another process may show lists of before
        shown(log, since, [0, 1, 0, 1], arms=arms)
    closed(log)
    standing = live_tests.required(log, "t")
    assert (standing.period.number, standing.period.n, standing.period.uncounted) == (2, 3, 1)
    assert [(each.number, each.lists) for each in standing.earlier] == [(1, 2)]
    shown(log, since, [0, 1, 0, 1], arms=5)
    again = begun(log, msgspec.structs.replace(SPEC, level=0.1))
    shown(log, again, [0, 1, 0, 1], arms=5)
    closed(log)
    assert told(log)["lists"] == 1


def test_a_test_is_begun_changed_and_stopped_once(log: Log) -> None:
    with pytest.raises(NotKnown, match="no test 't'"):
        live_tests.required(log, "t")
    with pytest.raises(NotKnown, match="no test 't'"):
        live_tests.replayed(log, "t")
    begun(log)

    def stop(transaction: Transaction) -> None:
        live_tests.stop(transaction, "t")

    with log.transaction() as transaction:
        assert not live_tests.put(transaction, "t", SPEC)
        assert live_tests.running(log) == {"t": SPEC}
    with log.transaction() as transaction:
        stop(transaction)
        with pytest.raises(Contradiction):
            stop(transaction)
    assert live_tests.running(log) == {}
    assert told(log)["status"] == "stopped"
    with log.transaction() as transaction:
        assert live_tests.put(transaction, "t", SPEC)


def test_the_series_keeps_its_ends_and_few_points_however_long_it_is() -> None:
    period = Period.begun(1, [1, 1, 0], SPEC)
    for second in range(5000):
        period.n += 1
        period.look(1000 * second, SPEC)
    assert MOST_POINTS / 3 < len(period.series) <= MOST_POINTS
    assert (period.series[0].lists, period.series[-1].lists) == (1, 5000)
    gaps = [b.at - a.at for a, b in zip(period.series[:-2], period.series[1:-1], strict=True)]
    assert max(gaps) <= 4 * min(gaps)


def test_three_arms_are_compared_in_pairs_and_the_winner_beats_each() -> None:
    spec = LiveTest(("m", "n", "own"), actions={"click": 1.0})
    period = Period.begun(1, [1, 1, 1, 0], spec)
    period.n, period.pairs = 100, [(40.0, 60.0), (5.0, 60.0), (-30.0, 60.0)]
    period.look(0, spec)
    assert (period.winners, period.winner) == ([0, None, 2], None)
    period.pairs[1] = (40.0, 60.0)
    period.look(1, spec)
    assert (period.winner, period.decided_at, period.decided_after) == (0, 1, 100)
    period.pairs[1] = (0.0, 60.0)  # a verdict stays
    period.look(2, spec)
    assert period.winner == 0


def test_sources_are_spread_over_groups_differently_in_each_test() -> None:
    groups = [group_of("t", f"s{i}".encode(), b"key") for i in range(4000)]
    assert len(set(groups)) > 0.9 * N_GROUPS
    assert abs(sum(group % 2 for group in groups) - 2000) < 200
    others = [group_of("u", f"s{i}".encode(), b"key") for i in range(4000)]
    assert sum(one == other for one, other in zip(groups, others, strict=True)) < 40
