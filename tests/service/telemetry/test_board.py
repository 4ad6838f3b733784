"""The Grafana board: a real Prometheus reads a real service, and answers every question of the board."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.serving import SPEC, Serving

BOARD = json.loads((Path(__file__).parents[3] / "deploy" / "grafana" / "perturank.json").read_text())
EXPRESSIONS = {
    panel["title"]: target["expr"].replace("$__rate_interval", "20s").replace("$model", ".*")
    for panel in BOARD["panels"]
    for target in panel.get("targets", ())
}


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Run a Prometheus that reads the target every half second; give its address."""
    read = {"job_name": "perturank", "static_configs": [{"targets": [target.removeprefix("http://")]}]}
    config = {"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"}, "scrape_configs": [read]}
    (folder / "prometheus.yml").write_text(json.dumps(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'series'}"]
    with subprocess.Popen(
        ["prometheus", *words, f"--web.listen-address={address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield f"http://{address}"
        finally:
            process.terminate()


def asked(address: str, expression: str) -> list[Any]:
    """Return what Prometheus finds; an expression that it does not understand is an error."""
    answer = httpx.get(f"{address}/api/v1/query", params={"query": expression}, verify=False).json()
    assert answer["status"] == "success", answer
    found: list[Any] = answer["data"]["result"]
    return found


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no Prometheus: apt-get install prometheus")
def test_prometheus_answers_every_question_of_the_board(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    with serving.client() as client, prometheus(tmp_path, serving.url) as address:
        client.put_model("shop", **SPEC)
        documents = [{"id": name, "features": [x] * 5} for name, x in (("a", 0.0), ("b", 1.0))]

        def search() -> None:
            shown = client.rank(documents, model="shop")
            client.feedback(shown.impression, [shown.ids[1]], final=True, model="shop")

        empty = set(EXPRESSIONS) - {"Alarms"}

        def is_drawn() -> bool:
            search()
            empty.difference_update({title for title in empty if asked(address, EXPRESSIONS[title])})
            return not empty

        serving.until(is_drawn)
        asked(address, EXPRESSIONS["Alarms"])
    assert serving.stop() == 0
