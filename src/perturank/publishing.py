"""How a ranker file publishes its variants: a name, a line, default settings, and how to start one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import equinox as eqx
import jax

from perturank import machine
from perturank.core import Key, Ranker, register_settings, traced_settings, traces_settings, with_settings
from perturank.errors import BadInput
from perturank.hyperparameters import Settings


@dataclass(frozen=True)
class Published:
    """A ranker by name: its class, and the settings of this variant."""

    name: str
    summary: str
    settings: Settings
    kind: type[Ranker]

    def __post_init__(self) -> None:
        kind: Any = type(self.settings)
        register_settings(kind)

    def make(self, n_features: int, key: Key | None = None, settings: Settings | None = None) -> Ranker:
        """Return a new ranker for documents of n_features features."""
        if n_features < 1:
            raise BadInput(f"n_features is {n_features}", "it must be 1 or more")
        chosen = settings or self.settings
        given = traced_settings(chosen) if traces_settings(self.kind) else chosen
        ranker = _start(self.kind, given, n_features, jax.random.key(0) if key is None else key)
        return with_settings(ranker, chosen)


def _start_of(kind: type[Ranker], settings: Settings, n_features: int, key: Key) -> Ranker:
    return kind.start(settings, n_features, key)


# One program: operation by operation, JAX would compile dozens. It runs once, so little time is spent on compiling it.
_start: Callable[..., Ranker] = cast(Any, eqx.filter_jit)(_start_of, compiler_options=machine.light_options())
