"""The distribution perturank-client: built, installed beside nothing but what it needs, and in front of a service."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from helpers.serving import Serving

SOURCE = Path(__file__).parents[2] / "clients" / "python"
TALK = """
import sys
sys.path.insert(0, sys.argv[1])
import asyncio, time
import perturank_client
from perturank_client import AsyncClient, BadInput, Client, NoAnswer, ServiceProblem

documents = [{"id": name, "features": [0.1 * i, float("nan")]} for i, name in enumerate("abc")]
with Client(sys.argv[2], timeout=120, patience=120) as client:
    client.put_model("light", n_features=2, ranker="p2linrank")
    shown = client.rank(documents, model="light", source="me")
    assert sorted(shown.ids) == ["a", "b", "c"], shown
    events = [{"id": "a", "action": "click"}, {"id": "a", "action": "purchase", "value": 39.9}]
    assert client.feedback(shown.impression, events=events, seen=3, final=True, model="light") == "recorded"
    while not client.versions("light", limit=1)["versions"]:
        time.sleep(0.05)
    assert client.generations("light")["generations"][0]["learned"] == 1
    try:
        client.rank([{"id": "a", "features": [1.0]}], model="light")
    except ServiceProblem as problem:
        assert problem.status == 422 and "'a'" in problem.title, problem
    else:
        raise AssertionError("one feature of two")
    try:
        client.feedback(shown.impression, clicks="a", model="light")
    except BadInput as problem:
        assert "clicks is the string 'a'" in str(problem)
    else:
        raise AssertionError("a string is no list of clicks")

async def later():
    async with AsyncClient(sys.argv[2], timeout=120) as client:
        return await client.model("light")

assert asyncio.run(later())["spec"]["ranker"] == "p2linrank"
try:
    Client("http://127.0.0.1:1", patience=0).alive()
except NoAnswer:
    pass
assert not {"jax", "numpy", "perturank"} & set(sys.modules), "more is loaded than is needed"
print(perturank_client.__version__)
"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    started = Serving(tmp_path_factory.mktemp("serving"))
    yield started
    started.kill()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(SOURCE)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert len(list(folder.glob("*.tar.gz"))) == 1
    return next(folder.glob("*.whl"))


def needed(name: str, found: set[str] | None = None) -> set[str]:
    """Return a distribution and all that it needs, without extras."""
    found = set() if found is None else found
    if name not in found:
        found.add(name)
        for requirement in metadata.requires(name) or []:
            if ";" not in requirement:
                needed(re.split(r"[^\w.-]", requirement)[0], found)
    return found


def link_distribution(name: str, folder: Path) -> None:
    """Let a folder hold what is installed of a distribution."""
    for file in metadata.files(name) or []:
        first, installed = file.parts[0], Path(str(metadata.distribution(name).locate_file("")))
        if first != ".." and not (folder / first).exists():
            (folder / first).symlink_to(installed / first)


def test_it_works_alone(wheel: Path, serving: Serving, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*pip, str(wheel)], check=True)
    for name in needed("httpx") | needed("msgspec") | {"typing_extensions"}:
        link_distribution(name, tmp_path)
    alone = [sys.executable, "-I", "-S", "-c", TALK, str(tmp_path), serving.url]
    talked = subprocess.run(alone, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert talked.returncode == 0, talked.stderr
    assert talked.stdout.strip() == metadata.version("perturank")


def test_it_needs_httpx_and_msgspec_alone(wheel: Path) -> None:
    (found,) = metadata.distributions(path=[str(wheel)])
    assert found.metadata["Name"] == "perturank-client"
    always = [re.split(r"\W", each)[0] for each in found.requires or [] if "extra ==" not in each]
    assert sorted(always) == ["httpx", "msgspec"]


def test_it_has_the_names_of_the_client_of_perturank() -> None:
    import perturank_client

    import perturank.client

    assert set(perturank_client.__all__) - {"BadInput", "__version__"} == set(perturank.client.__all__)
