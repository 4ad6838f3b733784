"""A FastAPI application whose search learns from clicks.

    perturank serve
    uvicorn --app-dir examples shop:app
    curl 'http://127.0.0.1:8000/search?text=shoes'
    curl -X POST 'http://127.0.0.1:8000/click?impression=…&product=red-shoes'

A list is never waited for longer than a second: without one, products come as they are. A click is learned half
a minute after the last one on its list. Needs `perturank[service]` and `fastapi`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Cookie, FastAPI, HTTPException, Request

from perturank import AsyncClient
from perturank.client import Feature, NoAnswer, ServiceProblem

SERVICE = os.environ.get("PERTURANK_URL", "http://127.0.0.1:8765")
MODEL = "shop"
FEATURES = [  # brought to a size around 1 by the service
    Feature("price", shift=50.0, scale=50.0),
    Feature("rating", shift=4.0, scale=0.5),
    Feature("days", shift=365.0, scale=365.0),
]
PRODUCTS = {
    "red-shoes": {"price": 59.0, "rating": 4.6, "days": 30.0},
    "blue-shoes": {"price": 49.0, "rating": 4.1, "days": 400.0},
    "running-shoes": {"price": 129.0, "rating": 4.8, "days": 5.0},
    "shoe-polish": {"price": 7.5, "rating": 3.9, "days": 900.0},
    "green-hat": {"price": 19.0, "rating": 4.4, "days": 60.0},
}
lines = logging.getLogger("uvicorn.error")


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    """Keep one client, and with it its connections, as long as the application runs."""
    async with AsyncClient(SERVICE, os.environ.get("PERTURANK_KEY")) as client:
        app.state.ranking = client
        making = asyncio.create_task(make(client))
        yield
        making.cancel()


async def make(client: AsyncClient) -> None:
    """Make the model as soon as the service is there; one that is the same already goes on. Needs a key for admins."""
    try:
        await client.limited(patience=math.inf).put_model(
            MODEL, n_features=len(FEATURES), features=FEATURES, window=600.0
        )
    except ServiceProblem as problem:
        lines.error("no model: %s", problem)


app = FastAPI(title="A shop that learns", lifespan=connected)


@app.get("/search")
async def search(text: str, request: Request, session: Annotated[str | None, Cookie()] = None) -> dict[str, Any]:
    """Return the products that match, ranked; without the ranking service they come as they are."""
    found = [product for product in PRODUCTS if text.rstrip("s") in product]
    if not found:
        return {"impression": None, "products": []}
    documents = [{"id": product, "features": PRODUCTS[product]} for product in found]
    at_once = request.app.state.ranking.limited(timeout=1.0, patience=0.0)
    try:
        shown = await at_once.rank(documents, model=MODEL, query=text, source=session)
    except (NoAnswer, ServiceProblem) as problem:
        lines.warning("not ranked: %s", problem)
        return {"impression": None, "products": found}
    return {"impression": shown.impression, "products": shown.ids}


@app.post("/click")
async def click(impression: str, product: str, request: Request) -> dict[str, str]:
    """Send a click back; it counts once, however often the browser sends it."""
    try:
        return {"status": await request.app.state.ranking.feedback(impression, [product], model=MODEL)}
    except ServiceProblem as problem:
        raise HTTPException(problem.status, str(problem)) from None
    except NoAnswer as problem:
        raise HTTPException(503, str(problem)) from None
