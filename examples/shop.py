"""A FastAPI application whose search learns from clicks.

    perturank serve
    uvicorn --app-dir examples shop:app
    curl 'http://127.0.0.1:8000/search?text=shoes'
    curl -X POST 'http://127.0.0.1:8000/click?impression=…&product=red-shoes'

Needs `perturank[service]` and `fastapi`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException, Request

from perturank import AsyncClient
from perturank.client import ServiceProblem

SERVICE = os.environ.get("PERTURANK_URL", "http://127.0.0.1:8765")
PRODUCTS = {  # price, rating, days since it came
    "red-shoes": (59.0, 4.6, 30),
    "blue-shoes": (49.0, 4.1, 400),
    "running-shoes": (129.0, 4.8, 5),
    "shoe-polish": (7.5, 3.9, 900),
    "green-hat": (19.0, 4.4, 60),
}


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    """Keep one client, and with it its connections, as long as the application runs."""
    async with AsyncClient(SERVICE, os.environ.get("PERTURANK_KEY"), timeout=30) as client:
        app.state.ranking = client
        yield


app = FastAPI(title="A shop that learns", lifespan=connected)


def features(product: str) -> list[float]:
    """Return what may tell how good a product is, on similar scales."""
    price, rating, days = PRODUCTS[product]
    return [price / 100, rating / 5, days / 365]


@app.get("/search")
async def search(text: str, request: Request) -> dict[str, Any]:
    """Return the products that match, ranked; without the ranking service they come as they are."""
    found = [product for product in PRODUCTS if text.rstrip("s") in product]
    if not found:
        return {"impression": None, "products": []}
    documents = [{"id": product, "features": features(product)} for product in found]
    try:
        shown = await request.app.state.ranking.rank(documents, query=text)
    except (httpx.TransportError, ServiceProblem) as problem:
        logging.getLogger("uvicorn.error").warning("not ranked: %s", problem)
        return {"impression": None, "products": found}
    return {"impression": shown.impression, "products": shown.ids}


@app.post("/click")
async def click(impression: str, product: str, request: Request) -> dict[str, str]:
    """Send a click back; it counts once, however often the browser sends it."""
    try:
        return {"status": await request.app.state.ranking.feedback(impression, [product], final=False)}
    except ServiceProblem as problem:
        raise HTTPException(problem.status, str(problem)) from None
