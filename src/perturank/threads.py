"""How many threads JAX may use. Bits depend on it, so it is pinned: one, unless told otherwise."""

from __future__ import annotations

import os


def pin(n: int = 1) -> None:
    """Limit JAX to n threads on the CPU; works only before JAX's first computation. An existing choice is kept."""
    os.environ.setdefault("NPROC", str(n))
