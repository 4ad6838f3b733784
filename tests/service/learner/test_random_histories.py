"""Whatever happens to a model, in whatever order, and whenever its learner dies: replay comes to the same bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from helpers.clicking import Say
from helpers.service_small import IDS, PLACES, bits, forget_state

from perturank.service.learner import retention
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes, snapshots
from perturank.service.log.feedback import close_windows, record_feedback, settle
from perturank.service.log.generations import generations
from perturank.service.log.records import CurrentModel, Event, Impression, new_id, packed
from perturank.service.log.refusals import Contradiction, NotKnown
from perturank.service.log.spec import checked_spec, patched
from perturank.service.settings import Retention
from perturank.wire.specification import Feature, ShownMode, SpecRequest

NAMES = ["a", "b", "c"]
WIDEST = 6  # columns: each feature that is added is one more, with programs of its own
SOURCES = ["alice", "bob", None]
MODES: list[ShownMode] = ["learn", "own", "shadow"]


class History:
    """What chance does to one model."""

    def __init__(self, log: Log, seed: int) -> None:
        self.log, self.chance, self.shown = log, random.Random(seed), list[bytes]()
        features = tuple(map(Feature, NAMES))
        with log.transaction() as transaction:
            asked = SpecRequest(n_features=len(NAMES), ranker="p2linrank", places=PLACES, features=features)
            changes.put(transaction, "m", checked_spec(asked))
        self.learner = Learner(log)

    def go_on(self, n: int) -> None:
        """Let n things happen."""
        likely: dict[Callable[[], None], float] = {
            self.show: 30,
            self.say: 30,
            self.settle: 10,
            self.close: 4,
            self.change_features: 2,
            self.begin_anew: 1,
            self.restore: 2,
            self.roll_back: 3,
            self.erase: 1.5,
            self.unlearn: 1.5,
            self.compact: 1,
            self.step: 16,
            self.die: 4,
            self.stop: 2,
        }
        for act in self.chance.choices(list(likely), list(likely.values()), k=n):
            act()

    @property
    def model(self) -> CurrentModel:
        """The model as it is now."""
        with self.log.transaction() as transaction:
            return transaction.require_model("m")

    def show(self) -> None:
        """Show a list of features on different scales, some missing, with a prior or without."""
        generation, n = self.model.generation, self.model.spec.n_features
        numbers = np.random.default_rng(self.chance.randrange(10**6))
        rows = (numbers.normal(size=(len(IDS), n)) * 10.0 ** (np.arange(n) % 3)).astype(np.float32)
        rows[0, 0] = self.chance.choice([rows[0, 0], np.nan])
        prior = self.chance.choice([None, numbers.normal(size=len(IDS)).astype(np.float32)])
        mode = self.chance.choice(MODES)
        source = self.chance.choice(SOURCES)
        entry = Impression(generation, 0, mode, IDS, -1.0, packed=packed(rows, prior, []), source=source)
        self.shown.append(new_id(self.log.tail()))
        with self.log.transaction() as transaction:
            transaction.append("m", entry, self.shown[-1])

    def say(self) -> None:
        """Click, buy, look, or say nothing, of any list so far."""
        if self.shown:
            clicks = [self.chance.choice(IDS)] * self.chance.randrange(2)
            events = [Event(self.chance.choice(IDS), "purchase")] * self.chance.randrange(2)
            final, seen = self.chance.random() < 0.3, self.chance.choice([0, 0, 2, 4])
            with self.log.transaction() as transaction:
                name = self.chance.choice(self.shown)
                record_feedback(transaction, "m", name, clicks, final, events=events, seen=seen)

    def settle(self) -> None:
        """Let some lists settle."""
        with self.log.transaction() as transaction:
            settle(transaction, "m", [name for name in self.shown if self.chance.random() < 0.5])

    def close(self) -> None:
        """Close the windows of older lists."""
        with self.log.transaction() as transaction:
            close_windows(transaction, "m", max(0, self.log.tail() - self.chance.randrange(10)))

    def _patch(self, patch: dict[str, object], *, begin_anew: bool = False) -> None:
        with self.log.transaction() as transaction:
            spec = checked_spec(patched(transaction.require_model("m").spec, patch), is_whole=True)
            changes.put(transaction, "m", spec, begin_anew=begin_anew)

    def change_features(self) -> None:
        """Add a feature, drop it, or move them."""
        spec = self.model.spec
        names = [feature.name for feature in spec.features or ()]
        if len(names) > len(NAMES):
            names = names[: len(NAMES)]
        elif (spec.width or len(NAMES) + 1) < WIDEST:
            names.append("new")
        else:
            self.chance.shuffle(names)
        self._patch({"features": [{"name": name} for name in names]})

    def begin_anew(self) -> None:
        """Begin to learn anew."""
        self._patch({"seed": self.chance.randrange(1000)}, begin_anew=True)

    def restore(self) -> None:
        """Restore an earlier generation, if one can be."""
        earlier = [each.generation for each in generations(self.log, "m") if not each.refusal]
        if earlier:
            with suppress(Contradiction), self.log.transaction() as transaction:  # while a source is unlearned
                changes.restore(self.log, transaction, "m", self.chance.choice(earlier))

    def roll_back(self) -> None:
        """Roll back to a version, if it can be."""
        found = [each.snapshot.version for each in snapshots.newest(self.log, "m", 20)]
        if found:
            # It may be of another generation, before the base, or about to be withdrawn.
            with suppress(NotKnown, Contradiction), self.log.transaction() as transaction:
                changes.roll_back(self.log, transaction, "m", self.chance.choice(found))

    def erase(self) -> None:
        """Have a source erased."""
        retention.request_erasure(self.log, self.chance.choice(["alice", "bob"]))

    def unlearn(self) -> None:
        """Have a source unlearned, unless the log was compacted, or never heard of it."""
        with suppress(Contradiction, NotKnown):
            retention.request_erasure(self.log, self.chance.choice(["alice", "bob"]), unlearn=True)

    def compact(self) -> None:
        """Compact the log."""
        retention.compact(self.log, "m", Retention(impressions=self.chance.choice([0, 5, 20])))

    def step(self) -> None:
        """Learn."""
        self.learner.step()

    def die(self) -> None:
        """Let another learner take over from one that was killed."""
        self.learner = Learner(self.log)

    def stop(self) -> None:
        """Let another learner take over from one that has stopped."""
        self.learner.close()
        self.die()

    def tidy(self) -> None:
        """Learn and delete all there is."""
        while self.learner.step() or not self.learner.is_tidy:
            pass


@pytest.mark.long
def test_replay_and_a_learner_that_begins_at_the_base_come_to_the_same_bits(
    either: Log, is_long: bool, say: Say
) -> None:
    history = History(either, seed=1)
    for turn in range(50 if is_long else 2):
        history.go_on(50)
        history.tidy()
        report = rebuild(either, "m")
        assert report.differs is None, turn
        assert snapshots.digest(report.ranker, whole=True) == bits(history.learner), turn
        assert list(faults(either)) == [], turn
        forget_state(either)
        history.die()
        history.tidy()
        assert bits(history.learner) == snapshots.digest(report.ranker, whole=True), turn
    if is_long:
        say(f"{either.tail()} records, version {report.newest and report.newest.version}")
