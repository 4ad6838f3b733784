"""How a ranker file publishes its variants: a name, a line, default settings, and how to start one."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax

from perturank.core import Key, Ranker
from perturank.errors import BadInput
from perturank.hyperparameters import Settings


@dataclass(frozen=True)
class Published:
    """A ranker by name: its class, and the settings of this variant."""

    name: str
    summary: str
    settings: Settings
    kind: type[Ranker]

    def make(self, n_features: int, key: Key | None = None, settings: Settings | None = None) -> Ranker:
        """Return a new ranker for documents of n_features features."""
        if n_features < 1:
            raise BadInput(f"n_features is {n_features}", "it must be 1 or more")
        chosen = settings or self.settings
        # As one program: operation by operation, JAX would compile dozens.
        ranker: Ranker = eqx.filter_jit(lambda key: self.kind.start(chosen, n_features, key))(
            jax.random.key(0) if key is None else key
        )
        return ranker
