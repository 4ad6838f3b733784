"""`perturank export` and `perturank push`: a model in the format of another system, and into a search engine."""

from __future__ import annotations

import contextlib
import json
import shlex
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perturank.cli.console import to_programs
from perturank.cli.learn import DEFAULT_LOG
from perturank.errors import BadInput

if TYPE_CHECKING:
    from perturank.exports import Export
    from perturank.exports.format import Request

SECONDS = 60.0

File = Annotated[Path | None, typer.Argument(help="A file of `perturank.save` or GET …/file.")]
LogUrl = Annotated[
    str | None, typer.Option("--log", envvar="PERTURANK_LOG", help="Take the model out of a log: sqlite:///FILE, …")
]
Model = Annotated[str, typer.Option(help="Which model of the log.")]
Version = Annotated[int | None, typer.Option(help="Which version; by default the newest.", min=1)]
Name = Annotated[str | None, typer.Option(help="What the model is called there; by default as here.")]
Prior = Annotated[str | None, typer.Option(help="The feature that holds your own score.")]
Names = Annotated[str | None, typer.Option(help="The features' names, where the file has none: price,age,…")]
Sources = Annotated[
    Path | None, typer.Option(help="JSON: how the engine computes each feature, a query or a function.")
]


def export(
    to: Annotated[str, typer.Option(help="elasticsearch, opensearch, solr, onnx or json.")],
    file: File = None,
    log: LogUrl = None,
    model: Model = "default",
    version: Version = None,
    name: Name = None,
    prior: Prior = None,
    names: Names = None,
    sources: Sources = None,
    out: Annotated[Path, typer.Option(help="Folder of the files.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that hold something else.")] = False,
) -> None:
    """Write a model in the format of another system.

    [bold]Examples[/bold]

    perturank export shop.safetensors --to onnx

    perturank export --log sqlite:///perturank.db --model shop --version 7 --to solr --prior bm25
    """
    made = _exported(file, to, log, model, version, name, prior, names, sources)
    for path in made.save(out, overwrite=force):
        to_programs({"format": made.format.name, "name": made.name, "file": str(path)})


def push(
    file: File = None,
    elasticsearch: Annotated[str | None, typer.Option(metavar="URL", help="Of Elasticsearch with LTR.")] = None,
    opensearch: Annotated[str | None, typer.Option(metavar="URL", help="Of OpenSearch with LTR.")] = None,
    solr: Annotated[str | None, typer.Option(metavar="URL", help="Of a collection: http://…/solr/shop.")] = None,
    log: LogUrl = None,
    model: Model = "default",
    version: Version = None,
    name: Name = None,
    prior: Prior = None,
    names: Names = None,
    sources: Sources = None,
    replace: Annotated[bool, typer.Option("--replace", help="Delete what is installed under this name first.")] = False,
    authorization: Annotated[
        str | None, typer.Option(envvar="PERTURANK_PUSH_AUTHORIZATION", help="Header, such as: ApiKey …")
    ] = None,
) -> None:
    """Install a model in a search engine, features included, and print a curl that shows it.

    [bold]Example[/bold]

    perturank push shop.safetensors --elasticsearch http://localhost:9200 --name shop-7 --prior bm25
    """
    given = {"elasticsearch": elasticsearch, "opensearch": opensearch, "solr": solr}
    chosen = [(engine, url) for engine, url in given.items() if url is not None]
    if len(chosen) != 1:
        raise BadInput(f"{len(chosen)} engines are named", "name one: --elasticsearch, --opensearch or --solr")
    ((engine, url),) = chosen
    made = _exported(file, engine, log, model, version, name, prior, names, sources)
    headers = {"content-type": "application/json"} | ({"authorization": authorization} if authorization else {})
    for step in made.requests(replace=replace):
        _send(url.rstrip("/"), step, headers)
        typer.echo(f"{step.method} {step.path}", err=True)
    assert made.format.check is not None
    typer.echo(f"curl {shlex.quote(url.rstrip('/') + made.format.check(made.name).path)}")


def _exported(
    file: Path | None,
    to: str,
    log: str | None,
    model: str,
    version: int | None,
    name: str | None,
    prior: str | None,
    names: str | None,
    sources: Path | None,
) -> Export:
    from perturank.exports import format_named

    format_named(to)  # before anything is read
    said = None if sources is None else _sources(sources)
    if file is not None:
        if version is not None:
            raise BadInput("a file holds one version", "leave out --version, or the file")
        return _of_file(file, to, name, prior, names, said)
    if names is not None:
        raise BadInput("--names is for files", "the model of a log has its own names")
    return _of_log(log or DEFAULT_LOG, to, model, version, name, prior, said)


def _of_file(
    file: Path, to: str, name: str | None, prior: str | None, names: str | None, sources: Mapping[str, Any] | None
) -> Export:
    from perturank import exports, storage

    arrays, header = storage.read(file)
    exports.check_scaling(header.get("scaling"))
    ranker = storage.restored(arrays, header, file)
    labels = None if names is None else names.split(",")
    called = name or header.get("model") or file.name.partition(".")[0]
    return exports.export(ranker, to, name=called, names=labels, prior=prior, sources=sources)


def _of_log(
    log: str,
    to: str,
    model: str,
    version: int | None,
    name: str | None,
    prior: str | None,
    sources: Mapping[str, Any] | None,
) -> Export:
    from perturank.service.learner import replay
    from perturank.service.log import open_log, snapshots
    from perturank.service.log.refusals import NotKnown
    from perturank.service.serving import export as of_service

    with contextlib.closing(open_log(log)) as opened:
        if version is None:
            newest = snapshots.newest(opened, model, 1)
            if not newest:
                raise BadInput(f"the log holds no version of model {model!r}", "let it learn first")
            version = newest[0].snapshot.version
        try:
            spec, ranker = of_service.stored_version(opened, model, version)
        except NotKnown:  # its bytes were dropped: it is learned again
            ranker = replay.rebuild_version(opened, model, version)
            published = snapshots.found(opened, model, version)
            assert published is not None
            spec = snapshots.spec_at(opened, model, published.position)
        return of_service.export_version(spec, ranker, to, name=name or model, prior=prior, sources=sources)


def _sources(path: Path) -> Mapping[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"{path} is not JSON ({error})", "write an object: a source for each feature") from None
    if not isinstance(said, dict):
        raise BadInput(f"{path} is not a JSON object", "write a source for each feature by its name")
    return said


def _send(url: str, step: Request, headers: Mapping[str, str]) -> None:
    """Send a request; whatever is not expected ends the command, with what the engine said."""
    body = None if step.body is None else json.dumps(step.body, allow_nan=False).encode()
    try:
        asked = urllib.request.Request(url + step.path, body, dict(headers), method=step.method)
        with urllib.request.urlopen(asked, timeout=SECONDS):
            return
    except urllib.error.HTTPError as error:
        if error.code in step.also:
            return
        said = error.read().decode(errors="replace")[:300]
        hint = (
            "give another --name, or --replace it" if error.code in (400, 409) else "check the address and the plugin"
        )
        raise BadInput(f"{step.method} {url}{step.path} gave {error.code}: {said}", hint) from None
    except (urllib.error.URLError, ValueError, OSError) as error:
        raise BadInput(f"{url} does not answer ({error})", "check the address") from None
