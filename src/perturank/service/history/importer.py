"""Past lists into the log: checked, packed, each written once, whether the service runs or not.

A list is named by its query_id. So an import that is repeated, or goes on after an interruption, writes what is
missing. A list longer than the model's places is written as pages, as the service itself writes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from perturank.errors import BadInput
from perturank.parts.past_lists import cannot_learn_from_others
from perturank.service.log import Log, Transaction
from perturank.service.log.documents import of_documents
from perturank.service.log.feedback import count_past, past_events, record_past
from perturank.service.log.records import (
    LEVEL,
    CurrentModel,
    Event,
    EventKey,
    Impression,
    own_id,
    packed,
)
from perturank.service.log.refusals import Refused
from perturank.service.log.spec import Spec
from perturank.service.log.ubi import likely_names
from perturank.wire.history import MOST_DOCUMENTS, PastList
from perturank.wire.specification import CLICK, ShownMode

AT_ONCE = 500  # lists to a transaction, for which the service's own writes wait
SIGNED_ID = 27  # characters of an impression as the service answers it
WORTHWHILE = 0.5  # lists are compressed if that halves them; it takes longer than all else

Fate = Literal["imported", "known"] | BadInput


class GivenList(NamedTuple):
    """A list of a file, not read yet: `read` returns it or refuses it; `where` says which one it is."""

    where: str
    read: Callable[[], PastList]


class Page(NamedTuple):
    """A list, or a page of it, as it goes into the log."""

    query_id: str
    name: bytes
    shown: Impression
    events: dict[EventKey, Event]
    seen: int


class PreparedLists(NamedTuple):
    """Lists that are ready to be written, as pages of a model as it was, or with a refusal."""

    given: Sequence[GivenList]
    pages: list[list[Page] | BadInput]
    current: CurrentModel


class Importer:
    """Writes past lists into the log of one model."""

    def __init__(self, log: Log, model: str, *, is_dry: bool = False) -> None:
        self.log, self.model, self.is_dry = log, model, is_dry  # dry: nothing is written
        self._began = log.tail()
        with log.transaction() as transaction:
            self._current = transaction.require_model(model)
        if self.spec.needs_own_lists:
            raise cannot_learn_from_others(self.spec.ranker)

    @property
    def spec(self) -> Spec:
        """The model as it is now."""
        return self._current.spec

    def fates(self, lists: Iterable[GivenList], *, strict: bool = False) -> Iterator[tuple[GivenList, Fate]]:
        """Write the lists in their order, and yield what became of each; `strict`: a refusal is the last."""
        waiting = iter(lists)
        while some := list(islice(waiting, AT_ONCE)):
            prepared = self._prepare(some, strict)
            yield from zip(prepared.given, self._write(prepared), strict=True)
            if len(prepared.given) < len(some):
                break

    def _prepare(self, some: Sequence[GivenList], strict: bool = False) -> PreparedLists:
        current, level = self._current, -1
        prepared: list[list[Page] | BadInput] = []
        for given in some:
            try:
                past = given.read()
                features, prior = of_documents(past.documents, current.spec, MOST_DOCUMENTS)
                level = _level(features) if level < 0 else level
                prepared.append(self._pages(past, features, prior, current, level))
            except BadInput as refused:
                prepared.append(refused)
                if strict:
                    break
        return PreparedLists(some[: len(prepared)], prepared, current)

    def _pages(
        self, past: PastList, features: np.ndarray, prior: np.ndarray | None, current: CurrentModel, level: int
    ) -> list[Page]:
        spec, ids, seen = current.spec, [each.id for each in past.documents], past.seen or 0
        given = [*(Event(each, CLICK) for each in past.clicks), *(Event(e.id, e.action, e.value) for e in past.events)]
        events = past_events(ids, given, seen, spec.actions)
        # Pages that nobody has looked at are left out, where that is known.
        end = max([seen, *(ids.index(event.id) + 1 for event in events.values())]) if seen else len(ids)
        pages: list[Page] = []
        for start in range(0, end, spec.places):
            part = slice(start, start + spec.places)
            shown = Impression(
                current.generation,
                0,
                "imported",
                ids[part],
                None,
                packed(features[part], None if prior is None else prior[part], level=level),
                past.source,
                earlier=[page.name for page in pages],
                shown_at=past.at,
            )
            mine = events if len(ids) <= spec.places else {k: e for k, e in events.items() if e.id in shown.ids}
            name = self._name(past.query_id, len(pages))
            pages.append(Page(past.query_id, name, shown, mine, min(max(seen - start, 0), len(shown.ids))))
        return pages

    def _name(self, query_id: str, page: int) -> bytes:
        if len(query_id) == SIGNED_ID and page == 0:  # perhaps an impression of the service
            return likely_names(query_id, self.model, self.log.secret)[0]
        return own_id(query_id, self.model, self.log.secret, page)

    def _write(self, prepared: PreparedLists) -> list[Fate]:
        """Write the lists in one transaction."""
        found: list[Fate] | None = None
        with contextlib.suppress(_DryRun), self.log.transaction() as transaction:
            current = transaction.require_model(self.model)
            if current == prepared.current:
                transaction.prefetch([pages[0].name for pages in prepared.pages if not isinstance(pages, BadInput)])
                found = [self._fate(transaction, pages) for pages in prepared.pages]
                if n := found.count("imported"):
                    count_past(transaction, self.model, n)
            if self.is_dry:
                raise _DryRun
        if found is None:  # the model was changed a moment ago, and may have other features now
            self._current = current
            return self._write(self._prepare(prepared.given))
        return found

    def _fate(self, transaction: Transaction, pages: list[Page] | BadInput) -> Fate:
        if isinstance(pages, BadInput):
            return pages
        known, generation = _shown(transaction, pages[0].name), pages[0].shown.generation
        if known is not None and known.generation != generation:  # learning has begun anew since it was shown
            pages = _renamed(pages, generation, self.model, self.log.secret)
            known = _shown(transaction, pages[0].name)
        if known is not None:
            return "known" if known.position <= self._began or known.mode != "imported" else _used_twice(pages[0])
        for page in pages:
            record_past(transaction, self.model, page.name, page.shown, page.events, page.seen)
        return "imported"


class _DryRun(Exception):
    """Ends a transaction of which nothing is to be kept."""


class _Known(NamedTuple):
    position: int
    generation: int
    mode: ShownMode


def _shown(transaction: Transaction, name: bytes) -> _Known | None:
    """Return the list of this name, if the log has it."""
    for record in transaction.about(name):
        if isinstance(record.entry, Impression):
            return _Known(record.position, record.entry.generation, record.entry.mode)
    return None


def _renamed(pages: Sequence[Page], generation: int, model: str, secret: bytes) -> list[Page]:
    """Return the pages under names of a generation's own: those of the query_id belong to an earlier one."""
    number = -generation * MOST_DOCUMENTS  # pages of the service's own lists count up from 0
    names = [own_id(page.query_id, model, secret, number - i) for i, page in enumerate(pages)]
    shown = [msgspec.structs.replace(page.shown, earlier=names[:i]) for i, page in enumerate(pages)]
    return [page._replace(name=names[i], shown=shown[i]) for i, page in enumerate(pages)]


def _used_twice(page: Page) -> BadInput:
    return Refused(f"the query_id {page.query_id!r} occurs twice", "give each list an id of its own")


def _level(features: np.ndarray) -> int:
    """Return at which level lists like this one are compressed."""
    small, large = (len(packed(features, None, level=level)) for level in (LEVEL, 0))
    return LEVEL if small < WORTHWHILE * large else 0
