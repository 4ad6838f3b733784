from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.play_small import DOCUMENTS

from perturank.play.search_engine import Index, SearchEngine


@pytest.fixture(scope="module")
def engine() -> SearchEngine:
    return SearchEngine(DOCUMENTS)


def names(engine: SearchEngine, query: str) -> list[str]:
    return [DOCUMENTS[row].path for row in engine.candidates(query).rows]


def test_bm25_is_lucenes_formula() -> None:
    texts = [["a", "b", "a"], ["b"], ["c", "c", "c", "c"]]
    scores = Index(texts).scores(["a", "nobody"])
    k1, b, mean = 1.5, 0.75, 8 / 3
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 / (2 + k1 * (1 - b + b * 3 / mean))
    np.testing.assert_allclose(scores, [expected, 0, 0], rtol=1e-5)


def test_candidates_come_best_first_and_words_match_by_their_stems(engine: SearchEngine) -> None:
    found = engine.candidates("joining pathnames")
    assert {DOCUMENTS[row].path for row in found.rows[:2]} == {"os.path.join", "ntpath.join"}
    assert (np.diff(found.scores["whole"]) <= 0).all()


def test_a_misspelt_name_is_found_by_its_letters(engine: SearchEngine) -> None:
    assert names(engine, "heapqush")[0] == "heapq.heappush"


def test_what_has_nothing_in_common_with_any_document_finds_nothing(engine: SearchEngine) -> None:
    assert names(engine, "zzz") == []
    assert names(engine, "") == []
    assert names(engine, "<>&\x00\U0001f600") == []


def test_no_more_candidates_than_asked_for(engine: SearchEngine) -> None:
    assert len(engine.candidates("join", most=2)) == 2
