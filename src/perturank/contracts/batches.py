"""What every ranker promises of several interactions learned at once, in a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from perturank.contracts.terms import (
    KEYS,
    PLACES,
    DoesNotApply,
    query,
    require,
    require_close,
    require_finite,
    same_bits,
    start,
)
from perturank.core import FitsBatches, Interaction, Remembers, with_room
from perturank.parts import batches
from perturank.publishing import Published

ONE_BY_ONE = "learn_batch must do what learn does, list by list"


def a_batch_of_one_is_learned_as_one_list_is(published: Published) -> None:
    """Check that a batch of one is learned as `learn` would."""
    ranker, (first, *_) = _lists(published)
    one = ranker.learn(first, KEYS[0])
    batch = batches.learned(ranker, batches.of_one(first), KEYS[:1], jnp.asarray(1))
    require_close(one, batch, "a batch of one is learned differently", ONE_BY_ONE)


def a_batch_is_learned_with_the_same_bits_whatever_stands_behind_its_end(published: Published) -> None:
    """Check padding: what stands behind its last list changes nothing."""
    ranker, seen = _lists(published)
    once = batches.learned(ranker, _stacked(seen), KEYS[:3], jnp.asarray(2))
    again = batches.learned(ranker, _stacked([*seen[:2], seen[0]]), KEYS[:3], jnp.asarray(2))
    require(same_bits(once, again), "a batch of 2 depends on the third list", "learn from the first n")
    nothing = batches.learned(ranker, _stacked(seen), KEYS[:3], jnp.asarray(0))
    require(same_bits(nothing, ranker), "a batch of 0 changes the ranker", "learn from the first n")


def a_batch_leaves_the_memory_that_its_lists_leave_one_by_one(published: Published) -> None:
    """Fitted once or list by list, the memory is the same."""
    ranker, seen, batch, one_by_one = _both(published)
    require(not same_bits(batch, ranker), "nothing is learned from a batch", "learn from the first n")
    require_finite(batch, "after a batch")
    for field in ranker.learning_only:
        same = same_bits(getattr(batch, field), getattr(one_by_one, field))
        require(same, f"{field} differs after {len(seen)} lists at once", ONE_BY_ONE)


def where_a_batch_is_not_one_fit_it_is_learned_one_by_one(published: Published) -> None:
    """`learn` gives the same in a compiled loop as alone: its arrays keep their shapes and types."""
    kind: object = published.kind
    if isinstance(kind, FitsBatches):
        raise DoesNotApply("a batch is one fit")
    _, _, batch, one_by_one = _both(published)
    require_close(
        batch, one_by_one, "learn gives something else in a compiled loop", "make it a pure function of arrays"
    )


def _lists(published: Published) -> tuple[Any, list[Interaction]]:
    """Return a ranker with room for three lists, and them; the second without clicks."""
    ranker, found = with_room(start(published), 4, PLACES), []
    for t in range(3):
        shown = query(9, seed=t)
        ranking = ranker.rank(shown, KEYS[t], PLACES)
        found.append(Interaction.of(shown, ranking, ranking.documents[1:2] if t != 1 else []))
    return ranker, found


def _both(published: Published) -> tuple[Any, list[Interaction], Any, Any]:
    """Return a ranker, three lists, and the ranker that learned them at once and one by one."""
    ranker, seen = _lists(published)
    one_by_one = ranker
    for each, key in zip(seen, KEYS, strict=False):
        one_by_one = one_by_one.learn(each, key)
    return ranker, seen, batches.learned(ranker, _stacked(seen), KEYS[:3], jnp.asarray(3)), one_by_one


def _stacked(seen: list[Interaction]) -> Interaction:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *seen)


CONTRACTS: dict[Callable[[Published], None], tuple[type, ...]] = {
    a_batch_of_one_is_learned_as_one_list_is: (),
    a_batch_is_learned_with_the_same_bits_whatever_stands_behind_its_end: (),
    a_batch_leaves_the_memory_that_its_lists_leave_one_by_one: (FitsBatches, Remembers),
    where_a_batch_is_not_one_fit_it_is_learned_one_by_one: (),
}
