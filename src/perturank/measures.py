"""Measures of lists by the names that `ir_measures` gives them: nDCG@10, RR, AP(rel=2)@100, P@5, R@10, Success@1.

They mean what trec_eval means by them: a query without a relevant document counts as 0, and the gain of nDCG is the
grade itself unless it is asked for as `nDCG(dcg='exp-log2')@10`, which is the NDCG of the experiments here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perturank.errors import BadInput, unknown

NAME = re.compile(r"(?P<kind>[A-Za-z]+)(\((?P<options>[^)]*)\))?(@(?P<cutoff>[1-9]\d*))?")
OPTION = re.compile(r"\s*(\w+)\s*=\s*['\"]?([\w-]+)['\"]?\s*")
GAINS = ("log2", "exp-log2")


def _ndcg(grades: np.ndarray, ideal: np.ndarray, asked: Measure) -> float:
    def dcg(listed: np.ndarray) -> float:
        gains = 2.0**listed - 1 if asked.dcg == "exp-log2" else np.maximum(listed, 0).astype(float)
        top = gains[: asked.cutoff]
        return float(np.sum(top / np.log2(np.arange(2, len(top) + 2))))

    best = dcg(ideal)
    return dcg(grades) / best if best > 0 else 0.0


def _rr(grades: np.ndarray, ideal: np.ndarray, asked: Measure) -> float:
    (found,) = np.nonzero(grades[: asked.cutoff] >= asked.rel)
    return 1.0 / (found[0] + 1) if len(found) else 0.0


def _ap(grades: np.ndarray, ideal: np.ndarray, asked: Measure) -> float:
    n, relevant = int(np.sum(ideal >= asked.rel)), grades[: asked.cutoff] >= asked.rel
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return float(np.sum(precision[relevant]) / n) if n else 0.0


def _p(grades: np.ndarray, ideal: np.ndarray, asked: Measure) -> float:
    return float(np.sum(grades[: asked.cutoff] >= asked.rel) / (asked.cutoff or len(grades)))


def _r(grades: np.ndarray, ideal: np.ndarray, asked: Measure) -> float:
    n = int(np.sum(ideal >= asked.rel))
    return float(np.sum(grades[: asked.cutoff] >= asked.rel) / n) if n else 0.0


def _success(grades: np.ndarray, ideal: np.ndarray, asked: Measure) -> float:
    return float((grades[: asked.cutoff] >= asked.rel).any())


KINDS: dict[str, Callable[[np.ndarray, np.ndarray, Measure], float]] = {
    "nDCG": _ndcg,
    "RR": _rr,
    "AP": _ap,
    "P": _p,
    "R": _r,
    "Success": _success,
}
NEEDS_CUTOFF = ("P", "R", "Success")


@dataclass(frozen=True)
class Measure:
    """A measure: its kind, how far down it looks (None: all the way), and the least grade that is relevant."""

    kind: str
    cutoff: int | None = None
    rel: int = 1
    dcg: str = "log2"

    @classmethod
    def named(cls, name: str) -> Measure:
        """Return the measure of this name.

        >>> Measure.named("AP(rel=2)@100")
        Measure(kind='AP', cutoff=100, rel=2, dcg='log2')
        """
        found = NAME.fullmatch(name.strip())
        if found is None:
            raise BadInput(f"{name!r} is no name of a measure", "name one as ir_measures does: nDCG@10")
        kind, cutoff = found["kind"], found["cutoff"]
        if kind not in KINDS:
            raise unknown("measure", kind, KINDS)
        if cutoff is None and kind in NEEDS_CUTOFF:
            raise BadInput(f"{kind} needs a cutoff", f"write {kind}@10")
        options = dict(_option(text, name) for text in (found["options"] or "").split(",") if text.strip())
        rel, dcg = options.pop("rel", "1"), options.pop("dcg", "log2")
        if options or not rel.isdecimal() or dcg not in GAINS:
            raise BadInput(f"{name!r} has options that are not known", "there are rel=1 and, of nDCG, dcg='exp-log2'")
        return cls(kind, None if cutoff is None else int(cutoff), int(rel), dcg)

    def of_query(self, scores: ArrayLike, labels: ArrayLike) -> float:
        """Return the measure of one query's documents, sorted by score [n]; ties keep their order."""
        grades = np.asarray(labels)
        order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
        return KINDS[self.kind](grades[order], np.sort(grades)[::-1], self)

    def mean(self, scores: ArrayLike, labels: ArrayLike, group: ArrayLike) -> float:
        """Return the mean over queries: scores [n], labels [n], sizes of queries [q]."""
        ends = np.cumsum(np.asarray(group, np.int64))
        heights, grades = np.asarray(scores), np.asarray(labels)
        parts = zip(np.split(heights, ends[:-1]), np.split(grades, ends[:-1]), strict=True)
        return float(np.mean([self.of_query(*part) for part in parts]))


def _option(text: str, name: str) -> tuple[str, str]:
    found = OPTION.fullmatch(text)
    if found is None:
        raise BadInput(f"{text!r} in {name!r} is no option", "write rel=2")
    return found[1], found[2]
