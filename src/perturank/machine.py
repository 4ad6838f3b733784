"""What perturank asks of the machine: how many threads, and a folder for compiled programs."""

from __future__ import annotations

import ctypes
import gc
import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of <malloc.h>


def pin_threads(n: int | None = None) -> None:
    """Limit JAX, and the linear algebra it borrows from SciPy, to n threads; works only before either is loaded.

    Where no number is given, $NPROC says it, or it is one. The last bits of a result depend on the number of
    threads, so it is part of a run's identity. Programs call this at their start; importing perturank does not.
    """
    if n is None:
        n = int(os.environ.get("NPROC", "1"))
    for name in ("NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(n)


def n_threads() -> int:
    """Return the number of threads that a run may use: $NPROC, or as JAX has it, one for each processor."""
    return int(os.environ.get("NPROC") or n_cores())


def n_cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_folder() -> Path:
    """Return the folder for what can be made again: $PERTURANK_CACHE, or perturank in the user's cache folder."""
    chosen = os.environ.get("PERTURANK_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perturank"


def keep_compiled_programs() -> None:
    """Let JAX keep compiled programs on disk, so that a second run starts at once. Call it before importing JAX."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def light_options() -> dict[str, bool | int]:
    """Return compiler options for a program that is worth little time: it runs once, or is as fast without.

    Whoever has set XLA_FLAGS is left alone.
    """
    if "XLA_FLAGS" in os.environ:
        return {}
    return older_generator() | {"xla_backend_optimization_level": 1}


def older_generator() -> dict[str, bool | int]:
    """Return the option of XLA's older code generator, which takes half the time; jaxlib 0.11.1 dropped the option.

    XLA refuses an option that it does not know.
    """
    release = tuple(map(int, re.findall(r"\d+", version("jaxlib"))[:3]))
    return {"xla_cpu_use_fusion_emitters": False} if release < (0, 11, 1) else {}


def as_flags(options: Mapping[str, bool | int]) -> str:
    """Return compiler options as XLA_FLAGS takes them."""
    return " ".join(f"--{name}={str(value).lower()}" for name, value in options.items())


def compile_lightly() -> None:
    """Spend half the time on compiling, for runs too short to win it back; works only before JAX is used."""
    os.environ.setdefault("XLA_FLAGS", as_flags(light_options()))


def answer_in_place() -> None:
    """Let the thread that calls a compiled program run it: to hand a small one over takes longer than to run it.

    Works only before JAX is used. Results are the same to the bit.
    """
    import jax  # not above: settings of the environment must come before it

    jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]


def look_for_garbage_seldom() -> None:
    """Let what is here now be, and look through the rest only when much has come: JAX alone is a million objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def keep_freed_memory() -> None:
    """Let memory that was freed stay at hand: a history is copied for every batch, and the system clears new pages.

    Where malloc is not glibc's there is nothing to set.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def give_memory_back() -> None:
    """Return to the system what is free: compiling takes hundreds of megabytes for a moment."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
