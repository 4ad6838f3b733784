"""Group commit: one thread writes, and requests that come while the disk is busy share the next flush."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from perturank.errors import BadInput
from perturank.service.log import Log, Transaction
from perturank.service.log.refusals import LogFull, NotReady

T = TypeVar("T")
MOST_AT_ONCE = 256
MOST_WAITING = 4096  # a few seconds of backlog; beyond it requests are refused, since clients would time out anyway
SECONDS_BUSY = 0.015  # since the last flush: then more is on its way
SECONDS_TO_GATHER = 0.008

Action = Callable[[Transaction], T]


class QueuedAction(NamedTuple):
    """An action that has not run yet, the impressions that it reads, and a callback for when it is durable."""

    action: Action[Any]
    future: Future[Any]
    impressions: Sequence[bytes]
    then: Callable[[Any], None] | None


class Committer:
    """Runs actions in order, many to a transaction; a future is done when its action is durable.

    An action refuses by raising BadInput before it appends anything; the other actions of its transaction still
    succeed. Any other error fails all of them, and nothing is written. If the log is full or cannot be reached, all
    waiting actions fail too, since they would meet the same error.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: queue.SimpleQueue[QueuedAction | None] = queue.SimpleQueue()
        self._is_closed = False
        self._submitting = threading.Lock()  # so that no action is queued after the end
        self._committed = -math.inf
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    def submit(
        self,
        action: Action[T],
        impressions: Sequence[bytes] = (),
        then: Callable[[T], None] | None = None,
    ) -> Future[T]:
        """Queue an action and return its future; `impressions` are prefetched for it.

        `then` is called with the result when it is durable, even if nobody waits for the future any more.
        """
        future: Future[T] = Future()
        with self._submitting:
            if self._is_closed:
                raise NotReady("the service is stopping", "send it again in a moment")
            if self._waiting.qsize() >= MOST_WAITING:
                raise NotReady("too many requests wait for the log", "send it again in a moment")
            self._waiting.put(QueuedAction(action, future, impressions, then))
        return future

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        with self._submitting:
            self._is_closed = True
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            group, stopping = self._group()
            if group:
                self._commit(group)
                self._committed = time.monotonic()

    def _group(self) -> tuple[list[QueuedAction], bool]:
        """Return what is waiting, at least one, and whether to stop after it."""
        first = self._waiting.get()
        if first is None:
            return [], True
        if time.monotonic() - self._committed < SECONDS_BUSY:
            time.sleep(SECONDS_TO_GATHER)  # one flush for all that arrive meanwhile costs less than one for each
        group = [first]
        with contextlib.suppress(queue.Empty):
            while len(group) < MOST_AT_ONCE:
                item = self._waiting.get_nowait()
                if item is None:
                    return group, True
                group.append(item)
        return group, False

    def _rest(self) -> list[QueuedAction]:
        """Return all that waits."""
        found = [self._waiting.get() for _ in range(self._waiting.qsize())]
        if None in found:  # the end of the queue
            self._waiting.put(None)
        return [each for each in found if each is not None]

    def _commit(self, group: list[QueuedAction]) -> None:
        results: list[tuple[QueuedAction, Any]] = []
        refused: list[tuple[Future[Any], BadInput]] = []
        try:
            with self._log.transaction() as transaction:
                asked = [name for each in group for name in each.impressions]
                if asked:
                    transaction.prefetch(asked)
                for each in group:
                    try:
                        results.append((each, each.action(transaction)))
                    except BadInput as refusal:
                        refused.append((each.future, refusal))
        except BaseException as failure:
            for each in [*group, *(self._rest() if isinstance(failure, NotReady | LogFull) else [])]:
                _settle(each.future, error=failure)
            return
        for each, result in results:
            if each.then is not None:
                each.then(result)
            _settle(each.future, result)
        for future, reason in refused:
            _settle(future, error=reason)


def _settle(future: Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    if not future.set_running_or_notify_cancel():  # the client has disconnected
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
