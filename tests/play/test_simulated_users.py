from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from helpers.play_small import document

from perturank.clicks import user
from perturank.play.search_box import Library
from perturank.play.search_engine import STOP_WORDS, pieces, stem
from perturank.play.simulated_users import (
    ALIAS,
    EQUALLY_HARD,
    NAMESAKE,
    WANTED,
    KnownItems,
    KnownItemSearch,
    deal,
    other_form,
)


def some(library: Library, n: int, seed: int = 1) -> list[KnownItemSearch]:
    return list(itertools.islice(KnownItems(library.documents).searches(seed), n))


def test_a_seed_decides_what_is_searched(library: Library) -> None:
    assert some(library, 50) == some(library, 50)
    assert some(library, 50) != some(library, 50, seed=2)


def test_every_word_is_one_of_the_wanted_document(library: Library) -> None:
    for search in some(library, 300):
        wanted = library.documents[search.wanted]
        known = {stem(word) for word in pieces(f"{wanted.path} {wanted.summary}")}
        assert search.words
        for word in search.words.split():
            assert stem(word) in known or stem(other_form(word)) in known
            assert word not in STOP_WORDS


def test_people_look_for_what_programs_use(library: Library) -> None:
    counts = Counter(library.documents[search.wanted].path for search in some(library, 3000))
    # 41 modules and one against one
    assert 20 < counts["os.path.join"] / counts["ntpath.join"] < 80


def test_the_wanted_document_serves_best_then_its_alias_then_a_namesake(library: Library) -> None:
    items = KnownItems(library.documents)
    rows = [library.rows[path] for path in ("os.path.join", "ntpath.join", "threading.Thread.join", "json.dumps")]
    assert items.grades(rows[0], rows).tolist() == [WANTED, ALIAS, NAMESAKE, 0]
    user("perfect", WANTED + 1).check(items.grades(rows[0], rows))


def test_any_two_hundred_in_a_row_are_equally_hard_and_none_is_lost(library: Library) -> None:
    chance = np.random.default_rng(0)
    hardness = chance.integers(0, 50, 2000)
    given = [KnownItemSearch(str(i), int(hard)) for i, hard in enumerate(hardness)]
    got = list(itertools.islice(deal(iter(given), lambda each: each.wanted, np.random.default_rng(1)), 2000))
    assert sorted(got, key=lambda each: int(each.words)) == given
    means = np.array([each.wanted for each in got]).reshape(-1, EQUALLY_HARD).mean(1)
    assert np.ptp(means) < 0.5
    assert got != sorted(got, key=lambda each: each.wanted)


def test_documents_with_too_little_to_remember_are_not_looked_for() -> None:
    long = document("a.b", "Five different words about something interesting here.")
    items = KnownItems([document("a.c", "Short."), long])
    assert {search.wanted for search in itertools.islice(items.searches(1), 20)} == {1}
