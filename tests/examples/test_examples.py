"""The examples as real processes: against a running service, and an imitation of a search engine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.clicking import exported
from helpers.serving import Serving

EXAMPLES = Path(__file__).parents[2] / "examples"
HITS = [
    {"_id": "red", "_score": 3.5, "fields": {"price": [59.0], "about.rating": [4.6], "name": ["Red shoes"]}},
    {"_id": "blue", "_score": 2.5, "fields": {"price": [49], "name": ["Blue shoes"]}},
    {"_id": "green", "_score": 1.5, "fields": {"price": [7.5], "about.rating": [3.9]}},
]
SPREAD = {"count": 3, "avg": 38.5, "std_deviation": 22.3}
NOTHING = {"count": 0, "avg": None, "std_deviation": None}


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    started = Serving(tmp_path)
    yield started
    started.kill()


class Engine(BaseHTTPRequestHandler):
    """Answers _search as Elasticsearch and OpenSearch do."""

    asked: list[Any] = []  # noqa: RUF012 (of the class, since every request has its own handler)

    def do_POST(self) -> None:
        assert self.path == "/products/_search"
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(body)
        answer: dict[str, Any] = {"hits": {"hits": []}}
        if "query" in body and "shoes" in body["query"]["multi_match"]["query"]:
            answer["hits"]["hits"] = HITS[: body["size"]]
        for field in body.get("aggs", {}):
            answer.setdefault("aggregations", {})[field] = NOTHING if field == "colour" else SPREAD
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *words: Any) -> None:
        """Say nothing."""


@pytest.fixture
def engine() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/products"
        server.shutdown()


def test_a_search_engines_top_is_ranked_again_and_the_click_is_learned(serving: Serving, engine: str) -> None:
    def typed(*words: str, clicks: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(EXAMPLES / "rerank_search.py"), *words]
        command += ["--search", engine, "--service", serving.url]
        return subprocess.run(command, input=clicks, capture_output=True, text=True, timeout=120)

    assert typed("make", "--fields", "colour").stderr == "no document has a number in colour\n"
    made = typed("make", "--fields", "price", "about.rating")
    assert made.stdout == "model 'products' has score, price, about.rating\n", made.stderr
    with serving.client() as client:
        assert client.model("products")["spec"]["features"][1] == {"name": "price"}
        done = typed("search", "red shoes", "--title", "name", clicks="2\n")
        assert done.returncode == 0, done.stderr
        titles = [re.sub("  .*", "", line[3:]) for line in done.stdout.splitlines()[:3]]
        assert sorted(titles) == ["Blue shoes", "Red shoes", "green"]
        assert done.stdout.endswith("recorded\n")
        assert Engine.asked[-1]["fields"] == ["price", "about.rating", "name"]
        serving.until(lambda: client.model("products")["version"] == 1)
    (clicked,) = [each for each in exported(f"sqlite:///{serving.folder}/perturank.db") if each["kind"] == "feedback"]
    ids = {"Blue shoes": "blue", "Red shoes": "red", "green": "green"}
    assert (clicked["model"], clicked["clicks"]) == ("products", [ids[titles[1]]])
    assert typed("search", "hats").stdout == "nothing was found\n"
    serving.kill()
    alone = typed("search", "red shoes")
    assert alone.stdout.split() == ["1", "red", "2", "blue", "3", "green"]
    assert "not ranked" in alone.stderr
    assert "check the address" in typed("make", "--fields", "price").stderr


@pytest.fixture
def shop(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PERTURANK_URL", serving.url)
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "--port", "0", "shop:app"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "running on http://" in line:
                yield "http://" + line.partition("http://")[2].split()[0]
                break
        process.terminate()
        process.communicate(timeout=60)


def test_a_shop_ranks_and_its_clicks_count_once(serving: Serving, shop: str) -> None:
    def searched() -> Any:
        return httpx.get(f"{shop}/search", params={"text": "shoes"}, cookies={"session": "mine"}, timeout=120).json()

    answers: list[Any] = []

    def ranks() -> bool:
        answers.append(searched())
        return answers[-1]["impression"] is not None

    serving.until(ranks)  # at first it waits for its compilation
    answer = answers[-1]
    assert sorted(answer["products"]) == ["blue-shoes", "red-shoes", "running-shoes", "shoe-polish"]
    click = {"impression": answer["impression"], "product": "running-shoes"}
    said = [httpx.post(f"{shop}/click", params=click, timeout=120).json() for _ in range(2)]
    assert said == [{"status": "recorded"}, {"status": "known"}]
    assert httpx.post(f"{shop}/click", params=click | {"product": "no-such"}, timeout=120).status_code == 422
    nothing = httpx.get(f"{shop}/search", params={"text": "spoon"}, timeout=120).json()
    assert nothing == {"impression": None, "products": []}
    serving.kill()
    alone = searched()
    assert alone == {"impression": None, "products": ["red-shoes", "blue-shoes", "running-shoes", "shoe-polish"]}
