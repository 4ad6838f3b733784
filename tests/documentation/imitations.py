"""Small files in the layout of the public collections, for pages that speak of data nobody can ship."""

from __future__ import annotations

from pathlib import Path

import numpy as np

N_QUERIES, N_DOCUMENTS, N_FEATURES = 10, 8, 5


def write_imitations(folder: Path) -> None:
    """Write MQ2008, MSLR-WEB10K and Yahoo as their owners lay them out."""
    parts = [f"MQ2008/S{part}.txt" for part in range(1, 6)]
    parts += [f"MSLR-WEB10K/Fold{fold}/{split}.txt" for fold in range(1, 6) for split in ("train", "vali", "test")]
    parts += [f"Yahoo/set{part}.{split}.txt" for part in (1, 2) for split in ("train", "valid", "test")]
    for seed, part in enumerate(parts):
        path = folder / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_lines(seed, 3 if part.startswith("MQ") else 5))


def _lines(seed: int, n_grades: int) -> str:
    """Return queries whose grade follows the first feature."""
    rng = np.random.default_rng(seed)
    lines = []
    for query in range(N_QUERIES):
        for row in rng.random((N_DOCUMENTS, N_FEATURES)):
            values = " ".join(f"{i}:{value:.4f}" for i, value in enumerate(row, 1))
            lines.append(f"{int(row[0] * n_grades)} qid:{seed * N_QUERIES + query} {values}\n")
    return "".join(lines)
