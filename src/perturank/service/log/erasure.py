"""Erasure and unlearning in the log: what a request takes out, when it is refused, and whether it is carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perturank.service.log import Log, Transaction, live_tests
from perturank.service.log.records import Compacted, Erased, Feedback, Imported, Impression, Record, source_seal
from perturank.service.log.refusals import Contradiction, NotKnown


class ErasedSources:
    """The sources that some requests erase; each up to the position of its last request.

    An erasure takes out the lists that were ranked for a source, and the feedback that names it. Unlearning also takes
    out lists of nobody in particular whose feedback names the source.
    """

    def __init__(self, requests: Iterable[Record], secret: bytes) -> None:
        self._secret = secret
        self._up_to: dict[bytes, int] = {}
        self._unlearned: dict[bytes, int] = {}
        for each in requests:
            if isinstance(each.entry, Erased):
                self._up_to[each.entry.source] = each.position
                if each.entry.unlearn:
                    self._unlearned[each.entry.source] = each.position

    @property
    def end(self) -> int:
        """The position after which nothing is erased; 0: nothing is."""
        return max(self._up_to.values(), default=0)

    def name(self, record: Record) -> bool:
        """Return whether a list or feedback names one of these sources."""
        return self._is_in(self._up_to, record)

    def own(self, record: Record) -> bool:
        """Return whether an impression goes, with all that was said of it, because of this record."""
        if isinstance(record.entry, Feedback):
            return record.entry.effect != "late" and self._is_in(self._unlearned, record)
        return self.name(record)

    def _is_in(self, erased: Mapping[bytes, int], record: Record) -> bool:
        entry = record.entry
        if not erased or not isinstance(entry, Impression | Feedback) or entry.source is None:
            return False
        return record.position <= erased.get(source_seal(entry.source, self._secret), 0)


def erased_up_to(log: Log, model: str, position: int) -> ErasedSources:
    """Return the sources that requests up to a position erase from a model."""
    return ErasedSources((each for each in log.all_of(model, Erased) if each.position <= position), log.secret)


def requests_to_unlearn(log: Log, model: str, after: int = 0) -> list[Record]:
    """Return the requests to unlearn a source that came after a position."""
    return [each for each in log.all_of(model, Erased, after) if isinstance(each.entry, Erased) and each.entry.unlearn]


def unlearned_since(log: Log, model: str | None, standing: live_tests.Standing) -> bool:
    """Return whether a model was asked to unlearn a source in the present period of a test: its versions are gone."""
    return model is not None and bool(requests_to_unlearn(log, model, max(standing.period.specs)))


def unlearning(log: Log, model: str) -> int:
    """Return the position of the last request to unlearn that is not carried out yet; 0: there is none."""
    return max((each.position for each in requests_to_unlearn(log, model, _base(log, model).at)), default=0)


def check_not_unlearning(log: Log, model: str) -> None:
    """Refuse what would bring back a version that is about to be withdrawn."""
    position = unlearning(log, model)
    if position:
        what = f"model {model!r} is unlearning a source since position {position}, and withdraws versions"
        raise Contradiction(what, f"wait until `unlearning` of GET /v1/models/{model} is null")


def check_unlearnable(log: Log, transaction: Transaction, model: str) -> None:
    """Refuse to unlearn where the model cannot be rebuilt from the log."""
    generation, through = transaction.require_model(model).generation, _base(log, model).through
    instead = "erase the source without `unlearn`"
    if through >= generation:
        what = f"model {model!r} cannot unlearn: its records up to position {through} were compacted into its base"
        anew = "then `perturank replay --ranker NAME --out FILE` learns anew from the records that are left"
        raise Contradiction(what, f"{instead}; {anew}, and PUT …/file puts that in the model's place")
    for record in log.all_of(model, Imported, generation):
        if isinstance(record.entry, Imported) and not log.names(record.entry.blob):
            what = f"model {model!r} cannot unlearn: the file imported at position {record.position} is not stored"
            raise Contradiction(what, instead)
    in_use = live_tests.versions_in_use(log, model)
    if in_use:
        what = f"model {model!r} cannot unlearn: a live test shows lists of its version {min(in_use)}"
        raise Contradiction(what, "stop the test, or let it show the newest version")


def unlearned_before(log: Log, model: str, source: str) -> int:
    """Return the position of an earlier request to unlearn a source, if another would change nothing; else 0."""
    seal = source_seal(source, log.secret)
    earlier = [
        each for each in requests_to_unlearn(log, model) if isinstance(each.entry, Erased) and each.entry.source == seal
    ]
    if not earlier:
        return 0
    position = earlier[-1].position
    return 0 if has_records_of(log, model, source, position) else position


def is_known(log: Log, model: str, source: str, tests: Iterable[str] = ()) -> bool:
    """Return whether a model, or one of these tests, has or had records of a source: an erasure was asked for, then."""
    seal = source_seal(source, log.secret)
    if any(isinstance(each.entry, Erased) and each.entry.source == seal for each in log.all_of(model, Erased)):
        return True
    return has_records_of(log, model, source) or bool(tests_with(log, source, tests))


def unknown_source(source: str) -> NotKnown:
    """Return the refusal to unlearn a source that nobody has named."""
    return NotKnown(f"no record names the source {source[:80]!r}, so there is nothing to unlearn", "check its spelling")


def has_records_of(log: Log, model: str, source: str, after: int = 0) -> bool:
    """Return whether a list or feedback of a model, or of a test, names a source after a position."""
    seal = source_seal(source, log.secret)
    erased = ErasedSources([Record(log.tail(), 0, model, None, Erased(seal))], log.secret)
    return any(map(erased.name, log.read(after, model=model)))


def tests_with(log: Log, source: str, tests: Iterable[str]) -> list[str]:
    """Return those of these tests in which a list or feedback names a source."""
    return [test for test in tests if has_records_of(log, live_tests.stream(test), source)]


def _base(log: Log, model: str) -> Compacted:
    """Return the record of a model's base; one that contains nothing if there is none."""
    found = (record.entry for record in log.newest(model, Compacted, 1))
    return next((entry for entry in found if isinstance(entry, Compacted)), Compacted(0, 0, 0, 0, b""))
