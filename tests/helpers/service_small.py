"""Small models, impressions and logs that the tests of the service share."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
from starlette.testclient import TestClient

from perturank.core import Query
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.log import Log, live_tests, snapshots
from perturank.service.log.feedback import close_windows, record_feedback
from perturank.service.log.records import Changed, Drafted, Entry, Impression, Snapshot, new_id, packed
from perturank.service.log.spec import Spec, checked_spec
from perturank.service.settings import Retention
from perturank.wire.live_tests import LiveTest
from perturank.wire.specification import SpecRequest

N_FEATURES = 5
PLACES = 4
IDS = ["a", "b", "c", "d"]
SECONDS = 60.0
NOTHING = Retention(impressions=0)  # is kept


def request(ranker: str = "pdgd-linear", **changes: Any) -> SpecRequest:
    """Return a request for a model of 5 features and 4 places; networks have 4 units."""
    settings = changes.pop("settings", {})
    if ranker.startswith(("p2neur", "p2head")):
        settings = {"widths": [4], "budget": 32} | settings
    changes = {"scaling": "none"} | changes
    return SpecRequest(n_features=N_FEATURES, ranker=ranker, settings=settings, places=PLACES, **changes)


def spec(ranker: str = "pdgd-linear", **changes: Any) -> Spec:
    """Return that model."""
    return checked_spec(request(ranker, **changes))


def rows(n: int = 4, seed: int = 0) -> np.ndarray:
    """Return n random documents."""
    return np.random.default_rng(seed).uniform(-1, 1, (n, N_FEATURES)).astype(np.float32)


def impression(seed: int = 0, *, generation: int = 1, source: str | None = None, **changes: Any) -> Impression:
    """Return a list of four documents a, b, c, d, shown by a ranker without a memo."""
    values: dict[str, Any] = {"version": 0, "mode": "learn", "ids": IDS, "log_propensity": -1.0} | changes
    return Impression(generation, packed=packed(rows(seed=seed), None, []), source=source, **values)


def created(log: Log, model: str = "m", **changes: Any) -> int:
    """Create a model and return the position."""
    with log.transaction() as transaction:
        return transaction.append(model, Changed(0, spec(**changes)))


def shown(log: Log, entry: Impression | None = None, model: str = "m", name: bytes | None = None) -> bytes:
    """Log an impression and return its name."""
    name = name or new_id(log.tail())
    with log.transaction() as transaction:
        transaction.append(model, entry or impression(), name)
    return name


def served(
    log: Log,
    spec: Spec,
    seed: int,
    model: str = "m",
    generation: int = 1,
    name: bytes | None = None,
    **changes: Any,
) -> bytes:
    """Show a list that the fresh ranker of this spec draws, memo included, and return its name."""
    ranking = spec.start().rank(Query.of(rows(6, seed)), jax.random.key(seed), PLACES)
    memo = [np.asarray(leaf) for leaf in jax.tree.leaves(ranking.memo)]
    content = packed(rows(6, seed)[ranking.documents], None, memo)
    ids = [f"d{row}" for row in ranking.documents]
    values: dict[str, Any] = {"version": 0, "mode": "learn", "ids": ids, "log_propensity": None} | changes
    return shown(log, Impression(generation, packed=content, **values), model, name)


def clicked(log: Log, name: bytes, place: int | None, model: str = "m") -> None:
    """Give the last word on an impression: a click at this place, or none."""
    with log.transaction() as transaction:
        entry = transaction.about(name)[0].entry
        assert isinstance(entry, Impression)
        record_feedback(transaction, model, name, [] if place is None else [entry.ids[place]], True)


def lived(
    log: Log, spec: Spec, n: int, start: int = 0, model: str = "m", generation: int = 1, **changes: Any
) -> list[bytes]:
    """Show n lists, each with a click somewhere; return their names."""
    names = [served(log, spec, seed, model, generation, **changes) for seed in range(start, start + n)]
    for seed, name in enumerate(names, start):
        clicked(log, name, seed % PLACES, model)
    return names


def closed(log: Log, model: str = "m") -> None:
    """Close the windows of all impressions so far: nothing waits for more events."""
    with log.transaction() as transaction:
        close_windows(transaction, model, log.tail())


def learned(log: Log, spec: Spec, n_versions: int, start: int = 0, **changes: Any) -> Learner:
    """Publish so many versions, three impressions each, whose windows are closed; return the learner."""
    learner = Learner(log)
    for turn in range(n_versions):
        lived(log, spec, 3, start + 3 * turn, **changes)
        closed(log, changes.get("model", "m"))
        assert learner.step() == 3
    return learner


def begun_test(log: Log) -> int:
    """Begin a live test t of the model m, which is created, and return where."""
    created(log)
    with log.transaction() as transaction:
        live_tests.put(transaction, "t", LiveTest(("m", "own"), actions={"click": 1.0}, window=60.0))
    return live_tests.required(log, "t").since


def counted_in_test(log: Log, since: int, n: int = 1, source: str | None = None) -> None:
    """Show n lists of the test t, whose windows close."""
    with log.transaction() as transaction:
        for _ in range(n):
            drafted = Drafted([0, 1, 0, 1], [since, 1, 0], [0, 0], True, [], -1)
            entry = Impression(0, 0, "test", IDS, None, b"", source, drafted=drafted)
            transaction.append(live_tests.stream("t"), entry, new_id(log.tail()))
    close = live_tests.closing(log, "t", log.tail())
    with log.transaction() as transaction:
        close(transaction)


def bits(learner: Learner, model: str = "m") -> bytes:
    """Return the digest of what a learner has learned."""
    ranker = learner.states[model].ranker
    assert ranker is not None
    return snapshots.digest(ranker, whole=True)


def append(log: Log, *entries: Entry) -> None:
    """Write these of the model m."""
    with log.transaction() as transaction:
        for entry in entries:
            transaction.append("m", entry)


def versions(log: Log) -> list[int]:
    """Return the numbers of all versions."""
    return [record.entry.version for record in log.control_records() if isinstance(record.entry, Snapshot)]


def n_impressions(log: Log) -> int:
    """Return how many lists the log holds."""
    return sum(isinstance(record.entry, Impression) for record in log.read())


def forget_state(log: Log) -> None:
    """Take away what the learner has stored of the model m."""
    with log.transaction() as transaction:
        transaction.remove(snapshots.state_name("m"))


def must_be_learned_anew(log: Log, waiting: bytes) -> None:
    """See that a list which waits for clicks is learned by a learner that begins at the base, to the same bits."""
    forget_state(log)
    learner = Learner(log)
    clicked(log, waiting, 1)
    assert learner.step() == 1
    assert rebuild(log, "m").differs is None


def wait_until_ready(http: TestClient) -> None:
    """Wait until every list is drawn by its model."""
    end = time.monotonic() + SECONDS
    while http.get("/readyz").json()["status"] != "ready":
        assert time.monotonic() < end
        time.sleep(0.01)
