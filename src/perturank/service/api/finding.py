"""The model that a request is about."""

from __future__ import annotations

from collections.abc import Callable

import anyio.to_thread

from perturank.service.hosting import Hosted
from perturank.service.service import Service
from perturank.service.spec import SpecRequest


async def hosted(service: Service, model: str, wanted: Callable[[], SpecRequest | None] | None = None) -> Hosted:
    """Return the model; one that is not known is looked for in the log, or made as wanted if it is the default."""
    if model in service.host:
        return service.host.get(model)
    return await anyio.to_thread.run_sync(service.model, model, wanted)
