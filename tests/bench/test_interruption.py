"""A benchmark that is interrupted leaves no service behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.serving import SECONDS, children, is_running

ROOT = Path(__file__).parents[2]
# A shell lets what it runs in the background ignore SIGINT, and the tests may run there.
PROGRAM = """
import signal
import time
from benchmarks.service import running_service
signal.signal(signal.SIGINT, signal.default_int_handler)
with running_service(None, 4) as (url, pid):
    print(pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.kill
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_service_and_no_learner_outlive_it(how: signal.Signals) -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    benchmark = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
    )
    assert benchmark.stdout is not None
    service, end = int(benchmark.stdout.readline()), time.monotonic() + SECONDS
    while not (learners := children(service)):
        assert time.monotonic() < end
        time.sleep(0.05)
    benchmark.send_signal(how)
    while any(map(is_running, [benchmark.pid, service, *learners])):
        assert time.monotonic() < end
        benchmark.poll()
        time.sleep(0.05)
    benchmark.stdout.close()
