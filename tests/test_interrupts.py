"""Ctrl-C at any moment: one line, exit code 130, and never a traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.past_lists import line, written
from helpers.service_small import created
from helpers.serving import run

from perturank.service.log import open_log

# A shell lets what it runs in the background ignore SIGINT, and the tests may run there.
PROGRAM = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("perturank", run_name="__main__", alter_sys=True)
"""
MOMENTS = [0.3, 0.6, 1.0, 1.4, 1.8, 2.4, 3.0]


def interrupted(after: float, *words: str) -> str:
    """Return what a command says on stderr that is interrupted after so many seconds."""
    command = [sys.executable, "-c", PROGRAM, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    return said


@pytest.mark.parametrize("after", MOMENTS)
def test_a_simulation_ends_with_one_line(after: float) -> None:
    said = interrupted(after, "simulate", "--ranker", "pdgd-linear", "--rounds", "100000000")
    assert said.startswith("interrupted")
    assert len(said.splitlines()) == 1


def test_an_import_ends_with_one_line_and_may_be_repeated(tmp_path: Path) -> None:
    n = 40_000
    path = written(tmp_path, [line(number) for number in range(n)])
    log = f"sqlite:///{tmp_path}/perturank.db"
    opened = open_log(log, create=True)
    created(opened, "shop", ranker="p2linrank")
    opened.close()
    for after in MOMENTS:
        said = interrupted(after, "import", str(path), "--log", log, "--model", "shop")
        assert said.startswith("interrupted")
        assert len(said.splitlines()) == 1
    done = json.loads(run("import", str(path), "--log", log, "--model", "shop", "--json").stdout)
    assert done["imported"] + done["already_there"] == n
