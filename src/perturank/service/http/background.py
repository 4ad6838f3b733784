"""What runs beside the answers: taking in what is new, closing windows, compiling, sampling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.to_thread

from perturank.service.hosting import Program, program
from perturank.service.http.health import SAMPLING, Health
from perturank.service.sampler import Sampler
from perturank.service.service import Service

SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_IN_STEP = 0.01  # where batches have a fixed size, somebody may wait for them
SECONDS_TO_A_CLOSING = 1.0
SECONDS_BETWEEN_SAMPLES = 5.0
COMPILING = "a list cannot be compiled"
ENDED = "something beside the answers has ended"


@asynccontextmanager
async def work(
    service: Service, health: Health, sampler: Sampler, added: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[None]:
    """Do all of it while the block runs, and what another program has added."""
    all_of_it = (_look(service, health), _compile(service, health), _sample(service, health, sampler))
    more = [] if added is None else [added()]
    tasks = [asyncio.ensure_future(_told(health, each)) for each in (*all_of_it, *more)]
    yield
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _told(health: Health, work: Awaitable[None]) -> None:
    """Do it; if it fails for good, say so: nobody waits for it before the service ends."""
    try:
        await work
    except Exception as error:
        health.fails(ENDED, error)


async def _look(service: Service, health: Health) -> None:
    """Take in what is new several times a second, and close windows now and then."""
    closed, pause, own = time.monotonic(), SECONDS_BETWEEN_LOOKS, anyio.CapacityLimiter(1)  # requests may use up theirs
    while True:
        with health.noting("the log cannot be read"):
            await anyio.to_thread.run_sync(service.refresh, limiter=own)
            in_step = any(held.spec.batch is not None for held in service.host.all())
            pause = SECONDS_IN_STEP if in_step else SECONDS_BETWEEN_LOOKS
        if time.monotonic() >= closed + SECONDS_TO_A_CLOSING:
            closed = time.monotonic()
            with health.noting("windows cannot be closed"):
                await anyio.to_thread.run_sync(service.close_windows, limiter=own)
        await asyncio.sleep(pause)


async def _sample(service: Service, health: Health, sampler: Sampler) -> None:
    """Ask now and then how certain the orders of the newest queries are, when there is nothing more urgent."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_SAMPLES)
        with health.noting(SAMPLING):
            if not service.settings.compile_first or next(iter(service.host.uncompiled()), None) is None:
                await anyio.to_thread.run_sync(sampler.look)


async def _compile(service: Service, health: Health) -> None:
    """Compile every length of list of every model, one at a time; what fails is tried again after all others."""
    if not service.settings.compile_first:
        return
    failed, own = set[Program](), anyio.CapacityLimiter(1)
    while True:
        todo, is_found = None, False
        with health.noting("what is to be compiled cannot be found"):
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
