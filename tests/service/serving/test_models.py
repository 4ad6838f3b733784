"""Which lists are answered at once, and which version serves."""

from __future__ import annotations

from helpers import small
from helpers.service_small import closed, learned, lived, request, rows, spec

from perturank.service.learner.replay import rebuild
from perturank.service.log import Log
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.wire.specification import Exploration


def test_limits_are_compiled_anew_and_nothing_else_is(log: Log) -> None:
    service = Service(log, ServeSettings(max_documents=16))
    try:
        plain, limited = request("random"), request("random", exploration=Exploration(share=0.5))
        for wanted, n_left in ((plain, 1), (limited, 1), (request("random", window=5.0), 0), (limited, 0)):
            service.put("m", wanted)
            todo = list(service.models.uncompiled())
            assert len(todo) == n_left
            for loaded, length in todo:
                assert not service.models.is_compiled(loaded, length)
                service.models.compile(loaded, length)
                assert service.models.is_compiled(loaded, length)
    finally:
        service.close()


def test_limits_that_come_are_compiled_for_lists_in_use_before_they_are_served(log: Log) -> None:
    service = Service(log, ServeSettings(max_documents=100))
    try:
        plain, limited = request("random"), request("random", exploration=Exploration(share=0.5))
        service.put("m", plain, in_use=[16])  # nothing to go on from
        loaded = service.models.get("m")
        assert len(service.models.lengths(loaded.spec)) == 4
        for length in service.models.lengths(loaded.spec)[:3]:
            service.models.compile(loaded, length)
        service.put("m", limited, in_use=[3, 20, 100])
        loaded = service.models.get("m")
        assert [service.models.is_compiled(loaded, length) for length in (16, 32, 64, 128)] == [
            True,
            True,
            False,
            False,
        ]
        assert len(service.rank(loaded, list("abcd"), rows(), None).result().ids) == 4
    finally:
        service.close()


def test_a_version_of_an_earlier_generation_serves_in_every_process_until_it_is_unpinned(either: Log) -> None:
    service, other = (Service(either, ServeSettings(max_documents=16)) for _ in range(2))
    try:
        service.put("m", request("p2linrank"))
        learner = learned(either, spec("p2linrank"), 2)
        other.refresh()
        old = other.models.get("m").ranker
        service.put("m", request("p2linrank", seed=7), begin_anew=True)
        generation = service.models.get("m").generation
        service.pin("m", 2)
        other.refresh()
        lent = other.models.get("m")
        assert (lent.version, lent.n_learned, lent.generation, lent.spec.seed) == (2, 6, generation, 7)
        assert small.same_bits(lent.ranker, old)
        assert lent.drawing.seed == 1
        lived(either, spec("p2linrank", seed=7), 3, generation=generation, version=2)
        closed(either)
        assert learner.step() == 3
        other.refresh()
        assert other.models.get("m").version == 2
        assert other.rank(other.models.get("m"), list("abcd"), rows(), None).result().version == 2
        service.pin("m", None)
        other.refresh()
        assert (other.models.get("m").version, other.models.get("m").lent) == (3, None)
        assert rebuild(either, "m").differs is None
    finally:
        service.close()
        other.close()
