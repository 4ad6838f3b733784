"""The examples as real processes: against a running service, and an imitation of a search engine."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from clicking import exported
from serving import Serving

EXAMPLES = Path(__file__).parents[2] / "examples"
HITS = [
    {"_id": "red", "_score": 3.5, "_source": {"price": 59.0, "rating": 4.6}},
    {"_id": "blue", "_score": 2.5, "_source": {"price": 49}},
    {"_id": "green", "_score": 1.5, "_source": {"price": 7.5, "rating": 3.9}},
]


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
        hits = HITS[: body["size"]] if "shoes" in body["query"]["multi_match"]["query"] else []
        content = json.dumps({"hits": {"total": {"value": len(hits)}, "hits": hits}}).encode()
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
    command = [sys.executable, str(EXAMPLES / "rerank_search.py"), "red shoes", "--search", engine]
    command += ["--fields", "price", "rating", "--service", serving.url]
    done = subprocess.run(command, input="blue\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, second, third = (line.split()[1] for line in done.stdout.splitlines()[:3])
    assert {first, second, third} == {"red", "blue", "green"}
    assert done.stdout.endswith("recorded\n")
    assert Engine.asked[-1]["_source"] == ["price", "rating"]
    with serving.client() as client:
        serving.until(lambda: client.model("products")["version"] == 1)
    (clicked,) = [each for each in exported(f"sqlite:///{serving.folder}/perturank.db") if each["kind"] == "feedback"]
    assert (clicked["model"], clicked["clicks"]) == ("products", ["blue"])
    nothing = subprocess.run([*command[:2], "hats", *command[3:]], capture_output=True, text=True, timeout=120)
    assert nothing.stdout == "nothing was found\n"


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
    answer = httpx.get(f"{shop}/search", params={"text": "shoes"}, timeout=120).json()
    assert sorted(answer["products"]) == ["blue-shoes", "red-shoes", "running-shoes", "shoe-polish"]
    click = {"impression": answer["impression"], "product": "running-shoes"}
    said = [httpx.post(f"{shop}/click", params=click).json() for _ in range(2)]
    assert said == [{"status": "recorded"}, {"status": "known"}]
    assert httpx.post(f"{shop}/click", params=click | {"product": "no-such"}).status_code == 422
    assert httpx.get(f"{shop}/search", params={"text": "spoon"}).json() == {"impression": None, "products": []}
    serving.kill()
    alone = httpx.get(f"{shop}/search", params={"text": "shoes"}, timeout=120).json()
    assert alone == {"impression": None, "products": ["red-shoes", "blue-shoes", "running-shoes", "shoe-polish"]}
