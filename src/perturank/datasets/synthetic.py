"""Data made from a seed: `synthetic` has the shape of MSLR, `synthetic-linear` a known truth.

`synthetic-stream` has the law of `synthetic` and ever-new queries beside a head that is asked again
and again, as search engines see them: a ranker cannot earn cumulative NDCG by memorising queries.

One seed gives the same bytes in every process (for one version of NumPy). The law, by contrast,
is fixed: all seeds and all splits are samples of the same world, so results are comparable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from perturank.datasets.dataset import Dataset, Head
from perturank.datasets.fold import Fold
from perturank.datasets.grouping import normalised as scaled_per_query
from perturank.datasets.linear_truth import linear
from perturank.errors import BadInput

Floats = NDArray[np.float64]

N_QUERIES = 300
N_NEW = 5000  # queries of a stream beside its head: enough for as many rounds
HEAD = Head(n=50, p=0.3)
N_FEATURES = 136
N_GRADES = 5
SUMMARIES = {
    "synthetic": "made from a seed in the shape of MSLR: 136 features, 40 to 200 documents a query, five grades",
    "synthetic-linear": "made from a seed with a known linear truth, as the paper's theorem assumes: 10 features",
    "synthetic-stream": "as synthetic, but a stream of new queries beside a repeated head; 20 to 60 documents a query",
}
DEFAULT_SIZES = {"synthetic": N_QUERIES, "synthetic-linear": N_QUERIES, "synthetic-stream": N_NEW}

LAW_SEED = 20_230_501
N_LATENT = 10  # what a document is like; 0 to 3 matter linearly, 4 to 8 through interactions, 9 not at all
N_STREAMS = 5  # as MSLR measures each quantity on body, anchor, title, URL and the whole document
N_KINDS = 25
QUERY_STD = 0.55  # some queries have many good documents, others few
P_HOPELESS = 0.03  # the share of queries for which the index holds nothing relevant
NOISE_STD = 0.65  # judges disagree; together with the features' own noise it bounds what can be learned
# Cuts of the hidden relevance that give MSLR's shares of grades; measured on 20,000 queries.
CUTS = (0.18, 1.52, 2.76, 3.52)


@dataclass(frozen=True)
class _Lengths:
    """How many documents queries have: a rounded normal, clipped."""

    mean: float
    std: float
    shortest: int
    longest: int

    def draw(self, n: int, rng: Generator) -> NDArray[np.int64]:
        """Return the lengths of n queries; [n]."""
        return np.clip(np.rint(rng.normal(self.mean, self.std, n)), self.shortest, self.longest).astype(np.int64)


OF_MSLR = _Lengths(120, 35, 40, 200)
SHORT = _Lengths(40, 10, 20, 60)  # so that thousands of queries fit in memory
N_HELD_OUT = 300  # validation and test queries of a stream: as many documents as `synthetic` holds out
QUERIES_AT_ONCE = 250  # keeps the float64 copies of a stream small


@dataclass(frozen=True)
class FeatureLaw:
    """How latent qualities show in the features: weights [K, d], and a shape for each feature."""

    weights: Floats
    noise_std: Floats
    location: Floats
    spread: Floats
    kind: NDArray[np.int64]


def generated(name: str, n_queries: int, seed: int, n_features: int | None, normalise: bool) -> Fold:
    """Return generated data by name."""
    if name == "synthetic-linear":
        return linear(n_queries, seed, **({} if n_features is None else {"d": n_features}))
    if n_features not in (None, N_FEATURES):
        raise BadInput(f"{name} has {N_FEATURES} features, not {n_features}", "leave n_features out")
    if name == "synthetic-stream":
        return stream(n_queries, seed, normalise=normalise)
    return mslr_like(n_queries, seed, normalise=normalise)


def mslr_like(n_queries: int = N_QUERIES, seed: int = 0, *, normalise: bool = True) -> Fold:
    """Return data in the shape of MSLR; validation and test have a third as many queries, at least ten."""
    held_out = max(10, n_queries // 3)
    streams = np.random.SeedSequence(seed).spawn(3)
    sizes = {"train": n_queries, "validation": held_out, "test": held_out}
    train, validation, test = (
        _split(split, size, OF_MSLR, np.random.default_rng(stream), normalise)
        for (split, size), stream in zip(sizes.items(), streams, strict=True)
    )
    return Fold("synthetic", 1, 1, train, validation, test, N_GRADES)


def stream(n_new: int = N_NEW, seed: int = 0, *, normalise: bool = True) -> Fold:
    """Return a stream: its head, then n_new queries, with which any longer stream begins too."""
    head, new, *held_out = np.random.SeedSequence(seed).spawn(4)

    def part(names: str, size: int, sequence: SeedSequence) -> Dataset:
        return _split(names, size, SHORT, np.random.default_rng(sequence), normalise)

    blocks = new.spawn(-(-n_new // QUERIES_AT_ONCE))
    parts = [part("head", HEAD.n, head), *(part(f"new-{i}", QUERIES_AT_ONCE, block) for i, block in enumerate(blocks))]
    train = Dataset.joined(parts, "synthetic-stream train").between(0, HEAD.n + n_new)
    validation, test = (
        replace(part(split, N_HELD_OUT, sequence), name=f"synthetic-stream {split}")
        for split, sequence in zip(("validation", "test"), held_out, strict=True)
    )
    return Fold("synthetic-stream", 1, 1, replace(train, head=HEAD), validation, test, N_GRADES)


def _split(split: str, n_queries: int, of: _Lengths, rng: Generator, normalise: bool) -> Dataset:
    lengths = of.draw(n_queries, rng)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    query = np.repeat(np.arange(n_queries), lengths)
    latent = rng.normal(size=(len(query), N_LATENT))
    hidden = _relevance(latent) + QUERY_STD * rng.normal(size=n_queries)[query]
    hidden += NOISE_STD * rng.normal(size=len(query))
    hopeless = rng.random(n_queries) < P_HOPELESS
    labels = np.where(hopeless[query], 0, np.searchsorted(CUTS, hidden)).astype(np.int8)
    raw = _features(latent, query, rng)
    features = scaled_per_query(raw, offsets) if normalise else raw.astype(np.float32)
    qids = np.array([f"{split}-{i}" for i in range(n_queries)])
    return Dataset(f"synthetic {split}", features, labels, offsets, qids)


def _relevance(z: Floats) -> Floats:
    """Return the hidden relevance: a linear part, and interactions that no linear ranker can follow."""
    linear_part = z[:, :4] @ np.array([0.6, 0.45, 0.3, 0.2])
    together = np.tanh(z[:, 4] * z[:, 5])  # good only where both are high, or both low
    just_right = 1 - np.minimum(np.abs(z[:, 6]), 2)  # neither too much nor too little
    gated = np.where(z[:, 7] > 0, z[:, 8], -z[:, 8])
    return np.asarray(linear_part + 0.9 * together + 0.7 * just_right + 0.4 * gated, np.float64)


def _features(latent: Floats, query: NDArray[np.int64], rng: Generator) -> Floats:
    law = feature_law()
    signal = latent @ law.weights + law.noise_std * rng.normal(size=(len(latent), N_FEATURES))
    rarity = rng.gamma(4.0, 1.0, size=int(query[-1]) + 1)[query]  # of the query's terms, as in tf-idf
    values = np.empty_like(signal)
    for kind, shape in enumerate(SHAPES):
        columns = law.kind == kind
        strength = law.location[columns] + law.spread[columns] * signal[:, columns]
        values[:, columns] = shape(strength, rarity[:, None])
    return values


def _count(strength: Floats, rarity: Floats) -> Floats:
    return np.floor(np.exp(np.minimum(strength, 8)))


def _log_normal(strength: Floats, rarity: Floats) -> Floats:
    return np.minimum(np.exp(strength), 1e8)


def _yes_or_no(strength: Floats, rarity: Floats) -> Floats:
    return (strength > 0).astype(np.float64)


def _tf_idf(strength: Floats, rarity: Floats) -> Floats:
    return rarity * np.log1p(np.exp(strength))


def _share(strength: Floats, rarity: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-strength)), np.float64)


def _log_probability(strength: Floats, rarity: Floats) -> Floats:
    return strength - 5 * rarity


SHAPES = (_count, _log_normal, _yes_or_no, _tf_idf, _share, _log_probability)


@cache
def feature_law() -> FeatureLaw:
    """Return how features follow from the qualities of a document; the same for all data made here."""
    rng = np.random.default_rng(LAW_SEED)
    column = np.arange(N_FEATURES)
    group = np.where(column < N_KINDS * N_STREAMS, column // N_STREAMS, column - N_KINDS * (N_STREAMS - 1))
    weights = np.zeros((N_LATENT, N_FEATURES))
    weights[group % N_LATENT, np.arange(N_FEATURES)] = 1.0
    weights += 0.12 * rng.normal(size=weights.shape)
    kind = np.array([0, 3, 4, 1, 5, 1, 0, 2, 3, 4])[(group + group // N_LATENT) % 10]
    location = np.choose(kind, [1.0, 9.0, -0.5, 0.0, 0.0, 0.0]) + 0.3 * rng.normal(size=N_FEATURES)
    spread = np.choose(kind, [0.7, 1.8, 1.0, 1.0, 1.2, 3.0])
    return FeatureLaw(weights, rng.uniform(0.3, 1.0, N_FEATURES), location, spread, kind)
