"""Background tasks of a serving process (read the log, complete impressions, compile, sample orders) and its health."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Literal

import anyio
import anyio.to_thread
import equinox as eqx
from starlette.requests import Request
from starlette.responses import Response

from perturank.core import LISTS, Array, CertainOrders, Query, streams
from perturank.service.http.decoding import respond
from perturank.service.log import Transaction
from perturank.service.log.counters import SAMPLED, UNCERTAIN
from perturank.service.serving.models import ProgramKey, program_key
from perturank.service.serving.overview import Overview
from perturank.service.serving.service import Service
from perturank.service.telemetry.logger import logger
from perturank.service.telemetry.prometheus import Metrics
from perturank.wire.answers import Alive, Readiness

SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_IN_STEP = 0.01  # with batches of a fixed size, a client may wait for each version
SECONDS_BETWEEN_COMPLETIONS = 1.0
SECONDS_BETWEEN_SAMPLES = 5.0
SECONDS_TO_LEARN_FIRST = 10.0  # for which other lengths wait after a model's first list
COMPILING = "a list cannot be compiled"
ENDED = "a background task has ended"
MOST_DOCUMENTS = 128  # pairs grow with the square: of a longer query only the first are sampled
DAMAGED = "a stored version is damaged or gone, and another one serves"
SAMPLING = "the certain orders of queries cannot be sampled"
HARMLESS = frozenset((SAMPLING,))  # serving does not depend on it


@asynccontextmanager
async def background_tasks(
    service: Service, health: Health, sampler: Sampler, added: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[None]:
    """Run all background tasks, and one that another program has added, while the block runs."""
    ours = (_refresh(service, health), _compile(service, health), _sample(service, health, sampler))
    more = [] if added is None else [added()]
    tasks = [asyncio.ensure_future(_supervise(health, each)) for each in (*ours, *more)]
    yield
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _supervise(health: Health, task: Awaitable[None]) -> None:
    """Run a task, and report an exception that ends it: nobody awaits the task before the service ends."""
    try:
        await task
    except Exception as error:
        health.fails(ENDED, error)


async def _refresh(service: Service, health: Health) -> None:
    """Read the new records of the log several times a second; settle events and close windows once a second."""
    # A limiter of its own: requests may use up the threads of the common one.
    completed, pause, own = time.monotonic(), SECONDS_BETWEEN_LOOKS, anyio.CapacityLimiter(1)
    while True:
        with health.watching("the log cannot be read"):
            await anyio.to_thread.run_sync(service.refresh, limiter=own)
            in_step = any(loaded.spec.batch is not None for loaded in service.models.all())
            pause = SECONDS_IN_STEP if in_step else SECONDS_BETWEEN_LOOKS
        if time.monotonic() >= completed + SECONDS_BETWEEN_COMPLETIONS:
            completed = time.monotonic()
            with health.watching("events cannot be settled, or windows closed"):
                await anyio.to_thread.run_sync(service.complete_impressions, limiter=own)
        await asyncio.sleep(pause)


async def _sample(service: Service, health: Health, sampler: Sampler) -> None:
    """Sample how certain the orders of the newest queries are, unless something is still to be compiled."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_SAMPLES)
        with health.watching(SAMPLING):
            if not service.settings.compile_first or next(iter(service.models.uncompiled()), None) is None:
                await anyio.to_thread.run_sync(sampler.sample)


async def _compile(service: Service, health: Health) -> None:
    """Compile the lengths of lists that were asked for, and then all others, one at a time.

    One that fails is retried after all others. Without `compile_first` only those asked for are compiled.
    """
    failed, own, first_lists = set[ProgramKey](), anyio.CapacityLimiter(1), dict[str, float]()
    await anyio.to_thread.run_sync(lambda: streams(0)[LISTS], limiter=own)  # what every model needs
    while True:
        todo, is_found = None, False
        with health.watching("what is to be compiled cannot be found"):
            waits = _is_first_lesson_due(service, first_lists)
            uncompiled = service.models.uncompiled(only_wanted=waits or not service.settings.compile_first)
            todo = next((each for each in uncompiled if program_key(*each) not in failed), None)
            is_found = not waits
        if todo is None:
            if is_found and not failed:
                health.works(COMPILING)
                health.compiled()
            failed.clear()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            continue
        try:
            await anyio.to_thread.run_sync(service.models.compile, *todo, limiter=own)
        except Exception as error:  # whatever it is, other models must not wait for this one
            health.fails(COMPILING, error)
            failed.add(program_key(*todo))


def _is_first_lesson_due(service: Service, first_lists: dict[str, float]) -> bool:
    """Return whether a model has just shown its first list, and has no version yet.

    The learner compiles too. With the processors to itself it has a first version in two thirds of the time.
    """
    now, due = time.monotonic(), False
    for loaded in service.models.all():
        if not loaded.published and service.models.recent.newest(loaded.name) is not None:
            due |= now < first_lists.setdefault(loaded.name, now) + SECONDS_TO_LEARN_FIRST
    return due


@eqx.filter_jit
def _uncertain(ranker: CertainOrders, query: Query) -> Array:
    return ranker.uncertain(query)


class Sampler:
    """Counts the uncertain pairs of each model's newest query."""

    def __init__(self, service: Service) -> None:
        self._service, self._recent = service, service.models.recent
        self._looked: dict[str, int] = {}

    def sample(self) -> None:
        """Sample one query of every model that has a new one since the last call."""
        for loaded in self._service.models.all():
            newest = self._recent.newest(loaded.name)
            if newest is None or len(newest.ids) < 2 or newest.number == self._looked.get(loaded.name):
                continue
            self._looked[loaded.name] = newest.number
            if newest.features.shape[1] != loaded.spec.n_features or not isinstance(loaded.ranker, CertainOrders):
                continue
            prior = None if newest.prior is None else newest.prior[:MOST_DOCUMENTS]
            try:
                query = Query.of(newest.features[:MOST_DOCUMENTS], prior=prior, may_miss=True)
                share = float(_uncertain(loaded.ranker, query))
            except (RuntimeError, MemoryError) as error:  # of JAX: serving does not depend on this number
                logger.warning("the certain orders of a query of model %r cannot be sampled: %s", loaded.name, error)
                continue
            self._add(loaded.name, share)

    def _add(self, model: str, share: float) -> None:
        def write(transaction: Transaction) -> None:
            transaction.require_model(model)
            transaction.counters.add(model, {SAMPLED: 1, UNCERTAIN: share})

        self._service.committer.submit(write)


class Health:
    """Endpoints of liveness, readiness and metrics, and what fails in the background."""

    def __init__(self, overview: Overview, metrics: Metrics) -> None:
        self._service, self._overview, self._metrics = overview.service, overview, metrics
        self._failing: dict[str, str] = {}
        self._has_been_ready = False

    @contextmanager
    def watching(self, what: str) -> Iterator[None]:
        """Report a failure of the block, under this description, until it succeeds; serving goes on meanwhile."""
        try:
            yield
        except Exception as error:  # whatever it is, it is reported here and the block is retried
            self.fails(what, error)
        else:
            self.works(what)

    def fails(self, what: str, error: Exception) -> None:
        """Note a failure; only the first in a row is logged."""
        if what not in self._failing:
            logger.error("%s", what, exc_info=error)
        self._failing[what] = f"{what}: {error}"

    def works(self, what: str) -> None:
        """Note that this works, or works again."""
        if self._failing.pop(what, None) is not None:
            logger.info("no longer: %s", what)

    def compiled(self) -> None:
        """Note that everything was compiled once: what comes later is compiled while the rest is served."""
        self._has_been_ready = True

    @property
    def failing(self) -> list[str]:
        """What fails now, for those who may know why."""
        return list(self._failing.values())

    async def alive(self, request: Request) -> Response:
        """Answer as long as the process does."""
        return respond(request, Alive(status="alive"))

    async def ready(self, request: Request) -> Response:
        """Answer 200 when every length of list is, or once was, compiled and the log can be read; say what is wrong.

        A change of a model reaches all processes at once: were they unready then, nobody would serve any model.
        """
        todo = sum(1 for _ in self._service.models.uncompiled()) if self._service.settings.compile_first else 0
        damaged = any(loaded.fault is not None for loaded in self._service.models.all())
        is_failing = bool(self._failing.keys() - HARMLESS)
        status: Literal["ready", "compiling", "failing"] = "failing" if is_failing else "compiling" if todo else "ready"
        # Anybody may ask, so the answer names neither the model nor the cause. Log lines and alarms do.
        faults = [*self._failing, *([DAMAGED] if damaged else [])]
        self._has_been_ready |= status == "ready"
        serves = status == "ready" or (status == "compiling" and self._has_been_ready)
        return respond(request, Readiness(status=status, to_compile=todo, faults=faults), 200 if serves else 503)

    async def metrics(self, request: Request) -> Response:
        """Answer with what Prometheus reads."""
        page = await anyio.to_thread.run_sync(self._overview.prometheus, self._metrics)
        return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")
