"""UBI records without HTTP: which model's they are, and what they do to its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from perturank.service.log import Transaction
from perturank.service.log.refusals import NotKnown, Refused
from perturank.service.log.ubi import Outcome, likely_names, note_query, record_event
from perturank.service.serving.service import Service
from perturank.wire.ubi import EventRecord, QueryRecord, Recorded

R = TypeVar("R", bound=Recorded)
Result = Outcome | Refused


def model_of(service: Service, application: str | None, models: Sequence[str] | None) -> str:
    """Return the model that an application's records are for, among those that a key is bound to (None: all)."""
    if application is None and models is not None and len(models) == 1:
        return models[0]
    if application is None:
        raise Refused("the record names no application", "send one: `ubi` of a model says which is its own")
    known = [loaded for loaded in service.models.all() if models is None or loaded.name in models]
    found = [loaded.name for loaded in known if (loaded.spec.ubi.application or loaded.name) == application]
    if len(found) == 1:
        return found[0]
    if found:
        what = f"{application!r} is the application of the models {', '.join(sorted(found))}"
        raise Refused(what, "give each an application of its own, or send a key that is bound to one of them")
    remedy = 'PATCH a model with {"ubi": {"application": …}}, or send a key that is bound to it'
    raise NotKnown(f"no model has the application {application!r}", remedy)


def record_events(service: Service, given: Sequence[tuple[str, EventRecord]]) -> Future[list[Result]]:
    """Return a future with what the events of these models did, when it is durable."""

    def settle(results: Sequence[Result]) -> None:
        for (model, _), result in zip(given, results, strict=True):
            if isinstance(result, Outcome) and result.impression is not None:
                service.settling.note(model, result.impression)

    return _submit(service, given, record_event, settle)


def note_queries(service: Service, given: Sequence[tuple[str, QueryRecord]]) -> Future[list[Result]]:
    """Return a future with what is known of these queries."""
    return _submit(service, given, note_query, lambda results: None)


def _submit(
    service: Service,
    given: Sequence[tuple[str, R]],
    record: Callable[[Transaction, str, R, bytes], Outcome],
    then: Callable[[Sequence[Result]], None],
) -> Future[list[Result]]:
    """Write all records in one transaction; what is refused of them has written nothing."""
    secret = service.log.secret
    queries = [(model, each.query) for model, each in given if each.query is not None]
    names = [name for model, query in queries for name in likely_names(query, model, secret)]

    def write(transaction: Transaction) -> list[Result]:
        return [_result(transaction, model, each) for model, each in given]

    def _result(transaction: Transaction, model: str, each: R) -> Result:
        try:
            return record(transaction, model, each, secret)
        except Refused as refused:
            return refused

    return service.committer.submit(write, names, then=then)
