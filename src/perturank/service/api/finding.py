"""The model that a request is about."""

from __future__ import annotations

import anyio.to_thread

from perturank.service.hosting import Hosted
from perturank.service.service import Service


async def hosted(service: Service, model: str, n_features: int | None = None) -> Hosted:
    """Return the model; one that is not known is looked for in the log, or made if it is the default."""
    if model in service.host:
        return service.host.get(model)
    return await anyio.to_thread.run_sync(service.model, model, n_features)
