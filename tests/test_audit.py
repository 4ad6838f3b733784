"""The audit of dependencies: what it makes of pip-audit's report, and above all of having none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AUDIT = Path(__file__).parents[1] / "scripts" / "audit"
SAFE = {"name": "a", "version": "1", "vulns": []}
FLAWED = {"name": "b", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


def audited(folder: Path, said: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the audit with a pip-audit that says this."""
    program = folder / "pip-audit"
    program.write_text(f"#!{sys.executable}\nprint({said!r})\n")
    program.chmod(0o755)
    command = [sys.executable, str(AUDIT), str(program), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("packages", "code", "required_code", "says"),
    [
        ([SAFE], 0, 0, "no known vulnerability in 1 packages"),
        ([SAFE, FLAWED], 1, 1, "b 1: PYSEC-1, mended in 2"),
        ([SAFE, UNKNOWN], 0, 2, "NOT DONE: nobody knows 1 of 2 packages (c)"),
        ([FLAWED, UNKNOWN], 1, 1, "PYSEC-1"),
        (None, 0, 2, "NOT DONE: pip-audit failed"),
    ],
)
def test_an_audit_that_was_not_done_is_never_silent(
    tmp_path: Path, packages: list[Any] | None, code: int, required_code: int, says: str
) -> None:
    said = "Traceback" if packages is None else json.dumps({"dependencies": packages})
    for options, expected in (((), code), (("--required",), required_code)):
        done = audited(tmp_path, said, *options)
        assert done.returncode == expected
        assert says in done.stdout + done.stderr
