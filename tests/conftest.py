"""Compiled programs are kept on disk, even the smallest.

Workers and child processes share them, and a second run has nothing left to compile.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from perturank import machine

# As the command line sets them: the bits of both are compared.
for variable in ("NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# A server that is killed while it writes a program leaves half of one; the next makes it again and says so.
os.environ.setdefault("PYTHONWARNINGS", "ignore:Error reading persistent compilation cache entry")
# Machines that test are slow now and then: time is no reason to fail. Nor is chance: the same cases come every time.
settings.register_profile("tests", deadline=None, derandomize=True)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run tests that have a long form in that form")


# These begin: whoever starts a long file last works alone in the end.
LONGEST_FILES = {
    "test_blocks.py",
    "test_cli.py",
    "test_clock.py",
    "test_cluster.py",
    "test_damage.py",
    "test_examples.py",
    "test_killing.py",
    "test_notebook.py",
    "test_olranknet.py",
    "test_rankers.py",
    "test_raw_bytes.py",
    "test_reproduce.py",
    "test_serving.py",
    "test_simulation.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST_FILES)


def pytest_collection_finish() -> None:
    """Look for garbage as seldom as the service does: tracing makes many objects, and few of them are garbage."""
    machine.look_for_garbage_seldom()


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--long"))


MAPS = Path("/proc/self/maps")
MANY_MAPS = 30_000  # a process may have 65,530, and every compiled program takes some; beyond, LLVM ends the process


@pytest.fixture(autouse=True, scope="module")
def programs_given_back() -> Iterator[None]:
    """Forget compiled programs after a file of tests where many have piled up; they stay on disk."""
    yield
    if "jax" in sys.modules and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY_MAPS:
        sys.modules["jax"].clear_caches()
        gc.collect()


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a line at once: long tests tell how far they are."""

    def now(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}")
            sys.stdout.flush()

    return now
