"""What a folder of results begins with: how its numbers were made, and what was asked for."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from perturank import metrics, storage
from perturank.__about__ import __version__
from perturank.errors import BadInput

FORMAT = 1
NAME = "manifest.json"


def made_by() -> dict[str, Any]:
    """Return what the bits of a run made here depend on, beside its job."""
    return {
        "format": FORMAT,
        "version": __version__,
        "jax": version("jax"),
        "jaxlib": version("jaxlib"),
        "python": platform.python_version(),
        "machine": processor(),
        "conventions": metrics.CONVENTIONS,
    }


def processor() -> str:
    """Return the kind of this machine's processor."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


def open_manifest(folder: Path, asked: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the folder's manifest; with `asked`, a new folder begins with it, and an old one goes on with it.

    A folder whose numbers mean something else, or that a newer version wrote, is refused: mixing
    would spoil both.
    """
    path = folder / NAME
    if not path.exists():
        if asked is None:
            raise BadInput(f"{folder} holds no results", f"a folder of results begins with {NAME}")
        others = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        if others:
            raise BadInput(f"{folder} is not empty and holds no results", "choose another folder with --out")
        write_manifest(folder, asked)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise BadInput(f"{path} is damaged ({error})", "use another copy of the folder") from None
    check_compatible(found, str(folder))
    if asked is not None and found.get("asked") != asked:
        write_manifest(folder, asked)
        return {**found, "asked": dict(asked)}
    return found


def write_manifest(folder: Path, asked: Mapping[str, Any]) -> None:
    """Write the manifest of what is asked for now."""
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(made_by() | {"asked": dict(asked)}, indent=1, ensure_ascii=False)
    storage.put(folder / NAME, content.encode())


def check_compatible(found: Mapping[str, Any], where: str) -> None:
    """Refuse results of a newer format or version, or with other conventions."""
    if int(found.get("format", 0)) > FORMAT or _parts(str(found.get("version", "0"))) > _parts(__version__):
        raise BadInput(
            f"{where} was written by perturank {found.get('version')} (format {found.get('format')})",
            f"this is {__version__} (format {FORMAT}): upgrade perturank",
        )
    theirs = found.get("conventions") or {}
    for name, value in metrics.CONVENTIONS.items():
        if theirs.get(name) != value:
            raise BadInput(
                f"{where} was made with another convention: {name} is {theirs.get(name)!r}, not {value!r}",
                "its numbers cannot be mixed with new ones: choose another folder with --out",
            )


def _parts(written: str) -> tuple[int, ...]:
    """Return a version's numbers.

    >>> _parts("0.10.2") > _parts("0.9")
    True
    """
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in written.split("."))
