"""What a run came to, as one Parquet file: a row per evaluation, with everything that decided the run beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from perturank.errors import BadInput
from perturank.orders import Orders
from perturank.results.job import Job
from perturank.runs import Run

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    raise BadInput("results need pyarrow", "pip install 'perturank[results]'") from None

MEASURES = ("ndcg", "cumulative_ndcg", "regret", "uncertain", "width", "seconds", "certain_wrong")
TIMES = ("seconds",)  # all else is the same on every machine of a kind
NEWER = ("certain_wrong", "random_ndcg", "orders")  # columns that results of earlier versions lack
_JOB = {field.name: field.default for field in fields(Job)}


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """A finished run: `measures` holds an array per measure, one entry per round in `rounds`; NaN where undefined.

    `random_ndcg` is a random ranker's expected NDCG, NaN in results of earlier versions. `orders` has an entry per
    round where the job keeps them.
    """

    job: Job
    rounds: np.ndarray
    measures: Mapping[str, np.ndarray]
    made_by: Mapping[str, Any]
    random_ndcg: float = float("nan")
    orders: tuple[Orders, ...] = ()

    @classmethod
    def of(cls, job: Job, run: Run, made_by: Mapping[str, Any]) -> RunOutcome:
        """Return what is kept of a run."""
        found = {
            name: np.array([np.nan if (v := getattr(c, name)) is None else v for c in run.checkpoints], np.float64)
            for name in MEASURES
        }
        rounds = np.array([c.round for c in run.checkpoints], np.int64)
        return cls(job, rounds, found, made_by, run.random_ndcg, run.orders)

    def last(self, measure: str) -> float:
        """Return a measure after the last round."""
        return float(self.measures[measure][-1])

    @property
    def is_collapse(self) -> bool | None:
        """Whether the run ended below a random ranker; None where that is not known."""
        return None if np.isnan(self.random_ndcg) else self.last("ndcg") < self.random_ndcg

    def bits(self) -> bytes:
        """Return what must be the same however often the run is made on machines of one kind."""
        parts = [self.rounds.tobytes(), *(self.measures[m].tobytes() for m in MEASURES if m not in TIMES)]
        return self.job.key.encode() + b"".join([*parts, *map(_to_bytes, self.orders)])

    def agrees(self, other: RunOutcome) -> bool:
        """Say whether two results of one job have the same bits, but for what an earlier version did not measure."""
        known = [m for m in MEASURES if not (m in NEWER and _is_unknown(self, m) != _is_unknown(other, m))]
        return self.rounds.tobytes() == other.rounds.tobytes() and all(
            self.measures[m].tobytes() == other.measures[m].tobytes() for m in known if m not in TIMES
        )


def _is_unknown(outcome: RunOutcome, measure: str) -> bool:
    return bool(np.isnan(outcome.measures[measure]).all())


def _to_bytes(orders: Orders) -> bytes:
    return save(orders.arrays)


def to_parquet(outcome: RunOutcome) -> bytes:
    """Return the file's bytes."""
    n = len(outcome.rounds)
    job = asdict(outcome.job) | {"evaluate_at": list(outcome.job.evaluate_at)}
    columns: dict[str, Any] = {"key": [outcome.job.key] * n, **{name: [job[name]] * n for name in _JOB}}
    columns |= {"round": outcome.rounds, **outcome.measures, "random_ndcg": [outcome.random_ndcg] * n}
    orders = [_to_bytes(each) for each in outcome.orders]
    columns["orders"] = pa.array(orders, pa.binary()) if orders else pa.nulls(n, pa.binary())
    table = pa.table(columns).replace_schema_metadata({"perturank": json.dumps(dict(outcome.made_by))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def from_parquet(content: bytes, name: str) -> RunOutcome:
    """Return the run in a file's bytes."""
    try:
        table = pq.read_table(pa.BufferReader(content))
        first = table.slice(0, 1).to_pylist()[0]
        known = {key: first[key] for key, default in _JOB.items() if key in first or default is MISSING}
        job = Job(**known | {"evaluate_at": tuple(first["evaluate_at"])})
        rounds = table["round"].to_numpy()
        unknown = {m: np.full(len(rounds), np.nan) for m in NEWER if m not in first}
        measures = {m: unknown[m] if m in unknown else table[m].to_numpy().astype(np.float64) for m in MEASURES}
        made_by = json.loads((table.schema.metadata or {})[b"perturank"])
        orders = table["orders"].to_pylist() if job.keeps_orders else []
        seen = tuple(Orders.from_arrays(load(content)) for content in orders)
        return RunOutcome(job, rounds, measures, made_by, first.get("random_ndcg", float("nan")), seen)
    except (pa.ArrowException, SafetensorError, KeyError, IndexError, TypeError, ValueError) as error:
        raise BadInput(
            f"{name} is damaged or not a result ({type(error).__name__})", "delete it: the run is made again"
        ) from None
