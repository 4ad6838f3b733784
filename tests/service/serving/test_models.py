"""Which lists are answered at once."""

from __future__ import annotations

from helpers.service_small import request, rows

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
