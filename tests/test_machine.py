"""What perturank asks of the compiler."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from perturank import machine


@pytest.mark.parametrize(
    "release, options", [("0.10.2", 1), ("0.11.0", 1), ("0.11.1", 0), ("0.12.0.1", 0), ("1.0.0rc1", 0)]
)
def test_a_compiler_is_asked_only_for_options_that_it_knows(
    release: str, options: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "version", {"jaxlib": release}.__getitem__)
    assert len(machine.older_generator()) == options


def test_the_compiler_that_is_installed_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    options: Any = machine.light_options()
    program = jax.jit(lambda x: x + 1, compiler_options=options)
    assert program(1) == 2
    assert "--xla_backend_optimization_level=1" in machine.as_flags(options)
