"""What the tests of the dashboard share: somebody who searches and clicks, and the page open before them."""

from __future__ import annotations

import re
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import Page, expect

from helpers.browser import Watched
from helpers.relay import Relay
from helpers.serving import SPEC, Serving

TAG = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"
N_DOCUMENTS = 8
N_FEATURES = 5


class Traffic:
    """Somebody who searches and clicks."""

    def __init__(self, serving: Serving, key: str | None = None) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self.http = httpx.Client(base_url=serving.url, headers=headers, timeout=120)
        self.n = 0

    def put(self) -> None:
        """Make the model."""
        self.http.put("/v1/models/m", json=SPEC).raise_for_status()

    def click(self, times: int = 1) -> None:
        """Ask for lists and click the first document of each."""
        for _ in range(times):
            self.n += 1
            asked = {"documents": documents(self.n), "query": f"red shoes {TAG}"}
            shown = self.http.post("/v1/models/m/rank", json=asked).raise_for_status().json()
            said = {"impression": shown["impression"], "clicks": [shown["ranking"][0]["id"]], "final": True}
            self.http.post("/v1/models/m/feedback", json=said).raise_for_status()


def documents(seed: int) -> list[dict[str, Any]]:
    rows = np.random.default_rng(seed).uniform(-1, 1, (N_DOCUMENTS, N_FEATURES))
    return [{"id": f"{TAG if i == 0 else 'document'} {i}", "features": row.tolist()} for i, row in enumerate(rows)]


def opened(seen: Watched, serving: Serving | Relay) -> Page:
    """Open the dashboard and wait until it is live."""
    seen.page.goto(serving.url)
    expect(seen.page.get_by_role("status").first).to_have_text("live")
    expect(seen.page.get_by_role("row", name=re.compile("m p2linrank"))).to_be_visible()
    return seen.page
