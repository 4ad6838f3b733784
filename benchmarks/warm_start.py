"""How well a ranker does that begins with a teacher: before the first click, and how fast clicks overrule it.

`python -m benchmarks.warm_start --data FOLDER` takes MQ2008, trains LightGBM on half of the labels of each fold's
training queries, and follows each arm through simulated users. Every run is a line of JSON: NDCG@10 on the validation
and on the test queries after so many rounds, and that of the teacher. `--summarise FILE …` makes a table of such lines.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank import catalogue, clicks, datasets, machine, metrics
from perturank.core import Array, Interaction, Key, Query, Ranker, Ranking, streams, with_room
from perturank.datasets import Dataset, Fold
from perturank.errors import BadInput
from perturank.parts.standardised import Scale, Standardised, standardised
from perturank.simulation import Shelf, World, rounds_done
from perturank.teaching import distil, learn_labels

RANKER = "p2headrank"
USERS = ("perfect", "navigational", "informational")
ROUNDS = (0, 100, 1000, 5000, 10_000)
TOP = 10
L2_TAUGHT = 10.0
RIVAL = "pdgd-linear"
GREEDY = "greedy, "  # without exploration
ARMS = ("cold", RIVAL, "distilled", "greedy, distilled", "prior", "labels", "reversed, distilled", "reversed, prior")


class PriorInLastColumn(eqx.Module):
    """A ranker behind a scale whose last column is the prior: data sets of a simulation have features alone."""

    ranker: Any

    @classmethod
    def start(cls, settings: Any, n_features: int, key: Key) -> Self:
        """Refuse: there is a ranker inside."""
        raise BadInput("this ranker is made of another one", "use PriorInLastColumn(ranker)")

    @property
    def settings(self) -> Any:
        """The hyper-parameters of the ranker inside."""
        return self.ranker.settings

    @property
    def n_features(self) -> int:
        """The number of columns, the prior among them."""
        return int(self.ranker.n_features) + 1

    def _apart(self, query: Query) -> Query:
        return Query(query.features[:, :-1], query.mask, query.ids, query.features[:, -1], query.limits)

    def score(self, query: Query) -> Array:
        """Return the scores; [V]."""
        return self.ranker.score(self._apart(query))

    def rank(self, query: Query, key: Key, k: int = TOP) -> Ranking:
        """Return the list to show."""
        return self.ranker.rank(self._apart(query), key, k)

    def learn(self, interaction: Interaction, key: Key) -> Self:
        """Return the ranker that has learned from these clicks."""
        seen = Interaction(self._apart(interaction.shown), interaction.clicks, interaction.memo, interaction.rewards)
        return eqx.tree_at(lambda each: each.ranker, self, self.ranker.learn(seen, key))

    @property
    def is_bounded(self) -> bool:
        """Whether it forgets."""
        return bool(self.ranker.is_bounded)

    learning_only = ("ranker.ranker.history",)

    def with_room(self, n_rounds: int, k: int) -> Self:
        """Return the same with room for so many more rounds."""
        return eqx.tree_at(lambda each: each.ranker, self, self.ranker.with_room(n_rounds, k))

    def has_overflowed(self) -> Array:
        """Return whether more was learned than there was room for."""
        return self.ranker.has_overflowed()


def teacher_of(data: Dataset, seed: int) -> tuple[Any, Dataset]:
    """Return LightGBM's LambdaMART, trained on the labels of half of these queries, and that half."""
    import lightgbm

    half = data.take(np.random.default_rng(seed).permutation(data.n_queries)[: data.n_queries // 2])
    model = lightgbm.LGBMRanker(
        n_estimators=100,
        learning_rate=0.05,
        num_leaves=15,
        min_child_samples=20,
        random_state=seed,
        verbose=-1,
        n_jobs=1,
    )
    return model.fit(np.asarray(half.features), np.asarray(half.labels), group=half.lengths), half


def with_column(data: Dataset, column: np.ndarray) -> Dataset:
    """Return the data with one feature more."""
    features = np.column_stack([np.asarray(data.features), column]).astype(np.float32)
    return Dataset(data.name, features, data.labels, data.offsets, data.qids)


def arms(
    fold: Fold, seed: int, wanted: tuple[str, ...], options: dict[str, Any]
) -> Iterator[tuple[str, Ranker, Fold, dict[str, float]]]:
    """Yield each arm's ranker, the data that it sees, and the teacher's quality on each part."""
    model, half = teacher_of(fold.train, seed)
    scores = {part: model.predict(np.asarray(data.features)) for part, data in fold.splits.items()}
    quality = {part: ndcg(found, fold.splits[part]) for part, found in scores.items()}
    entry = catalogue.published(RANKER)
    # Without a teacher this setting changes nothing; with it all arms share their compiled programs.
    settings = entry.settings.changed(l2_taught=options.get("trust", L2_TAUGHT))
    new, greedy = entry.make(fold.n_features, streams(seed)[4], settings), settings.changed(noise_std=0.0, floor=0.0)
    train = fold.train
    for arm in wanted:
        sign = -1 if arm.startswith("reversed") else 1
        if arm == "cold":
            yield arm, new, fold, quality
        elif arm == RIVAL:
            yield arm, catalogue.published(RIVAL).make(fold.n_features, streams(seed)[4]), fold, quality
        elif arm.endswith("distilled"):
            pupil = entry.make(fold.n_features, streams(seed)[4], greedy) if arm.startswith(GREEDY) else new
            taught = distil(pupil, train.features, sign * scores["train"], train.lengths, seed=seed, **options)
            yield arm, taught, fold, quality
        elif arm == "labels":
            yield arm, learn_labels(new, half.features, half.labels, half.lengths, seed=seed), fold, quality
        else:
            parts: Any = {part: with_column(data, sign * scores[part]) for part, data in fold.splits.items()}
            d = fold.n_features
            scale = Scale(np.zeros(d + 1), np.ones(d + 1))
            of_prior = Scale.of(sign * scores["train"][:, None])
            scale.location[-1], scale.spread[-1] = of_prior.location[0], of_prior.spread[0]
            inside = entry.make(d + 1, streams(seed)[4])
            behind: Standardised = standardised(inside, scale, fixed=[*[True] * d, False])
            yield arm, PriorInLastColumn(behind), replace(fold, **parts), quality


def ndcg(scores: np.ndarray, data: Dataset) -> float:
    """Return the mean NDCG@10."""
    return float(metrics.mean_ndcg(scores, np.asarray(data.labels), np.asarray(data.offsets), k=TOP))


@eqx.filter_jit
def _scores(ranker: Ranker, queries: Query) -> Array:
    return jax.lax.map(ranker.score, queries)


def quality_of(ranker: Ranker, data: Dataset) -> float:
    """Return NDCG@10 of a ranker's best estimate."""
    size = int(np.max(data.lengths))
    mask = np.arange(size) < np.asarray(data.lengths)[:, None]
    features = np.zeros((*mask.shape, data.n_features), np.float32)
    features[mask] = np.asarray(data.features)
    blank = np.zeros((*mask.shape, 2), np.uint32), np.zeros(mask.shape, np.float32)
    found = np.asarray(_scores(ranker, Query(*jax.device_put((features, mask, *blank)))))[mask]
    return ndcg(found, data)


def followed(ranker: Ranker, fold: Fold, user: str, seed: int, rounds: tuple[int, ...]) -> dict[str, list[float]]:
    """Return NDCG@10 on the validation and on the test queries after so many rounds each."""
    world = World(Shelf.of(fold.train, TOP), clicks.user(user, fold.n_grades), streams(seed), TOP)
    found: dict[str, list[float]] = {"validation": [], "test": []}
    done = 0
    ranker = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, ranker)  # chunks use it up
    for stop in rounds:
        while done < stop:
            n = min(1000, stop - done)
            ranker = rounds_done(world, with_room(ranker, 1000, TOP), done, n)[0]
            done += n
        for part, qualities in found.items():
            qualities.append(quality_of(ranker, fold.splits[part]))
    return found


def table(runs: list[dict[str, Any]], part: str) -> Iterator[str]:
    """Yield the rows of a Markdown table: the mean of each arm less its teacher, and the mean of the worst fold."""
    for arm, options in sorted({(each["arm"], each["options"]) for each in runs}, key=lambda a: (ARMS.index(a[0]), a)):
        for user in USERS:
            found = [each for each in runs if (each["arm"], each["options"], each["user"]) == (arm, options, user)]
            less: dict[int, list[np.ndarray]] = {}
            n = min((len(each["rounds"]) for each in found), default=0)
            for each in found:
                less.setdefault(each["fold"], []).append(np.array(each["ndcg"][part][:n]) - each["teacher"][part])
            if found:
                folds = np.array([np.mean(of_seeds, 0) for of_seeds in less.values()])
                cells = [f"{mean:+.3f} ({worst:+.3f})" for mean, worst in zip(folds.mean(0), folds.min(0), strict=True)]
                yield f"| {arm} {options} | {user} | {len(found)} | {' | '.join(cells)} |".replace(" {}", "")


def main() -> None:
    """Run what is asked for, or summarise what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--summarise", type=Path, nargs="*")
    parser.add_argument("--folds", default="1,2,3,4,5")
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--users", default=",".join(USERS))
    parser.add_argument("--arms", default=";".join(ARMS))
    parser.add_argument("--rounds", default=",".join(map(str, ROUNDS)))
    parser.add_argument("--options", default="{}", help="of distil, as JSON")
    parser.add_argument("--part", default="test", help="validation, or test: what is summarised")
    asked = parser.parse_args()
    if asked.summarise:
        print("\n".join(table([json.loads(line) for file in asked.summarise for line in file.open()], asked.part)))
        return
    machine.pin_threads()
    machine.keep_compiled_programs()
    rounds = tuple(map(int, asked.rounds.split(",")))
    for number in map(int, asked.folds.split(",")):
        fold = datasets.load(asked.data, number)
        for seed in map(int, asked.seeds.split(",")):
            for arm, ranker, data, quality in arms(fold, seed, tuple(asked.arms.split(";")), json.loads(asked.options)):
                for user in asked.users.split(","):
                    found = followed(ranker, data, user, seed, rounds)
                    told = asked.options if arm.endswith("distilled") else "{}"
                    run = {"arm": arm, "options": told, "user": user, "fold": number, "seed": seed, "teacher": quality}
                    print(json.dumps(run | {"rounds": rounds, "ndcg": found}), flush=True)


if __name__ == "__main__":
    main()
