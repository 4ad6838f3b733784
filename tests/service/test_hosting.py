"""Which lists are answered at once."""

from __future__ import annotations

from service_small import spec

from perturank.service.log import Log
from perturank.service.service import Service
from perturank.service.settings import ServeSettings
from perturank.service.spec import Exploration


def test_limits_are_compiled_anew_and_nothing_else_is(log: Log) -> None:
    service = Service(log, ServeSettings(documents=16))
    try:
        plain, limited = spec("random"), spec("random", exploration=Exploration(share=0.5))
        for wanted, n_left in ((plain, 1), (limited, 1), (spec("random", window=5.0), 0), (limited, 0)):
            service.put("m", wanted)
            todo = list(service.host.uncompiled())
            assert len(todo) == n_left
            for held, length in todo:
                assert not service.host.is_compiled(held, length)
                service.host.compile(held, length)
                assert service.host.is_compiled(held, length)
    finally:
        service.close()
