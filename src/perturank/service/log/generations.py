"""The generations of a model: learning began anew with each, and earlier ones can be restored."""

from __future__ import annotations

from typing import NamedTuple

from perturank.service.log import Log, snapshots
from perturank.service.log.erasure import requests_to_unlearn
from perturank.service.log.records import Changed, Compacted, Deleted
from perturank.service.log.snapshots import PublishedVersion
from perturank.service.log.spec import Spec

KEPT = 5  # earlier generations whose last version stays stored


class Span(NamedTuple):
    """A stretch of the log in which one generation learned; one that was restored has several."""

    generation: int
    begins: int  # the position of its first record
    ends: int | None  # the position of the next one's; None: it is the present one
    since: int  # milliseconds since 1970
    spec: Spec  # the last


class Generation(NamedTuple):
    """What is known of a generation, which is named by the position at which it began."""

    generation: int
    since: int  # milliseconds since 1970
    spec: Spec
    n_versions: int
    last: PublishedVersion | None
    is_present: bool
    refusal: str  # why it cannot be restored; empty: it can


def spans(log: Log, model: str) -> list[Span]:
    """Return the stretches since the model was created, oldest first."""
    end = next((record.position for record in log.newest(model, Deleted, 1)), 0)
    found: list[Span] = []
    for record in log.all_of(model, Changed, end):
        assert isinstance(record.entry, Changed)
        generation, spec = record.entry.generation or record.position, record.entry.spec
        if found and found[-1].generation == generation:
            found[-1] = found[-1]._replace(spec=spec)
            continue
        if found:
            found[-1] = found[-1]._replace(ends=record.position)
        found.append(Span(generation, record.position, None, record.at, spec))
    return found


def generations(log: Log, model: str) -> list[Generation]:
    """Return the generations of a model, oldest first."""
    base = next((r.entry for r in log.newest(model, Compacted, 1) if isinstance(r.entry, Compacted)), None)
    whole = snapshots.whole_versions(log, model)
    found: dict[int, Generation] = {}
    for span in spans(log, model):
        first, last = (next(iter(snapshots.newest(log, model, 1, at)), None) for at in (span.begins, span.ends))
        n = _number(last) - _number(first)
        refusal = _refusal(log, model, span, last, None if _number(last) in whole else base)
        refusal = refusal if n else "it has no version"
        now = Generation(span.generation, span.since, span.spec, n, last if n else None, span.ends is None, refusal)
        before = found.get(span.generation)
        if before is not None:
            now = now._replace(since=before.since, n_versions=n + before.n_versions)
            now = now if n or now.is_present else now._replace(last=before.last, refusal=before.refusal)
        found[span.generation] = now
    return list(found.values())


def _number(version: PublishedVersion | None) -> int:
    return 0 if version is None else version.snapshot.version


def _refusal(log: Log, model: str, span: Span, last: PublishedVersion | None, base: Compacted | None) -> str:
    if span.ends is None:
        return "it is the present one"
    if base is None or last is None or (base.at < span.ends and _number(last) >= base.version):
        return ""
    is_withdrawn = requests_to_unlearn(log, model, last.position)
    return "a source was unlearned since" if is_withdrawn else "the log was compacted past it"


def versions_before(log: Log, model: str, generation: int, n: int, before: int | None = None) -> list[PublishedVersion]:
    """Return the last n versions of a generation that come before this number, the newest first."""
    up_to = log.tail()
    if before is not None:
        at = snapshots.last(log, model, lambda each: each.snapshot.version < before)
        up_to = 0 if at is None else at.position
    found: list[PublishedVersion] = []
    for span in reversed([each for each in spans(log, model) if each.generation == generation]):
        end = up_to if span.ends is None else min(up_to, span.ends)
        page = snapshots.newest(log, model, n - len(found), end) if len(found) < n else []
        found += [each for each in page if each.position > span.begins]
    return found
