"""A simulation through a running service: the user is simulated here, the service ranks and learns.

Queries, clicks and draws come from the same streams of keys as in `simulation`, so that a service
that learns in step goes through the same lists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank import metrics, storage
from perturank.client import Client
from perturank.core import QUERIES, USERS, Array, ClickModel, Key, Ranker, streams
from perturank.errors import BadInput
from perturank.evaluation import Doubts, Exam, OrderExam
from perturank.runs import Checkpoint
from perturank.simulation import Plan, drawn_query

SECONDS_BETWEEN_LOOKS = 0.005
SECONDS_TO_LEARN = 60.0


@dataclass
class RemoteRun:
    """The outcome of a simulation through a service; `behind` says by how many rounds each list's version lagged."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    ndcgs: list[float] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    seconds: float = 0.0
    random_ndcg: float = float("nan")

    def as_dict(self, top: int) -> dict[str, Any]:
        """Return plain values, for JSON; the service does not report regret."""
        rows = [
            {"round": c.round, f"ndcg@{top}": c.ndcg, "cumulative_ndcg": c.cumulative_ndcg, "regret": None}
            | {"uncertain": c.uncertain, "certain_wrong": c.certain_wrong, "seconds": c.seconds}
            for c in self.checkpoints
        ]
        return {
            "rounds": len(self.ndcgs),
            "checkpoints": rows,
            "random_ndcg": self.random_ndcg,
            "rounds_per_second": len(self.ndcgs) / self.seconds,
            "mean_rounds_behind": float(np.mean(self.behind)),
        }


@eqx.filter_jit
def _draw_clicks(
    user: ClickModel,
    judged: np.ndarray,
    grades: np.ndarray,
    mask: np.ndarray,
    ideal: np.float32,
    key: Key,
    t: np.int32,
) -> tuple[Array, Array]:
    """Return the clicks on a list, and its NDCG."""
    real = jnp.asarray(mask)
    clicks = user.click(jnp.asarray(judged), real, jax.random.fold_in(key, t))
    return clicks, metrics.ndcg(jnp.asarray(grades), real, jnp.asarray(ideal))


class _RemoteUser:
    """The plan's user in front of the service: searches, sees a list, clicks."""

    def __init__(self, plan: Plan, client: Client, model: str) -> None:
        self._plan, self._client, self._model = plan, client, model
        data, keys = plan.fold.train, streams(plan.seed)
        self._features, self._labels, self._offsets = data.features, np.asarray(data.labels), np.asarray(data.offsets)
        self._ideals = metrics.ideal_dcgs(self._labels, self._offsets, plan.top)
        self._key, self._judged = keys[USERS], plan.judged
        draw = jax.vmap(lambda t: drawn_query(keys[QUERIES], t, data.n_queries, data.head))
        self._queries = np.asarray(jax.jit(draw)(jnp.arange(1, plan.rounds + 1)))  # as the simulation draws them

    def search(self, t: int) -> tuple[float, int]:
        """Rank the query of round t and click; return the list's NDCG and the version that drew it."""
        top, judged, q = self._plan.top, self._judged, int(self._queries[t - 1])
        first, last = int(self._offsets[q]), int(self._offsets[q + 1])
        ids = [str(row) for row in range(first, last)]
        rows = np.asarray(self._features[first:last], np.float32)
        shown = self._client.rank_arrays(ids, rows, model=self._model, top=top, draw=t)
        order = np.array([int(name) for name in shown.ids])
        mask = np.arange(top) < len(order)
        grades, seen = np.zeros(top, np.int32), np.zeros(top, judged.dtype)
        grades[mask], seen[mask] = self._labels[order], judged[order]
        ideal = np.float32(self._ideals[q])
        clicks, ndcg = _draw_clicks(self._plan.user, seen, grades, mask, ideal, self._key, np.int32(t))
        clicked = [shown.ids[place] for place in np.flatnonzero(np.asarray(clicks)[: len(order)])]
        self._client.feedback(shown.impression, clicked, model=self._model, final=True)
        return float(ndcg), shown.version


class _Examiner:
    """Measures the served ranker on held-out queries."""

    def __init__(self, plan: Plan) -> None:
        held_out = getattr(plan.fold, plan.evaluate_on)
        self._top, self._doubts = plan.top, Doubts.of(plan.fold.train)
        self._exam, self._order_exam = Exam.of(held_out, plan.seed), OrderExam.of(held_out)

    def random_ndcg(self) -> float:
        """Return the NDCG of random lists."""
        return self._exam.random_ndcg(self._top)

    def checkpoint(self, t: int, ranker: Ranker, run: RemoteRun) -> Checkpoint:
        """Return what is known of the run after round t."""
        return Checkpoint(
            round=t,
            ndcg=self._exam.ndcg(ranker, self._top),
            cumulative_ndcg=float(metrics.cumulative_ndcg(run.ndcgs)[-1]),
            regret=0.0,
            uncertain=self._doubts.share(ranker),
            seconds=run.seconds,
            certain_wrong=self._order_exam.orders(ranker).certain_wrong,
        )


def simulate_through(
    plan: Plan,
    client: Client,
    model: str,
    *,
    in_step: bool = True,
    on_progress: Callable[[int], None] | None = None,
) -> RemoteRun:
    """Let the plan's user search through the service; in step: each batch is learned before the next list."""
    plan.user.check(plan.judged)
    _put_model(plan, client, model, in_step)
    user, examiner, versions = _RemoteUser(plan, client, model), _Examiner(plan), _Versions(client, model)
    run = RemoteRun(random_ndcg=examiner.random_ndcg())
    for t in range(1, plan.rounds + 1):
        began = time.perf_counter()
        if in_step and (t - 1) % plan.batch == 0:
            versions.wait_for(t - 1)
        ndcg, version = user.search(t)
        run.ndcgs.append(ndcg)
        run.behind.append(t - 1 - versions.learned_by(version))
        run.seconds += time.perf_counter() - began
        if t in plan.stops:
            if in_step:
                versions.wait_for(t)
            run.checkpoints.append(examiner.checkpoint(t, _served_ranker(client, model), run))
        if on_progress is not None:
            on_progress(1)
    return run


def _put_model(plan: Plan, client: Client, model: str, in_step: bool) -> None:
    """Make the model; what an earlier run has taught it would spoil this one."""
    spec: dict[str, Any] = {
        "n_features": plan.fold.n_features,
        "ranker": plan.ranker,
        "settings": plan.settings.as_dict(),
        "places": plan.top,
        "seed": plan.seed,
        "chance": "seeded",
        "scaling": "none",  # as in a simulation
        "batch": plan.batch if in_step else None,
    }
    made = client.put_model(model, **{name: value for name, value in spec.items() if value is not None})
    if made["learned"]:
        raise BadInput(f"model {model!r} has learned from {made['learned']} lists", "name another with --model")


class _Versions:
    """How much the versions of a model have learned."""

    def __init__(self, client: Client, model: str) -> None:
        self._client, self._model = client, model
        self._learned = {0: 0}

    def learned_by(self, version: int) -> int:
        """Return how many lists this version has learned from."""
        if version not in self._learned:
            self._look()
        return max(n for known, n in self._learned.items() if known <= version)  # it may be gone already

    def wait_for(self, n: int) -> None:
        """Wait until a version that has learned so many lists is served."""
        for _ in self._looks():
            if self._look() >= n:
                return
        raise BadInput(f"the service has not learned {n} lists in {SECONDS_TO_LEARN:g} s", "is a learner at work?")

    def _looks(self) -> Iterator[None]:
        end = time.monotonic() + SECONDS_TO_LEARN
        while time.monotonic() < end:
            yield
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _look(self) -> int:
        said = self._client.model(self._model)
        self._learned[said["version"]] = said["learned"]
        return int(said["learned"])


def _served_ranker(client: Client, model: str) -> Ranker:
    """Return the model's ranker as it is served now."""
    arrays, header = storage.unpacked(client.file(model, history=False), f"the file of model {model!r}")
    return storage.restored(arrays, header, model)
