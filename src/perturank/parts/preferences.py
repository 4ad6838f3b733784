"""Clicks → pairs: which documents were examined, and which of two was preferred (Ω_t of eq:loss)."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from perturank.core import Array, Key

PairSet = Literal["independent", "all"]
Inclusion = Literal["paper", "symmetric"]


class Pairs(eqx.Module):
    """Preferences between shown places: winner [P] over loser [P], with weight [P] (0: no pair)."""

    winner: Array
    loser: Array
    weight: Array


def last_click(clicks: Array) -> Array:
    """Return the place of the last click, or -1."""
    return jnp.max(jnp.where(clicks, jnp.arange(clicks.shape[-1]), -1), axis=-1)


def examined(clicks: Array, mask: Array, beyond: int) -> Array:
    """Return the places taken as examined: down to the last click and the first l after it; [k].

    Nothing is inferred from a list without a click.
    """
    last = last_click(clicks)
    return mask & (last >= 0) & (jnp.arange(clicks.shape[0]) <= last + beyond)


def preferred(clicks: Array, mask: Array, beyond: int, inclusion: Inclusion = "paper") -> Array:
    """Return P[i, j]: place i was clicked, place j examined and not clicked; [k, k].

    With `symmetric` inclusion a pair counts only if it would also have been inferred with the two
    documents exchanged: else, of two equally bad documents, the lower one wins more often.
    """
    places = jnp.arange(clicks.shape[0])
    seen = examined(clicks, mask, beyond)
    pairs = (clicks & mask)[:, None] & (seen & ~clicks)[None, :]
    if inclusion == "symmetric":
        others = jnp.where(jnp.eye(clicks.shape[0], dtype=bool), False, clicks[None, :])
        last_exchanged = jnp.maximum(last_click(others)[:, None], places[None, :])
        pairs &= jnp.maximum(places[:, None], places[None, :]) <= last_exchanged + beyond
    return pairs


def inferred(
    clicks: Array,
    mask: Array,
    key: Key,
    *,
    beyond: int,
    pairs: PairSet,
    inclusion: Inclusion = "paper",
    beyond_weight: Array | float = 1.0,
) -> Pairs:
    """Return Ω_t of one list.

    `independent` shuffles the clicked and the examined unclicked places and pairs them off, so that
    no document is in two pairs; `all` takes every such pair with weight 1 / max(n⁺, n⁻), n⁺ and n⁻
    being the clicked and the unclicked documents in these pairs.
    `beyond_weight` (κ) discounts pairs whose unclicked document lies after the last click, where
    examination is only assumed.
    """
    k = clicks.shape[0]
    wins = preferred(clicks, mask, beyond, inclusion)
    if pairs == "independent":
        winner, loser = _paired_off(clicks & mask, examined(clicks, mask, beyond) & ~clicks, key)
        weight = wins[winner, loser].astype(jnp.float32)
    else:
        n_most = (k // 2) * ((k + 1) // 2)
        winner, loser = jnp.nonzero(wins, size=max(n_most, 1), fill_value=0)
        n_winners, n_losers = jnp.sum(jnp.any(wins, axis=1)), jnp.sum(jnp.any(wins, axis=0))
        real = jnp.arange(winner.shape[0]) < jnp.sum(wins)
        weight = jnp.where(real, 1.0 / jnp.maximum(jnp.maximum(n_winners, n_losers), 1), 0.0)
    weight = weight * jnp.where(loser > last_click(clicks), beyond_weight, 1.0)
    return Pairs(winner.astype(jnp.int32), loser.astype(jnp.int32), weight)


def n_pairs_at_most(k: int, pairs: PairSet) -> int:
    """Return how many pairs a list of k places can give."""
    return max(k // 2 if pairs == "independent" else (k // 2) * ((k + 1) // 2), 1)


def _paired_off(clicked: Array, unclicked: Array, key: Key) -> tuple[Array, Array]:
    """Return the clicked and the unclicked places, each shuffled, side by side; [k // 2] each.

    Beyond the shorter of the two, entries are places of the wrong kind: they form no pair.
    """
    k = clicked.shape[0]
    lots = jax.random.uniform(key, (2, k))
    shuffled = jnp.argsort(jnp.where(jnp.stack([clicked, unclicked]), lots, 2.0), axis=1)
    n = max(k // 2, 1)
    return shuffled[0, :n], shuffled[1, :n]
