"""Rankers as files: one safetensors file, arrays by name and a JSON header. Never pickle."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from perturank.__about__ import __version__
from perturank.catalogue import load_published, published_in, rankers
from perturank.core import Ranker
from perturank.errors import BadInput
from perturank.parts.standardised import Scale, Standardised, standardised
from perturank.publishing import Published

FORMAT = 1


def save(ranker: Ranker, path: str | Path) -> None:
    """Write the ranker, settings and history included, to one file; it appears whole or not at all."""
    write(path, arrays_of(ranker), header_of(ranker))


def load(path: str | Path) -> Ranker:
    """Return the ranker that was saved here."""
    arrays, header = read(path)
    return restored(arrays, header, path)


def header_of(ranker: Ranker) -> dict[str, Any]:
    """Return what is needed, beside the arrays, to make the ranker again."""
    if isinstance(ranker, Standardised):
        schema: dict[str, Any] = {"strength": ranker.strength, "names": ranker.names and list(ranker.names)}
        if ranker.slots is not None:
            schema |= {"columns": list(ranker.slots), "width": ranker.ranker.n_features}
        return header_of(ranker.ranker) | {"n_features": ranker.n_features, "schema": schema}
    mine = ranker.settings.as_dict()

    def n_changed(entry: Published) -> int:
        return sum(value != mine[name] for name, value in entry.settings.as_dict().items())

    same = [p for p in _published_as(type(ranker)) if type(p.settings) is type(ranker.settings)]
    if not same:
        raise BadInput(f"{type(ranker).__name__} is not in the catalogue", "publish it in its file to save it")
    return {
        "format": FORMAT,
        "version": __version__,
        "ranker": min(same, key=n_changed).name,  # variants of one class differ in their settings alone
        "n_features": ranker.n_features,
        "settings": ranker.settings.as_dict(),
    }


def _published_as(kind: type) -> list[Published]:
    """Return the rankers of this class: those of the catalogue, else those of the class's own file, as module:NAME."""
    own = published_in(sys.modules.get(kind.__module__))
    known = [each for each in rankers().values() if each.kind is kind]
    return known or [replace(each, name=f"{kind.__module__}:{each.name}") for each in own if each.kind is kind]


def arrays_of(ranker: Any) -> dict[str, np.ndarray]:
    """Return the ranker's arrays by their path inside it."""
    leaves = jax.tree_util.tree_flatten_with_path(eqx.filter(ranker, eqx.is_array))[0]
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def restored(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any], path: str | Path) -> Ranker:
    """Return the ranker with these arrays and header."""
    lacking = [name for name in ("ranker", "n_features", "settings") if name not in header]
    if lacking:
        raise BadInput(f"{path} does not say its {lacking[0]}", "use another copy of it")
    entry = load_published(header["ranker"], imports=False)
    settings, n_features = type(entry.settings).recorded(header["settings"]), int(header["n_features"])
    schema = header.get("schema")
    if schema is None:
        return filled(entry.make(n_features, settings=settings), arrays, path)
    inside = entry.make(schema.get("width", n_features + 1), settings=settings)
    blank = standardised(
        inside,
        Scale.unknown(n_features + 1),
        strength=float(schema["strength"]),
        names=schema["names"],
        slots=schema.get("columns"),
    )
    return filled(blank, arrays, path)


def filled(blank: Ranker, arrays: Mapping[str, np.ndarray], path: str | Path) -> Ranker:
    """Return a ranker like `blank` with these arrays."""
    dynamic, static = eqx.partition(blank, eqx.is_array)
    leaves, shape = jax.tree_util.tree_flatten_with_path(dynamic)
    missing = [name for name in (jax.tree_util.keystr(p) for p, _ in leaves) if name not in arrays]
    if missing:
        raise BadInput(f"{path} lacks the array {missing[0]}", "it was written by another version; learn it again")
    loaded = [jax.device_put(arrays[jax.tree_util.keystr(p)]) for p, _ in leaves]
    ranker: Ranker = eqx.combine(jax.tree_util.tree_unflatten(shape, loaded), static)
    return ranker


def packed(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file with these arrays and this header."""
    return to_bytes({k: np.asarray(v, order="C") for k, v in arrays.items()}, {"perturank": json.dumps(header)})


def unpacked(content: bytes, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header of such bytes; `name` says where they came from."""
    try:
        arrays = from_bytes(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
        header = json.loads(metadata.get("perturank", "null"))
    except (SafetensorError, ValueError, AttributeError) as error:
        raise BadInput(f"{name} is damaged or not a safetensors file ({error})", "use another copy of it") from None
    return arrays, _checked(header, name)


def write(path: str | Path, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Write arrays and header to one file, which appears whole or not at all."""
    put(path, packed(arrays, header))


def put(path: str | Path, content: bytes) -> None:
    """Write beside the path, flush to the disk, and rename, so that a reader never sees half a file."""
    target = Path(path)
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as beside:
            try:
                beside.write(content)
                beside.flush()
                os.fchmod(beside.fileno(), 0o666 & ~_umask())  # as of any new file; temporary ones are private
                os.fsync(beside.fileno())
                os.replace(beside.name, target)
            except BaseException:
                os.unlink(beside.name)
                raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "make room; nothing finished is lost" if full else "choose a folder that exists and is writable"
        raise BadInput(f"cannot write {target}: {error.strerror}", remedy) from None


def _umask() -> int:
    """Return the process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def read(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header of a file written here."""
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("perturank", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError:
        raise BadInput(f"{path} does not exist", "check the path") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise BadInput(f"{path} is damaged or not a safetensors file ({error})", "use another copy of it") from None
    return arrays, _checked(header, path)


def _checked(header: Any, path: str | Path) -> dict[str, Any]:
    """Return the header if it is one of ours."""
    if not isinstance(header, dict):
        raise BadInput(f"{path} was not written by perturank", "save a ranker with perturank.save")
    if header.get("format") != FORMAT:
        raise BadInput(
            f"{path} has format {header.get('format')}", f"this version reads format {FORMAT}; upgrade perturank"
        )
    return header
