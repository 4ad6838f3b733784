"""Rounds per second of every ranker on data of MSLR's shape: rank, click and learn, compilation apart.

The speed of a matrix product, measured in the same run, tells how fast this machine is just now.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from perturank import machine

machine.keep_compiled_programs()

import jax  # noqa: E402 (the folder of compiled programs is chosen before JAX is imported)
import jax.numpy as jnp  # noqa: E402

from perturank import catalogue, clicks, datasets, simulation  # noqa: E402


def gflops(n: int = 1024, repeats: int = 20) -> float:
    a = jax.random.normal(jax.random.key(0), (n, n))
    product = jax.jit(jnp.matmul)
    product(a, a).block_until_ready()
    began = time.perf_counter()
    for _ in range(repeats):
        product(a, a).block_until_ready()
    return 2 * n**3 * repeats / (time.perf_counter() - began) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--rankers", default="", help="names with commas between; all by default")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    names = asked.rankers.split(",") if asked.rankers else list(catalogue.rankers())
    fold = datasets.load("synthetic")
    user = clicks.user("perfect", fold.n_grades)
    rows = []
    for name in names:
        settings = catalogue.published(name).settings
        peak = gflops()
        run = simulation.simulate(simulation.Plan(name, settings, user, fold, asked.rounds))
        rows.append(
            {"ranker": name, "rounds": asked.rounds, "rounds_per_second": run.rounds_per_second, "gflops": peak}
        )
        if not asked.json:
            print(
                f"{name:24} {run.rounds_per_second:12,.0f} rounds/s   (matrix product {peak:5.0f} GFLOP/s)", flush=True
            )
    if asked.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
