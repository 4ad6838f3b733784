"""How far the full covariance of olranknet has drifted after many rounds: its widths against a fresh factorisation.

python -m benchmarks.covariance_drift [ROUNDS] [WIDTH]

Beside the ranker every pair's gradient difference is added to A in float64; at the end A is factorised
anew and the confidence widths of a hundred queries are compared with the ranker's own.
"""

from __future__ import annotations

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from perturank import catalogue, datasets, machine, simulation
from perturank.clicks import user
from perturank.core import LEARNING, START, USERS, Array, Interaction, Key, streams, with_room
from perturank.parts import certainty
from perturank.parts.covariance import Full
from perturank.parts.preferences import inferred
from perturank.parts.tangents import inner
from perturank.rankers.olranknet import OlRankNet
from perturank.simulation import Shelf, World, shown_list

PAIRS_AT_ONCE = 2000
N_QUERIES = 100


@eqx.filter_jit
def differences(ranker: OlRankNet, seen: Interaction, key: Key) -> Array:
    """Return √w (g_i - g_j) of the round's pairs, written out; [p, n]."""
    s, shown = ranker.settings, seen.shown
    pairs = inferred(
        seen,
        jax.random.split(key, 3)[0],
        beyond=s.examined_beyond,
        pairs=s.pairs,
        inclusion=s.inclusion,
    )
    g = ranker.gradients(shown.features).explicit()
    return jnp.sqrt(pairs.weight)[:, None] * (g[pairs.winner] - g[pairs.loser])


@eqx.filter_jit
def round_seen(world: World, ranker: OlRankNet, t: Array) -> Interaction:
    """Return what is seen in round t."""
    shown, ranking, grades, _, _ = shown_list(world, ranker, t)
    clicks = world.user.click(grades, shown.mask, jax.random.fold_in(world.keys[USERS], t))
    return Interaction(shown, clicks, ranking.memo)


@eqx.filter_jit
def own_distances(ranker: OlRankNet, features: Array, mask: Array) -> tuple[Array, Array]:
    """Return ‖g_i - g_j‖ under the ranker's own A⁻¹ [V, V], and the gradients written out [V, n]."""
    g = ranker.gradients(features)
    return certainty.distances(ranker.covariance.kernel(g, inner(g, g), mask, ranker.settings.l2)), g.explicit()


def main(n_rounds: int = 5000, width: int = 16) -> None:
    """Simulate, and print the largest relative error of a width."""
    machine.pin_threads(1)
    fold = datasets.load("synthetic")
    keys = streams(1)
    entry = catalogue.published("olranknet")
    settings = entry.settings.changed(widths=(width, width))
    ranker = entry.make(fold.n_features, keys[START], settings)
    assert isinstance(ranker, OlRankNet)
    world = World(Shelf.of(fold.train, 10), user("perfect", fold.n_grades), keys, 10)
    waiting: list[np.ndarray] = []
    a = None
    for t in range(1, n_rounds + 1):
        if t % simulation.LEAST_ROOM == 1:
            ranker = with_room(ranker, simulation.LEAST_ROOM, 10)
        seen = round_seen(world, ranker, jnp.int32(t))
        key = jax.random.fold_in(keys[LEARNING], t)
        waiting.append(np.asarray(differences(ranker, seen, key), np.float64))
        a = np.eye(waiting[0].shape[1]) * settings.as_dict()["l2"] if a is None else a
        ranker = ranker.learn(seen, key)
        if t == n_rounds or sum(map(len, waiting)) > PAIRS_AT_ONCE:
            u = np.concatenate(waiting)
            a += u.T @ u
            waiting = []
    assert a is not None
    assert isinstance(ranker.covariance, Full)
    factor, worst, errors = scipy.linalg.cholesky(a, lower=True), 0.0, []
    for q in range(N_QUERIES):
        query, _ = world.shelf.query(jnp.int32(q), world.shelf.sizes[-1])
        found, g = own_distances(ranker, query.features, query.mask)
        n = int(query.mask.sum())
        half = scipy.linalg.solve_triangular(factor, np.asarray(g, np.float64)[:n].T, lower=True)
        square = np.sum(half**2, axis=0)
        exact = np.sqrt(np.maximum(square[:, None] + square[None] - 2 * half.T @ half, 0))
        pairs = np.triu_indices(n, 1)
        error = np.abs(np.asarray(found)[:n, :n][pairs] - exact[pairs]) / np.median(exact[pairs])
        errors.append(np.median(error))
        worst = max(worst, float(error.max()))
    log_det = 2 * np.sum(np.log(np.diagonal(factor))) - len(a) * np.log(settings.as_dict()["l2"])
    print(f"{n_rounds} rounds, {len(a)} parameters, primal form: {bool(ranker.covariance.is_primal)}")
    print(
        f"error of a width, relative to the query's median width: largest {worst:.1e}, median {np.median(errors):.1e}"
    )
    print(f"log det A/det λI: {float(ranker.covariance.log_det):.3f}, fresh {log_det:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
