"""What is told of a live test: who leads, by how much, how surely, and for how long it would go on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perturank import anytime
from perturank.anytime import Difference
from perturank.interleaving import pairs
from perturank.service.log import Log, erasure
from perturank.service.log.live_tests import ArmOf, Ended, Moment, Standing, level_of, prior_of
from perturank.service.log.records import Changed, Deleted
from perturank.service.log.spec import Spec
from perturank.wire.live_tests import OWN, ArmStanding, Comparison, Learns, LiveTest, LiveTestStanding, Period, Point

DIGITS = 9  # of what is told; the rest is rounding


def told(log: Log, test: str, standing: Standing) -> LiveTestStanding:
    """Return a test in words and numbers; all of it follows from the log."""
    spec, period = standing.spec, standing.period
    differences = period.differences(spec)
    rate = _rate(standing)
    evidence = zip(pairs(period.n_arms), differences, period.winners, strict=True)
    return LiveTestStanding(
        test=test,
        status="running" if standing.running else "stopped",
        spec=spec,
        promoted=standing.promoted,
        since=standing.began,
        lists=period.n,
        uncounted=period.uncounted,
        lists_per_second=None if rate is None else _rounded(rate),
        leader=_arm(spec, period.leader(spec)),
        winner=_arm(spec, period.winner),
        decided_at=period.decided_at,
        decided_after=period.decided_after,
        arms=[_arm_standing(log, standing, i) for i in range(period.n_arms)],
        comparisons=[_comparison(spec, *pair, each, won, rate) for pair, each, won in evidence],
        series=[_point(spec, moment) for moment in period.series],
        period=period.number,
        periods=[_period(spec, each) for each in (*standing.earlier, period.ended(spec))],
    )


def _arm(spec: LiveTest, arm: int | None) -> str | None:
    return None if arm is None else spec.arms[arm]


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def _rate(standing: Standing) -> float | None:
    """Return how many lists a second the period has counted; None: too few to say."""
    period = standing.period
    if period.since is None or period.until <= period.since:
        return None
    return period.n / (period.until - period.since) * 1000


def _interval(spec: LiveTest, difference: Difference) -> tuple[float, float]:
    n = max(difference.n, 1e-300)
    radius = float(anytime.radius(difference.squares, level_of(spec), prior_of(spec)))
    low, high = (difference.total - radius) / n, (difference.total + radius) / n
    return (_rounded(low), _rounded(high)) if difference.n else (-math.inf, math.inf)


def _comparison(
    spec: LiveTest, one: int, other: int, difference: Difference, winner: int | None, rate: float | None
) -> Comparison:
    n, total, squares = difference
    level, prior = level_of(spec), prior_of(spec)
    more = 0.0 if winner is not None else anytime.n_more(max(round(n), 0), total, squares, level, prior)
    more *= 2 if spec.method == "split" else 1  # n counts half of a split's lists
    evidence = float(anytime.log_evidence(total, squares, prior))
    return Comparison(
        one=spec.arms[one],
        other=spec.arms[other],
        difference=_rounded(total / n) if n else 0.0,
        interval=_finite(_interval(spec, difference)),
        confidence=_rounded(anytime.confidence(evidence, len(list(pairs(len(spec.arms)))))),
        decided=winner is not None,
        lists_more=None if math.isinf(more) else round(more),
        seconds_more=None if math.isinf(more) or rate is None else _rounded(more / rate),
    )


def _finite(interval: tuple[float, float]) -> list[float | None]:
    """Return an interval as JSON has it: what is infinite is null."""
    return [None if math.isinf(end) else end for end in interval]


def _point(spec: LiveTest, moment: Moment) -> Point:
    found = [Difference(*each) for each in moment.pairs]
    return Point(
        at=moment.at,
        lists=moment.lists,
        differences=[_rounded(each.total / each.n) if each.n else 0.0 for each in found],
        intervals=[_finite(_interval(spec, each)) for each in found],
    )


def _period(spec: LiveTest, ended: Ended) -> Period:
    return Period(
        number=ended.number,
        since=ended.since,
        lists=ended.lists,
        leader=_arm(spec, ended.leader),
        winner=_arm(spec, ended.winner),
    )


def _arm_standing(log: Log, standing: Standing, i: int) -> ArmStanding:
    spec, period, arm = standing.spec, standing.period, ArmOf.named(standing.spec.arms[i])
    reason = _reason(log, spec.arms, i, spec)
    learns: Learns = spec.learns if reason is None else "none"
    return ArmStanding(
        arm=spec.arms[i],
        model=arm.model,
        version=arm.version or (period.versions[i] if period.versions and arm.model is not None else None),
        lists=period.lists[i],
        credit=_rounded(period.credit[i]),
        learns=learns,
        reason=reason,
        learned=period.learned[i],
        unlearned=erasure.unlearned_since(log, arm.model, standing),
    )


def _reason(log: Log, arms: Sequence[str], i: int, spec: LiveTest) -> str | None:
    """Return why an arm does not learn as the test says; None: it does."""
    arm = ArmOf.named(arms[i])
    if spec.learns == "none":
        return None
    if arms[i] == OWN or arm.model is None:
        return "the caller's own order has nothing to learn"
    if arm.version is not None:
        return "a version stays as it is"
    current = _current(log, arm.model)
    if current is None:
        return "the model was deleted"
    if current.needs_own_lists and spec.method == "interleave":
        return f"{current.ranker} learns only from lists that it drew alone"
    return None


def _current(log: Log, model: str) -> Spec | None:
    changed, deleted = (next(iter(log.newest(model, kind, 1)), None) for kind in (Changed, Deleted))
    if changed is None or (deleted is not None and deleted.position > changed.position):
        return None
    return changed.entry.spec if isinstance(changed.entry, Changed) else None
