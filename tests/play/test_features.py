from __future__ import annotations

import numpy as np
import pytest

from perturank.play.features import NAMES, OF_DOCUMENT, OF_MATCH
from perturank.play.search_box import PRIOR, Library


def value(library: Library, query: str, path: str, feature: str) -> float:
    question = library.question(query)
    return float(question.features[question.ids.index(path), NAMES.index(feature)])


def test_there_are_more_than_twenty_features_all_near_the_unit_interval(library: Library) -> None:
    assert len(NAMES) == len(set(NAMES)) > 20
    rows = library.question("join pathname thread list x string").features
    assert rows.shape[1] == len(NAMES)
    assert np.isfinite(rows).all()
    assert rows.min() >= 0
    assert rows.max() <= 1.5


@pytest.mark.parametrize(
    ("query", "feature", "expected"),
    [
        ("join", "name is the query", 1),
        ("join pathname", "name is the query", 0),
        ("join pathname", "name is a query word", 1),
        ("os.path.join", "name is a query word", 1),
        ("jo pathname", "a name term begins with a query word", 0.5),
        ("join pathname", "query terms in the name", 1 / 2),
        ("join os path", "module terms in the query", 1),
        ("join zebra", "query terms in the text", 1 / 2),
        ("pathname components", "neighbours in the query are neighbours in the text", 1),
        ("components pathname", "neighbours in the query are neighbours in the text", 0),
        ("join", "early in the text", 1),
        ("join", "letters shared with the name", 1),
        ("join", "is a function", 1),
        ("join", "depth", 2 / 4),
        ("join", "query terms", 1 / 8),
    ],
)
def test_a_feature_says_what_its_name_says(library: Library, query: str, feature: str, expected: float) -> None:
    assert value(library, query, "os.path.join", feature) == pytest.approx(expected)


def test_popularity_grows_with_the_modules_that_use_a_name(library: Library) -> None:
    uses = [value(library, "join", path, "uses") for path in ("ntpath.join", "os.path.join")]
    assert uses[0] == 0 < uses[1]


def test_the_prior_is_bm25s_own_order(library: Library) -> None:
    question = library.question("join pathname components")
    assert question.prior[0] == pytest.approx(PRIOR)
    assert (np.diff(question.prior) <= 0).all()


def test_a_query_without_candidates_has_no_rows(library: Library) -> None:
    assert library.question("zzz").features.shape == (0, len(NAMES))
    assert len(OF_MATCH) + len(OF_DOCUMENT) < len(NAMES)
