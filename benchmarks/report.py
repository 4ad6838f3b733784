"""What was measured, as one JSON object whose keys stay, so that old files compare."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.section import SectionResult
from perturank import storage
from perturank.__about__ import __version__
from perturank.errors import BadInput
from perturank.results.manifest import processor

FORMAT = 1


@dataclass(frozen=True)
class BenchmarkReport:
    """A benchmark: the machine and its speed, and the sections by name."""

    calibration: Mapping[str, Any]
    machine: Mapping[str, Any]
    parts: Mapping[str, SectionResult]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: sections → rows → columns → number or null."""
        sections = {
            name: {
                row_name: {column.key: row.values.get(column.key) for column in part.columns}
                | ({"note": row.note} if row.note else {})
                for row_name, row in part.rows.items()
            }
            for name, part in self.parts.items()
        }
        kinds = {name: {column.key: column.kind for column in part.columns} for name, part in self.parts.items()}
        return {
            "format": FORMAT,
            "version": __version__,
            "seconds": self.seconds,
            "seconds_by_section": {name: part.seconds for name, part in self.parts.items()},
            "processor_seconds_by_section": {name: part.processor_seconds for name, part in self.parts.items()},
            "calibration": dict(self.calibration),
            "machine": dict(self.machine),
            "kinds": kinds,
            "sections": sections,
        }


def this_machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    return {
        "processor": processor(),
        "cpus": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


def write_report(report: Mapping[str, Any], path: Path) -> None:
    """Write the report as JSON, whole or not at all."""
    storage.put(path, json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False).encode())


def read_report(path: Path) -> dict[str, Any]:
    """Return an earlier report as plain values; anything else is refused."""
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", "give a file that the benchmark has written") from None
    except ValueError:
        raise BadInput(f"{path} is not JSON", "give a file that the benchmark has written") from None
    if not isinstance(old, dict) or not _is_report(old):
        raise BadInput(f"{path} was not written by the benchmark", 'make one with: make bench ARGS="--out FILE"')
    if old["format"] != FORMAT:
        raise BadInput(
            f"{path} has format {old['format']}", f"this version compares with format {FORMAT}; measure again"
        )
    return old


def _is_report(old: Mapping[str, Any]) -> bool:
    peak = (old.get("calibration") or {}).get("gflops") if isinstance(old.get("calibration"), dict) else None
    sections = old.get("sections")
    return (
        "format" in old
        and isinstance(peak, int | float)
        and peak > 0
        and isinstance(old.get("kinds"), dict)
        and isinstance(sections, dict)
        and all(isinstance(row, dict) for rows in sections.values() if isinstance(rows, dict) for row in rows.values())
        and all(isinstance(rows, dict) for rows in sections.values())
    )
