"""A folder of results: `manifest.json`, `runs/KEY.parquet`, and `running/KEY.safetensors` of what is under way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perturank import storage
from perturank.errors import BadInput
from perturank.results import manifest
from perturank.results.outcome import RunOutcome, from_parquet, to_parquet


@dataclass(frozen=True)
class Store:
    """Finished runs by their key. A run is in it whole or not at all."""

    folder: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path, asked: Mapping[str, Any] | None = None) -> Store:
        """Return the store in this folder; with `asked`, it is made where there is none."""
        store = cls(folder, manifest.open_manifest(folder, asked))
        if asked is not None:
            for place in (store.runs, store.running):
                place.mkdir(exist_ok=True)
        return store

    @property
    def runs(self) -> Path:
        """The folder of finished runs."""
        return self.folder / "runs"

    @property
    def running(self) -> Path:
        """The folder of runs under way."""
        return self.folder / "running"

    def path(self, key: str) -> Path:
        """Return where a finished run is kept."""
        return self.runs / f"{key}.parquet"

    def checkpoint(self, key: str) -> Path:
        """Return where a run under way is kept."""
        return self.running / f"{key}.safetensors"

    def keys(self) -> set[str]:
        """Return the finished runs."""
        return {path.stem for path in self.runs.glob("*.parquet")}

    def keep(self, outcome: RunOutcome) -> None:
        """Keep a finished run; what it left while under way goes."""
        self.keep_file(outcome.job.key, to_parquet(outcome))

    def keep_file(self, key: str, content: bytes) -> None:
        """Keep a finished run that comes as a file's bytes."""
        storage.put(self.path(key), content)
        self.checkpoint(key).unlink(missing_ok=True)

    def outcome(self, key: str) -> RunOutcome:
        """Return a finished run."""
        path = self.path(key)
        found = from_parquet(path.read_bytes(), str(path))
        if found.job.key != key:
            raise BadInput(f"{path} holds the run {found.job.key}", "delete it: the run is made again")
        manifest.check_compatible(found.made_by, str(path))
        return found

    def outcomes(self) -> dict[str, RunOutcome]:
        """Return all finished runs by key."""
        return {key: self.outcome(key) for key in sorted(self.keys())}

    def take(self, others: Iterable[Store]) -> int:
        """Copy the finished runs of other folders that are not here yet; return how many.

        The same run with other bits is refused: the folders come from machines of different kinds.
        """
        n = 0
        for other in others:
            for key in sorted(other.keys()):
                found = other.outcome(key)
                if not self.path(key).exists():
                    self.keep(found)
                    n += 1
                elif not self.outcome(key).agrees(found):
                    raise BadInput(
                        f"run {key} differs in {self.folder} and {other.folder}",
                        "they were made by different machines or versions of JAX: keep them apart",
                    )
        return n


def digest(outcomes: Mapping[str, RunOutcome]) -> str:
    """Return a digest of all numbers but times: equal for equal results."""
    sums = hashlib.blake2b(digest_size=16)
    for key in sorted(outcomes):
        sums.update(outcomes[key].bits())
    return sums.hexdigest()
