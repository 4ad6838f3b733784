"""The learner process: it ends on a signal or with its parent, and compiles the program of the next batch ahead."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from perturank import machine
from perturank.core import LEARNING, Ranker, streams
from perturank.errors import BadInput
from perturank.service import children
from perturank.service.learner import update
from perturank.service.learner.lead import Superseded
from perturank.service.learner.learner import Learner
from perturank.service.learner.state import State
from perturank.service.learner.update import AT_ONCE
from perturank.service.log import Log
from perturank.service.log.refusals import LogFull, NotReady
from perturank.service.settings import LineFormat, Retention
from perturank.service.telemetry.logger import logger, write_to_stderr
from perturank.service.telemetry.tracing import Tracing

SECONDS_TO_TRY_AGAIN = 1.0
SECONDS_BETWEEN_LOOKS = 0.4  # each look may publish a version, which costs as much as fifty updates
A_LOT = 16 * AT_ONCE  # impressions learned by one look; after more, the next look follows at once
SECONDS_FOR_OTHERS = 0.05  # pause between two looks that delete records, so that others can write
SECONDS_IN_STEP = 0.01  # with batches of a fixed size, frequent looks publish no extra versions
SECONDS_TO_A_PROGRAM = 0.05  # between looks while clicks wait for one to be compiled


class Stop:
    """Set by SIGTERM or Ctrl-C; waited for between two steps, and asked for between two records.

    A service lets its learner ignore Ctrl-C, and ends it itself.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        self._event.set()

    def is_set(self) -> bool:
        """Return whether it is time to stop."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Return whether it is time to stop, at the latest after so many seconds."""
        return self._event.wait(seconds)


def learn(
    log: Log,
    *,
    once: bool = False,
    with_parent: bool = False,
    retention: Retention | None = None,
    log_lines: LineFormat = "text",
) -> Learner | None:
    """Learn from the log as it grows; `once`: until there is nothing more to learn."""
    write_to_stderr(log_lines)
    if with_parent:
        children.stay_with_parent()
    stop = Stop()
    while not stop.is_set():
        try:
            if log.try_to_lead():
                return _lead(log, stop, once, retention)
            if once:
                raise BadInput("another learner is at work on this log", "it learns all there is")
        except (LogFull, NotReady, Superseded) as error:
            if once:
                raise
            logger.warning("the learner starts over: %s", error)
        stop.wait(SECONDS_TO_TRY_AGAIN)
    return None


def _lead(log: Log, stop: Stop, once: bool, retention: Retention | None) -> Learner:
    learner, precompiler, tracing = Learner(log, retention, stop.is_set), Precompiler(), Tracing("perturank-learn")
    streams(0)[LEARNING]  # starts JAX, and compiles what every model needs, before there is something to learn
    machine.look_for_garbage_seldom()
    learner.states.load_one_of_each_kind()
    while not stop.is_set():
        if not once:
            learner.catch_up()
            precompiler.look(learner)  # at once for a new model: its first click may be seconds away
        with tracing.span("learn") as attributes:
            n = learner.step(precompiler.holds)
            attributes.update({"perturank.impressions": n} if n else {})
        if once and n == 0 and learner.is_tidy:
            break
        if not once and _rest(learner, stop, _pause(learner, n, precompiler)):
            break
    learner.close()
    tracing.close()
    return learner


def _rest(learner: Learner, stop: Stop, seconds: float) -> bool:
    """Wait for so many seconds, and do housekeeping meanwhile; return whether it is time to stop."""
    end = time.monotonic() + seconds
    while not learner.is_tidy and end - time.monotonic() > SECONDS_FOR_OTHERS:
        if stop.wait(SECONDS_FOR_OTHERS):
            return True
        learner.tidy()
    return stop.wait(max(0.0, end - time.monotonic()))


def _pause(learner: Learner, n: int, precompiler: Precompiler) -> float:
    """Return how long to wait after a look that found so many impressions to learn."""
    pause, many = (SECONDS_IN_STEP, AT_ONCE) if learner.is_in_step else (SECONDS_BETWEEN_LOOKS, A_LOT)
    if any(state.queue and precompiler.holds(state) for state in learner.states.values()):
        pause = min(pause, SECONDS_TO_A_PROGRAM)
    return pause if n < many else 0.0


class Precompiler:
    """Compiles, in a thread of its own, the program that a model will need next."""

    def __init__(self) -> None:
        self._prepared: set[object] = set()
        self._next: dict[
            tuple[str, int, bool], int
        ] = {}  # by model and program: how much it must have learned before another look
        self._thread: threading.Thread | None = None
        self._awaited: tuple[object, ...] | None = None  # whose very next batch needs what is being compiled

    def holds(self, state: State) -> bool:
        """Return whether the model's next batch should wait: to compile its program twice at once takes twice as long.

        Other models learn meanwhile.
        """
        return self.is_busy and state.spec is not None and self._awaited == state.spec.kind

    @property
    def is_busy(self) -> bool:
        """Whether a program is being compiled."""
        return self._thread is not None and self._thread.is_alive()

    def look(self, learner: Learner) -> None:
        """Begin to compile if something is foreseen and nothing is being compiled."""
        if self.is_busy:
            return
        for state in learner.states.values():
            life = state.model, state.generation, state.has_rewards
            if state.spec is None or state.ranker is None or state.learned < self._next.get(life, 0):
                continue
            self._next[life] = state.learned + update.n_ahead(state.learned) // 2
            ranker = update.with_room_ahead(state.ranker, state.learned, state.spec.places)
            program = update.shapes(ranker), state.spec.kind, state.has_rewards
            if program not in self._prepared:
                self._prepared.add(program)
                needed = update.with_room(state.ranker, 1, state.learned, state.spec.places)
                self._awaited = state.spec.kind if update.shapes(needed) == update.shapes(ranker) else None
                self._begin(ranker, state.spec.seed, state.spec.places, state.has_rewards)
                return

    def _begin(self, ranker: Ranker, seed: int, places: int, with_rewards: bool) -> None:
        self._thread = threading.Thread(target=_prepare, args=(ranker, seed, places, with_rewards), daemon=True)
        self._thread.start()


def _prepare(ranker: Ranker, seed: int, places: int, with_rewards: bool) -> None:
    update.prepare(ranker, seed, places, with_rewards=with_rewards)
    machine.give_memory_back()
