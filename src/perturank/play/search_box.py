"""A search box in front of the service: candidates and features from here, the order and the learning from there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from perturank.catalogue import rankers
from perturank.client import AsyncClient, Place, ShownList
from perturank.errors import unknown
from perturank.play.corpus import LibraryDocument
from perturank.play.features import NAMES, Features
from perturank.play.search_engine import MOST, Candidates, SearchEngine

LEARNING = "library"  # the model that learns; another may be put beside it
RANKER = "p2headrank"
SETTINGS: dict[str, Any] = {  # so that a few clicks show: see docs/play.md
    "loss": "symmetric",
    "n_steps": 8,
    "l2": 0.3,
    "l2_output": 3.0,
    "l2_hidden": 0.3,
    "noise_std": 0.03,
    "early_noise": 1.0,
    "floor": 0.0,
}
PLACES = 10
PRIOR = 12.0  # how far the first of BM25's list is above a document that does not match


def model_spec(ranker: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the body of PUT /v1/models/{model}."""
    return {
        "n_features": len(NAMES),
        "ranker": ranker,
        "settings": settings,
        "features": [{"name": name} for name in NAMES],
        "places": PLACES,
        "seed": seed,
        "scaling": "none",  # the features have one scale, and PRIOR was chosen for it
    }


def model_beside(ranker: str) -> str:
    """Return the name of the model of a ranker that is put beside; a ranker that does not exist is refused."""
    if ranker not in rankers():
        raise unknown("ranker", ranker, rankers())
    return f"{LEARNING}-beside-{ranker}"


@dataclass(frozen=True)
class Question:
    """A query with everything the ranker is told of it, in BM25's order: features [n, d] and prior [n]."""

    candidates: Candidates
    features: np.ndarray
    prior: np.ndarray
    ids: list[str]


class Library:
    """The documents, with their search engine and their features: everything that is known before the first click."""

    def __init__(self, documents: Sequence[LibraryDocument]) -> None:
        self.documents = list(documents)
        self._engine, self._features = SearchEngine(documents), Features(documents)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each document by its path."""
        return {document.path: row for row, document in enumerate(self.documents)}

    def bm25_place(self, query: str, row: int) -> int:
        """Return where BM25 has a document, from 0; one that is not a candidate stands last."""
        found = np.flatnonzero(self._engine.best(query) == row)
        return int(found[0]) if found.size else MOST

    def question(self, query: str) -> Question:
        """Return the candidates for this query, best first by BM25, as the ranker is told of them."""
        found = self._engine.candidates(query)
        ids = [self.documents[row].path for row in found.rows]
        return Question(found, self._features.of(found), prior(found), ids)


def prior(candidates: Candidates) -> np.ndarray:
    """Return BM25 of the whole text as scores for the ranker to begin with: 0 to PRIOR, in BM25's order; [n]."""
    scores = candidates.scores["whole"]
    return np.asarray(PRIOR * scores / max(float(scores.max(initial=0)), 1e-6), np.float32)


@dataclass(frozen=True)
class Results:
    """The lists of one search, by model: the learning one's first."""

    query: str
    question: Question
    lists: dict[str, ShownList]


@dataclass(frozen=True)
class PlaceInList:
    """The best estimate's list for a question: paths, mean scores, and the share of pairs without a certain order."""

    version: int
    paths: list[str]
    scores: list[float]
    uncertain: float | None

    def place(self, path: str) -> int | None:
        """Return where a document stands, from 1; None: not in the list."""
        return self.paths.index(path) + 1 if path in self.paths else None

    def lead(self, path: str, over: str) -> float | None:
        """Return how much higher the one is scored than the other."""
        known = dict(zip(self.paths, self.scores, strict=True))
        return known[path] - known[over] if path in known and over in known else None


class SearchBox:
    """Asks the service over HTTP, as any application would."""

    def __init__(self, library: Library, client: AsyncClient, seed: int, settings: dict[str, Any]) -> None:
        self.library, self.client = library, client
        self._seed, self._settings = seed, SETTINGS | settings
        self.beside: str | None = None  # the ranker that is compared
        self.settings: dict[str, dict[str, Any]] = {}  # of each model, as the service has them

    @property
    def models(self) -> list[str]:
        """The models that are asked, the learning one first."""
        return [LEARNING] if self.beside is None else [LEARNING, model_beside(self.beside)]

    async def open(self) -> None:
        """Make the learning model; one that is there already goes on."""
        await self._put(LEARNING, model_spec(RANKER, self._settings, self._seed))

    async def compare(self, ranker: str | None) -> None:
        """Put another ranker beside the learning one; None: none."""
        if ranker is not None:
            await self._put(model_beside(ranker), model_spec(ranker, {}, self._seed))
        self.beside = ranker

    async def _put(self, model: str, spec: dict[str, Any]) -> None:
        made = await self.client.put_model(model, **spec, begin_anew=True)  # a game with other rules is a new one
        self.settings[model] = made["spec"].get("settings", {})  # random lists have none

    async def search(self, query: str, source: str) -> Results:
        """Return each model's list for this query; no candidate, no list."""
        question, models = self.library.question(query), self.models
        if not question.ids:
            return Results(query, question, {})
        asked = [
            self.client.rank_arrays(
                question.ids, question.features, question.prior, model=model, source=source, query=query
            )
            for model in models
        ]
        return Results(query, question, dict(zip(models, await asyncio.gather(*asked), strict=True)))

    async def click(self, found: Results, model: str, paths: Sequence[str]) -> str:
        """Return what the service made of the clicks on one of the lists."""
        return await self.client.feedback(found.lists[model].impression, paths, model=model, final=True)

    async def standing(self, question: Question, model: str = LEARNING) -> PlaceInList:
        """Return how the model would rank this question now, without exploring."""
        told = zip(question.ids, question.features.tolist(), question.prior.tolist(), strict=True)
        documents = [{"id": path, "features": row, "prior": prior} for path, row, prior in told]
        answer = await self.client.explain(documents, model=model)
        ranking = answer["ranking"]
        paths, scores = [each["id"] for each in ranking], [each["score"] for each in ranking]
        return PlaceInList(answer["version"], paths, scores, _uncertain(ranking))

    async def n_learned(self, model: str = LEARNING) -> int:
        """Return how many lists the served version has learned from."""
        return int((await self.client.model(model))["learned"])


def _uncertain(ranking: Sequence[Place]) -> float | None:
    """Return the share of pairs in the list that have no certain order; None: the ranker knows of none."""
    if len(ranking) < 2 or "certainly_after" not in ranking[0]:
        return None
    shown = {each["id"] for each in ranking}
    n_certain = sum(len(shown & set(each["certainly_after"])) for each in ranking)
    return 1 - n_certain / (len(shown) * (len(shown) - 1) / 2)
