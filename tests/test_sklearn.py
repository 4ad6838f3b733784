"""scikit-learn's and PyTerrier's own code runs our estimator as it is."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from perturank.core import Ensemble
from perturank.errors import BadInput
from perturank.evaluation import plain_query
from perturank.measures import Measure
from perturank.sklearn import ClickRanker


@parametrize_with_checks([ClickRanker("pdgd-linear")])  # type: ignore[untyped-decorator]
def test_scikit_learn_accepts_it(estimator: ClickRanker, check: Any) -> None:
    """None of its checks is left out; fit without a group takes all documents for one query."""
    check(estimator)


def labelled(seed: int, n_queries: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features in units of their own, grades 0 to 2 by the first of them, and the sizes of queries."""
    rng = np.random.default_rng(seed)
    group = rng.integers(5, 12, n_queries)
    x = rng.uniform(0, 1, (group.sum(), 4))
    return x * [1000, 1, 0.01, 1], np.minimum((3 * x[:, 0]).astype(int), 2), group


def test_labels_teach_every_ranker_of_an_ensemble() -> None:
    x, y, group = labelled(1)
    model = ClickRanker(settings={"widths": (8,), "budget": 64}).fit(x, y, group)
    new_x, new_y, new_group = labelled(2)
    assert model.score(new_x, new_y, new_group) > 0.95
    assert isinstance(model.ranker_, Ensemble)
    each = np.asarray(model.ranker_.scores(plain_query(new_x.astype(np.float32), len(new_x))))
    assert each.shape[1] == 2
    for scores in each.T:
        assert Measure.named("nDCG@10").mean(scores, new_y, new_group) > 0.9


def test_clicks_teach_it_and_go_on_from_labels() -> None:
    x, y, group = labelled(1)
    clicks = (y == 2).astype(int)
    model = ClickRanker("pdgd-linear").partial_fit(x, clicks, group)
    new_x, new_y, new_group = labelled(2)
    assert model.score(new_x, new_y, new_group) > 0.8
    before = model.predict(new_x)
    again = model.partial_fit(x[: group[0]], np.eye(1, group[0], dtype=int)[0])
    assert (again is model, model.n_lists_) == (True, len(group) + 1)
    assert not np.array_equal(model.predict(new_x), before)
    assert len(model.rank(new_x[:8], k=3)) == 3
    worth = model.partial_fit(x[:3], [0.0, 5.0, 1.0]).predict(new_x)
    assert np.isfinite(worth).all()


def test_queries_are_named_by_sizes_or_by_each_document() -> None:
    x, y, group = labelled(1)
    qid = np.repeat([f"q{i}" for i in range(len(group))], group)
    one, other = (ClickRanker("pdgd-linear").fit(x, y, **given) for given in ({"group": group}, {"qid": qid}))
    assert np.array_equal(one.predict(x), other.predict(x))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"group": group, "qid": qid}, "both given"),
        ({"group": group[:-1]}, "group adds up to"),
        ({"group": [-1, len(x) + 1]}, "group adds up to"),
        ({"group": [float(len(x))]}, "group adds up to"),
        ({"qid": qid[:-1]}, "qid has shape"),
        ({"qid": np.roll(qid, 1)}, "stand apart"),
    ]
    for given, says in wrong:
        with pytest.raises(BadInput, match=says):
            ClickRanker("pdgd-linear").fit(x, y, **given)


@pytest.mark.parametrize(
    "given, says",
    [
        ({"ranker": "p2lin"}, "did you mean 'p2linrank'"),
        ({"ranker": "p2linrank", "settings": {"lambda": 1}}, "unknown hyper-parameter 'lambda'"),
        ({"ranker": "dbgd-linear"}, "only from lists that it drew itself"),
        ({"ranker": "pdgd-linear", "scaling": "query"}, "unknown scaling 'query'"),
        ({"ranker": "pdgd-linear", "metric": "MAP"}, "unknown measure 'MAP'"),
    ],
)
def test_parameters_that_cannot_be_are_refused_by_fit(given: dict[str, Any], says: str) -> None:
    x, y, group = labelled(1)
    with pytest.raises(BadInput, match=says):
        ClickRanker(**given).fit(x, y, group)


def test_a_pickled_estimator_learns_on_to_the_same_bits() -> None:
    x, y, group = labelled(1)
    model = ClickRanker("p2linrank").fit(x, y, group)
    copied = pickle.loads(pickle.dumps(model))
    first = slice(0, group[0])
    one, other = (each.partial_fit(x[first], y[first] > 1).predict(x) for each in (model, copied))
    assert np.array_equal(one, other)


def test_it_stands_at_the_end_of_a_pipeline() -> None:
    x, y, group = labelled(1)
    model = Pipeline([("scale", MinMaxScaler()), ("rank", ClickRanker("pdgd-linear", scaling="none"))])
    model.fit(x, y, rank__group=group)
    assert Measure.named("nDCG@10").mean(model.predict(x), y, group) > 0.9


def frames(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return topics, results with features, and relevance judgements, as PyTerrier has them."""
    x, y, group = labelled(seed, n_queries=12)
    qids = np.repeat([f"q{i:02}" for i in range(len(group))], group)
    docnos = [f"d{i}" for i in range(len(x))]
    topics = pd.DataFrame({"qid": np.unique(qids), "query": "anything"})
    results = pd.DataFrame({"qid": qids, "query": "anything", "docno": docnos, "score": 0.0, "rank": 0})
    results["features"] = list(x)
    return topics, results, pd.DataFrame({"qid": qids, "docno": docnos, "label": y})


def test_pyterrier_trains_and_measures_it_as_any_other_learner() -> None:
    (_, train, judged), (topics, results, qrels) = frames(1), frames(2)
    learned: Any = pt.ltr.apply_learned_model(ClickRanker("pdgd-linear"), form="ltr")
    learned.fit(train, judged, results, qrels)
    ranked = learned.transform(results)
    assert ranked.sort_values(["qid", "rank"]).groupby("qid")["score"].is_monotonic_decreasing.all()
    pipeline = pt.Transformer.from_df(results) >> learned
    found = pt.Experiment([pipeline], topics, qrels, ["ndcg_cut_10"])
    assert found["ndcg_cut_10"][0] > 0.9
