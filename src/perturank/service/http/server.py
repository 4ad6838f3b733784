"""`perturank serve`: one process that answers, one child that learns, and both end together."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from perturank import machine
from perturank.catalogue import rankers
from perturank.errors import BadInput
from perturank.service import children
from perturank.service.http.app import Added, application
from perturank.service.log import open_log
from perturank.service.serving.service import DEFAULT, Service
from perturank.service.settings import ServeSettings
from perturank.service.telemetry.logger import logger, write_to_stderr
from perturank.service.telemetry.tracing import Tracing

SECONDS_TO_DRAIN = 10
SECONDS_TO_A_SWITCH = 2e-4  # between threads: the writing thread waits for the interpreter after every statement
SECONDS_TO_START_AGAIN = 1.0
MOST_SECONDS_TO_START_AGAIN = 30.0  # while no process can be started
SECONDS_BETWEEN_REQUESTS = 75  # on one connection: load balancers keep theirs for 60, and should close first
ROWS = [[0.1, 2.0], [0.3, 1.0]]
MODEL = '{"n_features": 2}'
MOST_TO_TYPE = 100  # features of a document in the welcome's example command
NEEDS_ADMIN = "there is no model yet; a key with the scope admin makes one: perturank keys add NAME --scope admin"


def serve(
    settings: ServeSettings,
    say: Callable[[str], None],
    added: Callable[[str], Added] = lambda address: Added(),
    learner: subprocess.Popen[bytes] | None = None,
) -> None:
    """Serve until told to stop; SIGTERM finishes what is under way and ends with exit code 0.

    `added` gets the address and returns further pages, endpoints and a background task. `learner` is the child that
    learns, if it was started before.
    """
    settings = settings.checked()
    machine.answer_in_place()
    rankers()  # imports all of them, which the first list would wait for
    sys.setswitchinterval(SECONDS_TO_A_SWITCH)
    write_to_stderr(settings.log_lines)
    tracing = Tracing("perturank-serve")
    with (
        _bound(settings) as listening,
        contextlib.closing(open_log(settings.log, create=True)) as log,
        _learner(settings, learner),  # it starts while the models are loaded here
    ):
        service, address = Service(log, settings), f"http://{_address(listening)}"
        app = application(service, added(address))
        tracing.watch(app)
        machine.look_for_garbage_seldom()
        loaded = service.models.get(DEFAULT) if DEFAULT in service.models else None
        say(welcome(address, settings, None if loaded is None else loaded.spec.n_features))
        server = _Server(configured(app), service)
        with _stopped_by_signals(server):
            server.run(sockets=[listening])
        service.close()
        tracing.close()


def configured(app: Starlette) -> uvicorn.Config:
    """Return how uvicorn is to serve the application."""
    return uvicorn.Config(
        app,
        ws="none",
        proxy_headers=False,
        log_config=None,
        access_log=False,
        timeout_keep_alive=SECONDS_BETWEEN_REQUESTS,
        timeout_graceful_shutdown=SECONDS_TO_DRAIN,
        server_header=False,
    )


class _Server(uvicorn.Server):
    """Tells the service at once when it is to stop, so that streams of events end."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop when the present requests are answered."""
        self._service.stopping.set()
        super().handle_exit(sig, frame)


@contextmanager
def _stopped_by_signals(server: _Server) -> Iterator[None]:
    """Let signals stop the server also before uvicorn listens to them, and after: it raises the last one again."""
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _bound(settings: ServeSettings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, settings.port))
        except OSError as error:
            where = f"{settings.host}:{settings.port}"
            raise BadInput(f"cannot listen on {where}: {error.strerror}", "choose another --host or --port") from None
        listening.listen(1024)
        yield listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def _learner(settings: ServeSettings, child: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """Run a learner process while the block runs."""
    if settings.learner == "none":
        yield
        return
    stopping = threading.Event()
    keeper = threading.Thread(target=keep_learning, args=(settings, stopping, child), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        stopping.set()
        keeper.join()


def keep_learning(
    settings: ServeSettings, stopping: threading.Event, started: subprocess.Popen[bytes] | None = None
) -> None:
    """Start a learner process, unless one was started before, and restart it when it dies."""
    pause = SECONDS_TO_START_AGAIN
    while not stopping.is_set():
        try:
            child, started = started or children.start(*settings.learner_words, log=settings.log), None
            children.admit(child)
        except OSError as error:  # too many files or processes, or too little memory: a later attempt may succeed
            logger.error("the learner cannot be started (%s); the next attempt is in %g seconds", error, pause)
            stopping.wait(pause)
            pause = min(2 * pause, MOST_SECONDS_TO_START_AGAIN)
            continue
        pause = SECONDS_TO_START_AGAIN
        while child.poll() is None and not stopping.wait(children.SECONDS_BETWEEN_LOOKS):
            pass
        if stopping.is_set():
            children.end(child)
        else:
            logger.warning("the learner ended with code %d; another one starts", child.returncode)
            stopping.wait(SECONDS_TO_START_AGAIN)


def welcome(address: str, settings: ServeSettings, n_features: int | None) -> str:
    """Return what is printed at the start: the address, and a request to try; never a key.

    `n_features` are those of the model `default`, where there is one.
    """
    model, key = f"{address}/v1/models/{DEFAULT}", ' -H "authorization: Bearer $PERTURANK_KEY"' if settings.keys else ""
    made = "" if n_features is not None or settings.is_loopback else f"curl -X PUT {model}{key} -d '{MODEL}' && "
    rows = ROWS if n_features is None else [[(i + row) % 2 for i in range(n_features)] for row in range(2)]
    documents = [{"id": name, "features": row} for name, row in zip("ab", rows, strict=True)]
    asks = f"curl {model}/rank -H 'content-type: application/json'{key} -d '{json.dumps({'documents': documents})}'"
    if n_features is not None and n_features > MOST_TO_TYPE:
        asks = f"curl {model}{key}"
    says = f"perturank serves at {address} (dashboard: {address}/ documentation: {address}/docs)"
    return "\n".join([says, *([NEEDS_ADMIN] if made else []), f"try: {made}{asks}"])
