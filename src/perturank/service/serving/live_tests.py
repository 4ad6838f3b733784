"""Live tests of a serving process: lists of several arms, feedback on them, the winner promoted."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from perturank.interleaving import NOBODY, Draft, team_draft
from perturank.service.log import Transaction, changes, counters, live_tests, snapshots
from perturank.service.log.candidates import own_order
from perturank.service.log.erasure import check_not_unlearning, unlearned_since
from perturank.service.log.feedback import Status, record_feedback
from perturank.service.log.live_tests import ArmOf, name_in_model, stream
from perturank.service.log.records import (
    Changed,
    Drafted,
    Event,
    Impression,
    LiveTestChanged,
    Snapshot,
    layout_change,
    new_id,
    packed,
    probability,
    rearranged,
    sign_id,
    verify_id,
)
from perturank.service.log.refusals import Contradiction, NotKnown, NotReady, Refused
from perturank.service.log.spec import Spec, can_forget
from perturank.service.serving import sampling
from perturank.service.serving.models import LoadedModel, LoadedTest
from perturank.service.serving.sampling import SampledList
from perturank.service.serving.service import Pages, ServedList, Service
from perturank.wire.live_tests import OWN, LiveTest, Promoted
from perturank.wire.requests import ListFeedback
from perturank.wire.specification import ACTIONS, Mode


@dataclass(frozen=True)
class ArmQuery:
    """An arm, and the documents of a request as its model reads them; None: the caller's own order."""

    loaded: LoadedModel | None
    features: np.ndarray | None


class Candidates(NamedTuple):
    """The documents of a request for a test."""

    ids: list[str]
    prior: np.ndarray | None
    arms: list[ArmQuery]


class Copy(NamedTuple):
    """A test's list as one of its models learns from it."""

    loaded: LoadedModel
    features: np.ndarray
    rows: list[int]  # of the documents
    certain: list[bool]
    memo: list[np.ndarray]
    entry: Impression


class LiveTesting:
    """Live tests, on top of a service."""

    def __init__(self, service: Service) -> None:
        self._service, self._log = service, service.log
        self._versions: dict[ArmOf, LoadedModel] = {}  # arms of tests that run, each one version of a model
        self._chance = random.SystemRandom()

    def find(self, test: str) -> LoadedTest:
        """Return a test; refuse an unknown name."""
        if test not in self._service.models.tests:
            self._service.refresh()  # another process may have begun it a moment ago
        found = self._service.models.tests.get(test)
        if found is None:
            raise NotKnown(f"there is no test {test!r}", f"begin it: PUT /v1/tests/{test}")
        return found

    def put(self, test: str, request: LiveTest) -> bool:
        """Begin or change a test; return whether it counts anew."""
        self._service.refresh()
        spec = self._checked(request)
        anew = self._service.committer.submit(lambda transaction: live_tests.put(transaction, test, spec)).result()
        self._service.refresh()
        return anew

    def _checked(self, request: LiveTest) -> LiveTest:
        """Return the request with the actions and the window of its first model; refuse arms that cannot be."""
        if len(set(request.arms)) < len(request.arms):
            raise Refused("an arm is named twice", "give each arm once")
        self._versions = {}  # what was kept of a version may have been withdrawn since
        arms = [self._arm(ArmOf.named(arm)) for arm in request.arms]
        first = next((loaded for loaded in arms if loaded is not None), None)
        if first is None:
            raise Refused("no arm is a model", f"name at least one model beside {OWN!r}")
        if request.actions:
            actions = ACTIONS | request.actions
        else:
            actions = dict(first.spec.actions)
        return msgspec.structs.replace(request, actions=actions, window=request.window or first.spec.window)

    def stop(self, test: str) -> None:
        """Stop a test."""
        self.find(test)
        self._service.committer.submit(lambda transaction: live_tests.stop(transaction, test)).result()
        self._service.refresh()

    def arms(self, test: LoadedTest, pages: Pages | None = None) -> list[LoadedModel | None]:
        """Return what draws the lists of each arm; behind the first page, the versions that drew that."""
        if not test.running:
            raise Contradiction(f"test {test.name!r} was stopped", f"begin it again: PUT /v1/tests/{test.name}")
        found = [self._arm(ArmOf.named(arm)) for arm in test.spec.arms]
        drafted = None if pages is None else pages.last.drafted
        if drafted is None or len(drafted.versions) != len(found):
            return found
        versions = zip(found, drafted.versions, strict=True)
        return [loaded and self._service.models.at_version(loaded, version) for loaded, version in versions]

    def _arm(self, arm: ArmOf) -> LoadedModel | None:
        if arm.model is None:
            return None
        loaded = self._service.models.get(arm.model)
        if arm.version is None or arm.version == loaded.version:
            return loaded
        kept = self._versions.get(arm)
        if kept is None or kept.changed != loaded.changed:
            kept = self._service.models.with_version(loaded, arm.version)
            in_use = self._in_use()
            self._versions = {each: old for each, old in self._versions.items() if each in in_use} | {arm: kept}
        return kept

    def _in_use(self) -> set[ArmOf]:
        """Return the arms of all tests that run."""
        tests = list(self._service.models.tests.values())  # at once: another thread may add one meanwhile
        return {ArmOf.named(arm) for test in tests if test.running for arm in test.spec.arms}

    def wants_program(self, candidates: Candidates) -> bool:
        """Return whether a program that would draw a list is not compiled yet, and let it be compiled."""
        is_missing = False
        for loaded in [arm.loaded for arm in candidates.arms if arm.loaded is not None]:
            length = sampling.padded_length(len(candidates.ids), loaded.spec.places)
            if not self._service.models.is_compiled(loaded, length):
                self._service.models.want(loaded, length)
                is_missing = True
        return is_missing

    def rank(
        self,
        test: LoadedTest,
        candidates: Candidates,
        *,
        top: int | None,
        mode: Mode,
        source: str | None,
        draw: int | None,
        fallback: bool,
        pages: Pages | None = None,
    ) -> Future[ServedList]:
        """Return a future that resolves when the list of a test is durable, for it and for all who learn from it."""
        places = min(arm.loaded.spec.places for arm in candidates.arms if arm.loaded is not None)
        turn = _Turn(test, candidates, top or places, mode, source, draw, pages)
        name = new_id(self._service.tail)
        drafted, draft, drawn = self._drafted(turn, name, fallback)
        ids = [candidates.ids[row] for row in draft.order]
        earlier = [] if pages is None else pages.names
        entry = Impression(
            0, 0, "own" if fallback else "test", ids, None, b"", source, earlier=earlier, drafted=drafted
        )
        copies = list(_copies(turn, drafted, draft, drawn))
        impression = sign_id(name, stream(test.name), self._log.secret)
        shown_by = drafted.teams[0] if test.spec.method == "split" and drafted.counts else None
        one = None if shown_by is None else drawn[shown_by]
        certain = [team == NOBODY for team in drafted.teams] if one is None else one.certain
        propensity = None if one is None else one.log_propensity
        served = ServedList(
            impression,
            ids,
            certain if mode == "learn" else [True] * len(ids),
            None if propensity is None or mode != "learn" else probability(propensity),
            drafted.versions[shown_by or 0],
            0,
            fallback,
        )

        def write(transaction: Transaction) -> list[tuple[str, int]]:
            if transaction.newest(stream(test.name), LiveTestChanged) is None:
                raise NotKnown(f"there is no test {test.name!r}", "begin it again")
            found = [(stream(test.name), transaction.append(stream(test.name), entry, name))]
            contents: dict[tuple[int, tuple[int, ...]], bytes] = {}
            for copy in copies:
                found += _write_copy(transaction, copy, candidates.prior, name, contents)
            return found

        def note(found: list[tuple[str, int]]) -> None:
            for model, position in found:
                self._service.windows.note(model, position)

        return _mapped(self._service.committer.submit(write, then=note), served)

    def _drafted(self, turn: _Turn, name: bytes, fallback: bool) -> tuple[Drafted, Draft, list[SampledList | None]]:
        """Return how the list is made, the list, and the lists behind it where they were drawn."""
        test, arms, n = turn.test, turn.candidates.arms, len(turn.test.spec.arms)
        specs = [test.since, *(0 if arm.loaded is None else arm.loaded.changed for arm in arms)]
        versions = [0 if arm.loaded is None else arm.loaded.version for arm in arms]
        group = -1
        if test.spec.method == "split":
            before = None if turn.pages is None else turn.pages.last.drafted
            key = name if turn.source is None else turn.source.encode()
            goes_on = before is not None and before.group >= 0
            group = before.group if goes_on and before else live_tests.group_of(test.name, key, self._log.secret)
        drawn: list[SampledList | None] = [None] * n
        if fallback:
            draft = Draft(turn.own, [NOBODY] * len(turn.own))
        elif test.spec.method == "split":
            shown = group % n
            drawn[shown] = turn.drawn(shown)
            order = turn.order(drawn[shown])
            draft = Draft(order, [shown] * len(order))
        else:
            drawn = [turn.drawn(arm) for arm in range(n)]
            chance = self._chance if turn.draw is None else random.Random(turn.draw)
            draft = team_draft([turn.order(each) for each in drawn], turn.top, chance)
        learners = [] if fallback else _learners(turn, draft, drawn)
        return Drafted(draft.teams, specs, versions, not fallback, learners, group), draft, drawn

    def feedback(self, test: str, said: ListFeedback) -> Future[Status]:
        """Return a future that resolves to the effect of the feedback when it is durable."""
        self.find(test)
        name = verify_id(said.impression, stream(test), self._log.secret)
        events = [Event(each.id, each.action, each.value) for each in said.events]
        learners: list[str] = []

        def write(transaction: Transaction) -> Status:
            actions = _spec(transaction, test).actions
            status = record_feedback(
                transaction,
                stream(test),
                name,
                said.clicks,
                said.final,
                events=events,
                seen=said.seen or 0,
                actions=actions,
            )
            shown = [record.entry for record in transaction.about(name) if isinstance(record.entry, Impression)]
            arms = self._arms_then(transaction, test, shown)
            learners.extend(_record_copies(transaction, arms, name, shown, said, events))
            return status

        def wait(status: Status) -> None:
            if (said.clicks or events) and not said.final:
                for model in learners:
                    self._service.settling.note(model, name_in_model(name, model))

        return self._service.committer.submit(write, [name], then=wait)

    def _arms_then(self, transaction: Transaction, test: str, shown: Sequence[Impression]) -> tuple[str, ...]:
        """Return the arms of which a list was drafted: the test may have been changed since."""
        drafted, newest = shown[0].drafted if shown else None, transaction.newest(stream(test), LiveTestChanged)
        if drafted is not None and newest is not None and drafted.specs[0] != newest.position:
            newest = next(iter(self._log.newest(stream(test), LiveTestChanged, 1, drafted.specs[0])), None)
        return newest.entry.spec.arms if newest is not None and isinstance(newest.entry, LiveTestChanged) else ()

    def promote(self, test: str, arm: str | None) -> Promoted:
        """Let the first arm's model serve what the winner is, and stop the test; a named arm need not have won."""
        spec, standing = self.find(test).spec, live_tests.required(self._log, test)
        winner = standing.period.winner
        if arm is None and winner is None:
            raise Contradiction(f"test {test!r} has no winner yet", "wait for its verdict, or name the arm to promote")
        name = spec.arms[winner or 0] if arm is None else arm
        if name not in spec.arms:
            raise NotKnown(f"test {test!r} has no arm {name!r}", f"its arms are {', '.join(spec.arms)}")
        if not standing.running:
            remedy = f'begin it again: PUT /v1/tests/{test}; then promote {{"arm": "{name}"}} at once'
            raise Contradiction(f"test {test!r} was stopped", remedy)
        first, chosen = ArmOf.named(spec.arms[0]), ArmOf.named(name)
        if first.model is None:
            raise Refused("the first arm is the caller's own order", f"ask model {chosen.model!r} from now on")
        if arm is None and unlearned_since(self._log, chosen.model, standing):
            what = f"the versions with which {name} has won are withdrawn: its model has unlearned a source since"
            raise Contradiction(what, f'begin the test again, or promote it all the same: {{"arm": "{name}"}}')
        if chosen.model is None:
            raise Refused("the caller's own order has won", "stop the test, and show that order as before")
        if chosen.model != first.model:
            did, undo = self._replace(test, first.model, chosen, name)
        elif chosen.version is not None:
            did, undo = self._pin(test, first.model, chosen.version, name)
        else:
            did, undo = self._pin(test, first.model, None, name)
        self._service.refresh()
        return Promoted(arm=name, model=first.model, did=did, undo=undo)

    def _pin(self, test: str, model: str, version: int | None, arm: str) -> tuple[str, str]:
        """Serve this version of the first arm's model; None: the newest."""
        before = self._service.models.get(model).pinned

        def write(transaction: Transaction) -> None:
            live_tests.check_running(transaction, test)
            changes.pin(self._log, transaction, model, version)
            live_tests.stop(transaction, test, arm)

        self._service.committer.submit(write).result()
        did = "serves its newest version" if version is None else f"version {version} is pinned"
        undo = "DELETE" if before is None else "PUT"
        said = "" if before is None else f' {{"version": {before}}}'
        return did, f"{undo} /v1/models/{model}/pin{said}"

    def _replace(self, test: str, model: str, chosen: ArmOf, arm: str) -> tuple[str, str]:
        """Let a model go on from what another one has learned: a new generation of it, served at once."""
        assert chosen.model is not None
        source = self._arm(chosen)
        assert source is not None
        content = self._service.file_of(source)
        file = changes.read_ranker_file(model, source.spec, content)
        ranker = snapshots.ranker_of(file.content, file.blob)[0]
        version_content = snapshots.version_bytes(ranker, model=model, learned=0)
        digest, checksum = snapshots.digest(ranker), snapshots.checksum(version_content)

        def write(transaction: Transaction) -> str:
            live_tests.check_running(transaction, test)
            for each in (model, source.name):
                check_not_unlearning(self._log, each)
            undo = _restoring(transaction, model)
            now = transaction.require_model(source.name)
            if now.generation != source.generation or now.spec.layout != source.spec.layout:
                raise NotReady(f"model {source.name!r} was changed meanwhile", "promote it again")
            spec = _in_place_of(transaction.require_model(model).spec, file.spec)
            generation = transaction.append(model, Changed(0, spec))
            changes.import_ranker(self._log, transaction, model, file)
            version = changes.last_version(transaction, model) + 1
            transaction.append(model, Snapshot(generation, version, 0, digest, checksum, 0))
            transaction.store(snapshots.version_name(model, version), version_content)
            changes.pin(self._log, transaction, model, None)
            live_tests.stop(transaction, test, arm)
            return undo

        undo = self._service.committer.submit(write).result()
        return f"goes on from version {source.version} of {source.name}", undo


class _Turn(NamedTuple):
    """One request to a test."""

    test: LoadedTest
    candidates: Candidates
    top: int
    mode: Mode
    source: str | None
    draw: int | None
    pages: Pages | None

    @property
    def own(self) -> list[int]:
        """The caller's own order."""
        return own_order(len(self.candidates.ids), self.candidates.prior)[: self.top]

    def drawn(self, arm: int) -> SampledList | None:
        """Return a list that this arm draws; None: it shows the caller's own order."""
        query, n_above = self.candidates.arms[arm], 0 if self.pages is None else len(self.pages.ids)
        if query.loaded is None or query.features is None:
            return None
        program = query.loaded.program
        return sampling.sample_list(
            program, query.features, self.candidates.prior, self.top, draw=self.draw, n_above=n_above
        )

    def order(self, drawn: SampledList | None) -> list[int]:
        """Return the rows of a list as this request shows it."""
        if drawn is None:
            return self.own
        return drawn.order if self.mode == "learn" else drawn.best


def _learners(turn: _Turn, draft: Draft, drawn: Sequence[SampledList | None]) -> list[int]:
    """Return the arms whose models learn from this list: each model once, and versions that stay never."""
    found: dict[str, int] = {}
    spec = turn.test.spec
    for i, (arm, query) in enumerate(zip(spec.arms, turn.candidates.arms, strict=True)):
        if spec.learns == "none" or query.loaded is None or ArmOf.named(arm).version is not None:
            continue
        is_shown_alone = spec.method == "split" and draft.teams[0] == i
        if spec.learns == "own" and (i not in draft.teams or (spec.method == "split" and not is_shown_alone)):
            continue
        sampled = drawn[i]
        is_drawn = sampled is not None and query.loaded.lent is None
        needs_own = bool(sampled.memo) if sampled is not None and is_drawn else query.loaded.spec.needs_own_lists
        if is_shown_alone or not needs_own:
            found.setdefault(query.loaded.name, i)
    return list(found.values())


def _copies(turn: _Turn, drafted: Drafted, draft: Draft, drawn: Sequence[SampledList | None]) -> Iterable[Copy]:
    """Yield the list as each model learns from it: its own documents, or all of them."""
    spec, ids = turn.test.spec, turn.candidates.ids
    for arm in drafted.learners:
        query = turn.candidates.arms[arm]
        assert query.loaded is not None
        assert query.features is not None
        is_own = spec.method == "split" and draft.teams[0] == arm and query.loaded.lent is None
        sampled = drawn[arm] if is_own else None
        teams = zip(draft.order, draft.teams, strict=True)
        rows = [row for row, team in teams if spec.learns == "all" or team in (arm, NOBODY)]
        explores = sampled if turn.mode == "learn" else None
        mode = "test" if sampled is None else turn.mode
        entry = Impression(
            query.loaded.generation,
            query.loaded.version,
            mode,
            [ids[row] for row in rows],
            None if sampled is None else 0.0 if explores is None else explores.log_propensity,
            b"",
            turn.source,
            agreed=None if explores is None else explores.agreed,
        )
        certain = [True] * len(rows) if explores is None else explores.certain
        yield Copy(query.loaded, query.features, rows, certain, [] if explores is None else explores.memo, entry)


def _write_copy(
    transaction: Transaction,
    copy: Copy,
    prior: np.ndarray | None,
    name: bytes,
    contents: dict[tuple[int, tuple[int, ...]], bytes],
) -> list[tuple[str, int]]:
    """Write the list for a model, unless that was deleted; `contents`: what was packed for others."""
    loaded, current = copy.loaded, transaction.find_model(copy.loaded.name)
    if current is None:
        return []
    shown, key = copy.features[copy.rows], (id(copy.features), tuple(copy.rows))
    is_moved = current.generation == loaded.generation and current.spec.layout != loaded.spec.layout
    if is_moved:
        shown = rearranged(shown, layout_change(loaded.spec.layout, current.spec.layout))
    content = contents.get(key)
    if content is None or copy.memo or is_moved:
        content = packed(shown, None if prior is None else prior[copy.rows], copy.memo)
    if not copy.memo and not is_moved:
        contents[key] = content
    transaction.counters.add(loaded.name, counters.list_amounts(copy.entry, copy.certain))
    written = msgspec.structs.replace(copy.entry, packed=content)
    return [(loaded.name, transaction.append(loaded.name, written, name_in_model(name, loaded.name)))]


def _in_place_of(old: Spec, new: Spec) -> Spec:
    """Return the spec of a winner with what belongs to the replaced model: its UBI records and its reaction to drift.

    A challenger that a drift has begun has neither.
    """
    can_react = old.on_drift != "forget" or can_forget(new.ranker)
    return msgspec.structs.replace(new, ubi=old.ubi, on_drift=old.on_drift if can_react else new.on_drift)


def _restoring(transaction: Transaction, model: str) -> str:
    """Return the request that takes a model back to what it is now."""
    generation, newest = transaction.require_model(model).generation, transaction.newest(model, Snapshot)
    if newest is not None and isinstance(newest.entry, Snapshot) and newest.entry.generation == generation:
        return f'POST /v1/models/{model}/restore {{"generation": {generation}}}'
    return f"PUT /v1/models/{model}?begin_anew=true with its spec from before: it had learned nothing"


def _spec(transaction: Transaction, test: str) -> LiveTest:
    newest = transaction.newest(stream(test), LiveTestChanged)
    if newest is None or not isinstance(newest.entry, LiveTestChanged):
        raise NotKnown(f"there is no test {test!r}", f"begin it: PUT /v1/tests/{test}")
    return newest.entry.spec


def _record_copies(
    transaction: Transaction,
    arms: Sequence[str],
    name: bytes,
    shown: Sequence[Impression],
    said: ListFeedback,
    events: Sequence[Event],
) -> list[str]:
    """Write the feedback for each model that learns from the list, as far as it concerns it; return these."""
    found = []
    for model in dict.fromkeys(ArmOf.named(arm).model for arm in arms):
        current = None if model is None else transaction.find_model(model)
        if model is None or current is None:
            continue
        mine = name_in_model(name, model)
        copies = [record.entry.ids for record in transaction.about(mine) if isinstance(record.entry, Impression)]
        if shown and not copies:
            continue  # it does not learn from this list
        ids, actions = set(copies[0]) if copies else None, current.spec.actions
        clicks = [each for each in said.clicks if ids is None or each in ids]
        own = [each for each in events if each.action in actions and (ids is None or each.id in ids)]
        seen = (
            sum(each in ids for each in shown[0].ids[: said.seen]) if ids is not None and said.seen else said.seen or 0
        )
        record_feedback(transaction, model, mine, clicks, said.final, events=own, seen=seen, actions=actions)
        found.append(model)
    return found


def _mapped(future: Future[list[tuple[str, int]]], served: ServedList) -> Future[ServedList]:
    """Return a future of the list, done when the other one is."""
    answer: Future[ServedList] = Future()

    def settle(done: Future[list[tuple[str, int]]]) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is None:
            answer.set_result(served)
        else:
            answer.set_exception(error)

    future.add_done_callback(settle)
    return answer
