"""Who is judged: a version, a file, another ranker that learns from the same log, or the caller's own order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from perturank import storage
from perturank.catalogue import rankers
from perturank.core import Array, Query, Ranker, bucket
from perturank.service.evaluation.traffic import JudgedList, Traffic
from perturank.service.learner import replay
from perturank.service.log import Log, snapshots
from perturank.service.log.candidates import Candidates
from perturank.service.log.refusals import NotKnown, Refused
from perturank.service.log.spec import Spec

OWN = "own"
LEARNS_FROM = 0.5  # share of the lists that can be judged


@dataclass(frozen=True)
class Challenger:
    """A ranker without exploration: its whole order of some candidates, and from where on it may be judged.

    Lists up to `after` taught it.
    """

    name: str
    order: Callable[[Candidates], list[int]]
    after: int
    note: str = ""


def query_of(candidates: Candidates, places: int) -> Query:
    """Return the candidates as the service shows them to a ranker, padded to the same length."""
    n = len(candidates.ids)
    v = bucket(max(n, places))
    features, prior = np.zeros((v, candidates.features.shape[1]), np.float32), np.zeros(v, np.float32)
    features[:n] = candidates.features
    if candidates.prior is not None:
        prior[:n] = candidates.prior
    ids = jnp.zeros((v, 2), jnp.uint32)  # ranking needs none
    return Query(jnp.asarray(features), jnp.asarray(np.arange(v) < n), ids, jnp.asarray(prior))


@eqx.filter_jit
def _best(ranker: Ranker, query: Query) -> Array:
    return jnp.argsort(jnp.where(query.mask, -ranker.score(query), jnp.inf), stable=True)


def best_order(ranker: Ranker, query: Query) -> list[int]:
    """Return the order of the best estimate, as the service shows it without exploration."""
    return np.asarray(_best(ranker, query))[: int(query.mask.sum())].tolist()


def challenger(
    log: Log, traffic: Traffic, against: str, settings: Mapping[str, str], seed: int, learns_from: float = LEARNS_FROM
) -> Challenger:
    """Return who is meant: `own`, the number of a version, a file of `perturank.save`, or the name of a ranker."""
    if settings and against not in rankers():
        raise Refused("--set changes a ranker that learns from this log", "name it with --against")
    if against == OWN:
        return Challenger("the caller's own order", lambda candidates: candidates.own_order, 0)
    if against.isdecimal():
        return _version(log, traffic, int(against))
    if against in rankers():
        return _learner(log, traffic, Spec.other(against, settings, seed), learns_from)
    if Path(against).is_file():
        return _file(traffic, Path(against))
    raise Refused(f"there is no ranker, version or file {against!r}", "say own, a version, a file, or a ranker's name")


def _ranked(name: str, ranker: Ranker, traffic: Traffic, after: int, note: str = "") -> Challenger:
    places = traffic.spec.places
    return Challenger(name, lambda candidates: best_order(ranker, query_of(candidates, places)), after, note)


def _version(log: Log, traffic: Traffic, version: int) -> Challenger:
    found = snapshots.found(log, traffic.model, version)
    if found is None:
        raise NotKnown(f"model {traffic.model!r} has no version {version}", "list its versions")
    spec = traffic.spec_of(log, found)
    if spec.reading != traffic.spec.reading:
        what = (
            f"version {version} of generation {found.snapshot.generation} read other features than the model does now"
        )
        raise Refused(what, "name a version of the present generation")
    content = log.stored(snapshots.version_name(traffic.model, version))
    if content is not None and snapshots.checksum(content) == found.snapshot.checksum:
        ranker = snapshots.ranker_of(content, f"version {version}", spec)[0]
    else:
        ranker = spec.adapt(replay.rebuild_version(log, traffic.model, version))
    return _ranked(f"version {version}", ranker, traffic, found.position)


def _file(traffic: Traffic, path: Path) -> Challenger:
    arrays, header = storage.unpacked(path.read_bytes(), str(path))
    if header.get("n_features") != traffic.spec.n_features:
        what = f"{path} ranks documents of {header.get('n_features')} features"
        raise Refused(what, f"those of model {traffic.model!r} have {traffic.spec.n_features}")
    note = "If it has learned from these lists, judge it on later ones with --after."
    return _ranked(path.name, storage.restored(arrays, header, str(path)), traffic, 0, note)


def _learner(log: Log, traffic: Traffic, spec: Spec, share: float) -> Challenger:
    """Return another ranker that has learned from the records up to some list, as the model itself did."""
    at = _split(traffic.lists, share, traffic)
    ranker = replay.rebuild(log, traffic.model, at=at, instead=spec).ranker
    note = f"It learned from the records up to position {at} and is judged on the lists after it."
    return _ranked(spec.ranker, ranker, traffic, at, note)


def _split(lists: list[JudgedList], share: float, traffic: Traffic) -> int:
    """Return the position up to which another ranker learns."""
    if len(lists) < 2:
        raise Refused(f"the log of model {traffic.model!r} has {len(lists)} lists to judge by", WAIT)
    return lists[min(int(share * len(lists)), len(lists) - 1)].position


WAIT = "wait for more, or keep the candidates of more lists: `candidates` of the model says of how many"
