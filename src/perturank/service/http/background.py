"""Background tasks of a serving process: read the log, close windows, compile, sample certain orders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.to_thread

from perturank.service.http.health import SAMPLING, Health
from perturank.service.serving.models import Program, program
from perturank.service.serving.sampler import Sampler
from perturank.service.serving.service import Service

SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_IN_STEP = 0.01  # where batches have a fixed size, somebody may wait for them
SECONDS_TO_A_CLOSING = 1.0
SECONDS_BETWEEN_SAMPLES = 5.0
COMPILING = "a list cannot be compiled"
ENDED = "a background task has ended"


@asynccontextmanager
async def background_tasks(
    service: Service, health: Health, sampler: Sampler, added: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[None]:
    """Run all tasks, and the one that another program has added, as long as the block runs."""
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
    """Read the new records of the log several times a second, and close windows once a second."""
    # A limiter of its own: requests may use up the threads of the common one.
    closed, pause, own = time.monotonic(), SECONDS_BETWEEN_LOOKS, anyio.CapacityLimiter(1)
    while True:
        with health.watching("the log cannot be read"):
            await anyio.to_thread.run_sync(service.refresh, limiter=own)
            in_step = any(held.spec.batch is not None for held in service.host.all())
            pause = SECONDS_IN_STEP if in_step else SECONDS_BETWEEN_LOOKS
        if time.monotonic() >= closed + SECONDS_TO_A_CLOSING:
            closed = time.monotonic()
            with health.watching("windows cannot be closed"):
                await anyio.to_thread.run_sync(service.close_windows, limiter=own)
        await asyncio.sleep(pause)


async def _sample(service: Service, health: Health, sampler: Sampler) -> None:
    """Sample how certain the orders of the newest queries are, unless something is still to be compiled."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_SAMPLES)
        with health.watching(SAMPLING):
            if not service.settings.compile_first or next(iter(service.host.uncompiled()), None) is None:
                await anyio.to_thread.run_sync(sampler.look)


async def _compile(service: Service, health: Health) -> None:
    """Compile every length of list of every model, one at a time; a failed one is retried after all others."""
    if not service.settings.compile_first:
        return
    failed, own = set[Program](), anyio.CapacityLimiter(1)
    while True:
        todo, is_found = None, False
        with health.watching("what is to be compiled cannot be found"):
            todo = next((each for each in service.host.uncompiled() if program(*each) not in failed), None)
            is_found = True
        if todo is None:
            if is_found and not failed:
                health.works(COMPILING)
                health.compiled()
            failed.clear()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            continue
        try:
            await anyio.to_thread.run_sync(service.host.compile, *todo, limiter=own)
        except Exception as error:  # whatever it is, other models must not wait for this one
            health.fails(COMPILING, error)
            failed.add(program(*todo))
