"""What an impression keeps to judge other rankers by: candidates, probabilities of places, a digest of the query."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from helpers.service_small import impression, rows

from perturank.service.log.candidates import candidates_as_json, candidates_of, is_sampled, pack_candidates
from perturank.service.log.records import Impression, decoded, encoded, new_id, packed, query_seal
from perturank.service.log.refusals import Refused

IDS = ["a", "b", "c", "d", "e", "f"]
PRIOR = np.array([0, 5, 1, 4, 2, 3], np.float32)


def kept(shown: list[int], prior: np.ndarray | None, n: int = 6) -> Impression:
    features = rows(n)
    content = packed(features[shown], None if prior is None else prior[shown], [])
    found = pack_candidates(IDS[:n], features, prior, shown)
    return Impression(1, 0, "learn", [IDS[row] for row in shown], -1.0, content, candidates=found)


@pytest.mark.parametrize("shown", [[4, 0], [5, 4, 3, 2, 1, 0]])
@pytest.mark.parametrize("prior", [PRIOR, None])
def test_candidates_come_back_as_they_were_sent(shown: list[int], prior: np.ndarray | None) -> None:
    entry = decoded(encoded(kept(shown, prior)))
    assert isinstance(entry, Impression)
    found = candidates_of(entry)
    assert found is not None
    assert (found.ids, found.shown) == (IDS, shown)
    assert np.array_equal(found.features, rows(6))
    assert (None if found.prior is None else found.prior.tolist()) == (None if prior is None else prior.tolist())
    assert found.own_order == (list(range(6)) if prior is None else [1, 3, 5, 4, 2, 0])
    line = candidates_as_json(entry, with_features=True)["candidates"]
    assert line["ids"] == IDS
    assert np.array_equal(np.array(line["features"], np.float32), rows(6))


def test_an_impression_without_candidates_has_none() -> None:
    assert candidates_of(impression()) is None
    assert candidates_as_json(impression()) == {}


def test_candidates_that_cannot_be_read_are_refused() -> None:
    broken = msgspec.structs.replace(kept([0], None), candidates=b"no")
    with pytest.raises(Refused, match="cannot be read"):
        candidates_of(broken)
    with pytest.raises(Refused, match="cannot be read"):
        candidates_of(msgspec.structs.replace(kept([0], None), ids=["z"]))


def test_the_id_of_an_impression_decides_whether_its_candidates_are_kept() -> None:
    names = [new_id(7) for _ in range(4000)]
    assert all(is_sampled(name, 1.0) for name in names)
    assert not any(is_sampled(name, 0.0) for name in names)
    found = [is_sampled(name, 0.05) for name in names]
    assert found == [is_sampled(name, 0.05) for name in names]
    assert 120 < sum(found) < 290  # five standard deviations


def test_a_record_of_an_earlier_version_has_none_of_it() -> None:
    early = encoded(impression())
    fields = msgspec.msgpack.decode(early)
    entry = decoded(msgspec.msgpack.encode(fields[: 1 + Impression.__struct_fields__.index("log_p")]))
    assert isinstance(entry, Impression)
    assert (entry.log_p, entry.place_log_p, entry.query, entry.query_text, entry.candidates) == (None,) * 5


def test_the_digest_of_a_query_needs_the_key() -> None:
    assert query_seal("red shoes", b"k" * 32) == query_seal("red shoes", b"k" * 32)
    assert query_seal("red shoes", b"k" * 32) != query_seal("red shoes", b"l" * 32)
    assert query_seal("red shoes", b"k" * 32) != query_seal("red shoe", b"k" * 32)
