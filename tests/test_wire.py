"""What service and client share needs no JAX: a client is imported in a tenth of a second."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["perturank.client", "perturank.wire.answers", "perturank.wire.requests"])
def test_it_is_imported_without_jax(module: str) -> None:
    program = f"import sys, {module}; sys.exit(bool({{'jax', 'numpy'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_client_is_made_without_jax() -> None:
    program = "import sys, perturank; perturank.Client('http://127.0.0.1:1'); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
