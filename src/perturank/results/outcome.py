"""What a run came to, as one Parquet file: a row per evaluation, with everything that decided the run beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from perturank.errors import BadInput
from perturank.results.job import Job
from perturank.runs import Run

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    raise BadInput("results need pyarrow", "pip install 'perturank[results]'") from None

MEASURES = ("ndcg", "cumulative_ndcg", "regret", "uncertain", "width", "seconds")
TIMES = ("seconds",)  # all else is the same on every machine of a kind
_JOB = tuple(field.name for field in fields(Job))


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished run: `measures` holds an array per measure, one entry per round in `rounds`; NaN where undefined."""

    job: Job
    rounds: np.ndarray
    measures: Mapping[str, np.ndarray]
    made_by: Mapping[str, Any]

    @classmethod
    def of(cls, job: Job, run: Run, made_by: Mapping[str, Any]) -> Outcome:
        """Return what is kept of a run."""
        found = {
            name: np.array([np.nan if (v := getattr(c, name)) is None else v for c in run.checkpoints], np.float64)
            for name in MEASURES
        }
        return cls(job, np.array([c.round for c in run.checkpoints], np.int64), found, made_by)

    def last(self, measure: str) -> float:
        """Return a measure after the last round."""
        return float(self.measures[measure][-1])

    def bits(self) -> bytes:
        """Return what must be the same however often the run is made on machines of one kind."""
        parts = [self.rounds.tobytes(), *(self.measures[m].tobytes() for m in MEASURES if m not in TIMES)]
        return self.job.key.encode() + b"".join(parts)


def to_parquet(outcome: Outcome) -> bytes:
    """Return the file's bytes."""
    n = len(outcome.rounds)
    job = asdict(outcome.job) | {"evaluate_at": list(outcome.job.evaluate_at)}
    columns: dict[str, Any] = {"key": [outcome.job.key] * n, **{name: [job[name]] * n for name in _JOB}}
    columns |= {"round": outcome.rounds, **outcome.measures}
    table = pa.table(columns).replace_schema_metadata({"perturank": json.dumps(dict(outcome.made_by))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def from_parquet(content: bytes, name: str) -> Outcome:
    """Return the run in a file's bytes."""
    try:
        table = pq.read_table(pa.BufferReader(content))
        first = table.slice(0, 1).to_pylist()[0]
        job = Job(**{key: first[key] for key in _JOB} | {"evaluate_at": tuple(first["evaluate_at"])})
        measures = {m: table[m].to_numpy().astype(np.float64) for m in MEASURES}
        made_by = json.loads((table.schema.metadata or {})[b"perturank"])
        return Outcome(job, table["round"].to_numpy(), measures, made_by)
    except (pa.ArrowException, KeyError, IndexError, TypeError, ValueError) as error:
        raise BadInput(
            f"{name} is damaged or not a result ({type(error).__name__})", "delete it: the run is made again"
        ) from None
