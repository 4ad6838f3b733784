"""A search box in front of the service: candidates and features from here, the order and the learning from there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perturank.client import AsyncClient, Place, ShownList
from perturank.play.library import Library, Question
from perturank.play.models import LEARNING, RANKER, SETTINGS, beside, spec


@dataclass(frozen=True)
class Found:
    """The lists of one search, by model: the learning one's first."""

    query: str
    question: Question
    lists: dict[str, ShownList]


@dataclass(frozen=True)
class Standing:
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
        return [LEARNING] if self.beside is None else [LEARNING, beside(self.beside)]

    async def open(self) -> None:
        """Make the learning model; one that is there already goes on."""
        await self._make(LEARNING, spec(RANKER, self._settings, self._seed))

    async def compare(self, ranker: str | None) -> None:
        """Put another ranker beside the learning one; None: none."""
        if ranker is not None:
            await self._make(beside(ranker), spec(ranker, {}, self._seed))
        self.beside = ranker

    async def _make(self, model: str, words: dict[str, Any]) -> None:
        made = await self.client.put_model(model, **words)
        self.settings[model] = made["spec"].get("settings", {})  # random lists have none

    async def search(self, query: str, source: str) -> Found:
        """Return each model's list for this query; no candidate, no list."""
        question, models = self.library.question(query), self.models
        if not question.ids:
            return Found(query, question, {})
        asked = [
            self.client.rank_arrays(
                question.ids, question.features, question.prior, model=model, source=source, query=query
            )
            for model in models
        ]
        return Found(query, question, dict(zip(models, await asyncio.gather(*asked), strict=True)))

    async def click(self, found: Found, model: str, paths: Sequence[str]) -> str:
        """Return what the service made of the clicks on one of the lists."""
        return await self.client.feedback(found.lists[model].impression, paths, model=model)

    async def standing(self, question: Question, model: str = LEARNING) -> Standing:
        """Return how the model would rank this question now, without exploring."""
        told = zip(question.ids, question.features.tolist(), question.prior.tolist(), strict=True)
        documents = [{"id": path, "features": row, "prior": prior} for path, row, prior in told]
        answer = await self.client.explain(documents, model=model)
        ranking = answer["ranking"]
        paths, scores = [each["id"] for each in ranking], [each["score"] for each in ranking]
        return Standing(answer["version"], paths, scores, _uncertain(ranking))

    async def learned(self, model: str = LEARNING) -> int:
        """Return how many lists the served version has learned from."""
        return int((await self.client.model(model))["learned"])


def _uncertain(ranking: Sequence[Place]) -> float | None:
    """Return the share of pairs in the list that have no certain order; None: the ranker knows of none."""
    if len(ranking) < 2 or "certainly_after" not in ranking[0]:
        return None
    shown = {each["id"] for each in ranking}
    n_certain = sum(len(shown & set(each["certainly_after"])) for each in ranking)
    return 1 - n_certain / (len(shown) * (len(shown) - 1) / 2)
