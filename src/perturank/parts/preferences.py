"""Clicks → pairs: which documents were examined, and which of two was preferred (Ω_t of eq:loss)."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from perturank.core import Array, Interaction, Key

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


def preference_weights(interaction: Interaction, beyond: int, inclusion: Inclusion = "paper") -> Array:
    """Return W[i, j]: how much place i was preferred to place j; 1 for a click where only clicks are known; [k, k]."""
    rewards, mask = interaction.rewards, interaction.shown.mask
    if rewards is None:
        return preferred(interaction.clicks, mask, beyond, inclusion).astype(jnp.float32)
    gaps = _gaps(rewards.worth, rewards.seen, mask, beyond, inclusion)
    known = _gaps(rewards.learned, rewards.learned_seen, mask, beyond, inclusion)
    return jnp.maximum(gaps - known, 0.0)


def _gaps(worth: Array, seen: Array, mask: Array, beyond: int, inclusion: Inclusion) -> Array:
    """Return how much more place i is worth than place j, where both were looked at; else 0; [k, k].

    Where it is not known what was seen, it is guessed as from clicks; a document that something was done with was seen.
    """
    acted = (worth != 0) & mask
    guessed = preferred(acted, mask, beyond, inclusion)
    guessed |= guessed.T | (acted[:, None] & acted[None, :])
    looked_at = mask & (acted | (jnp.arange(worth.shape[0]) < seen))
    both = jnp.where(seen > 0, looked_at[:, None] & looked_at[None, :], guessed)
    return jnp.where(both, jnp.maximum(worth[:, None] - worth[None, :], 0.0), 0.0)


def inferred(
    interaction: Interaction,
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
    Where documents differ in worth, a pair's weight is multiplied by the difference; of `all` pairs a list
    gives as many as clicks could, the heaviest.
    """
    clicks, mask, rewards = interaction.clicks, interaction.shown.mask, interaction.rewards
    k = clicks.shape[0]
    gaps = preference_weights(interaction, beyond, inclusion)
    wins = gaps > 0
    if pairs == "independent":
        looked_at = jnp.any(wins, axis=0) if rewards is not None else examined(clicks, mask, beyond)
        winner, loser = _paired_off(clicks & mask, looked_at & ~clicks, key)
        weight = gaps[winner, loser]
    else:
        n_most = max((k // 2) * ((k + 1) // 2), 1)
        heaviest = jax.lax.top_k(gaps.ravel(), n_most)[1]  # of equal ones the first
        winner, loser = heaviest // k, heaviest % k
        n_winners, n_losers = jnp.sum(jnp.any(wins, axis=1)), jnp.sum(jnp.any(wins, axis=0))
        real = jnp.arange(winner.shape[0]) < jnp.sum(wins)
        gap = 1.0 if rewards is None else gaps[winner, loser]
        weight = jnp.where(real, gap / jnp.maximum(jnp.maximum(n_winners, n_losers), 1), 0.0)
    last = last_click(clicks if rewards is None else rewards.worth != 0)
    is_guess = True if rewards is None else rewards.seen == 0
    weight = weight * jnp.where((loser > last) & is_guess, beyond_weight, 1.0)
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
