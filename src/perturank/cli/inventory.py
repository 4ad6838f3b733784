"""What there is: rankers, users, data sets, and what is in one of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from perturank.cli.console import table, to_people, to_programs

if TYPE_CHECKING:
    from perturank.hyperparameters import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def rankers(
    name: Annotated[str, typer.Argument(help="A ranker, or module:NAME, to list its hyper-parameters.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the rankers, or the hyper-parameters of one.

    [bold]Examples[/bold]

    perturank rankers

    perturank rankers p2headrank
    """
    from perturank import catalogue

    if not name:
        _names("rankers", {name: published.summary for name, published in catalogue.rankers().items()}, as_json)
        return
    published = catalogue.load_published(name)
    rows = hyperparameters(published.settings)
    if as_json:
        to_programs({"name": published.name, "summary": published.summary, "settings": rows})
        return
    listed = table(f"{published.name}: {published.summary}", "hyper-parameter", "symbol", "default", "meaning")
    for row in rows:
        meaning = f"{row['doc']} ({row['limit']})" if row["limit"] else row["doc"]
        listed.add_row(row["name"], row["symbol"], _text(row["default"]), meaning)
    to_people(listed)


def users(as_json: AsJson = False) -> None:
    """List the simulated users.

    [bold]Example[/bold]

    perturank users --json
    """
    from perturank import clicks

    _names("users", clicks.users(), as_json)


def data_sets(as_json: AsJson = False) -> None:
    """List the data sets that are known by name or recognised by their files.

    [bold]Example[/bold]

    perturank datasets
    """
    from perturank import datasets

    _names("data sets", datasets.available(), as_json)


def data(
    name_or_path: Annotated[str, typer.Argument(help="A name of `perturank datasets`, a file or a folder.")],
    fold: Annotated[int, typer.Option(help="Fold of the data.", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Say what is in a data set: queries, documents, features, grades, lengths.

    [bold]Examples[/bold]

    perturank data synthetic

    perturank data ~/data/MSLR-WEB10K --fold 2 --json
    """
    from perturank import datasets

    loaded = datasets.load(name_or_path, fold=fold)
    rows = loaded.describe()
    if as_json:
        to_programs({"name": loaded.name, "fold": loaded.fold, "n_folds": loaded.n_folds, "splits": rows})
    else:
        to_people(_contents_table(f"{loaded.name}, fold {loaded.fold} of {loaded.n_folds}", rows))


def hyperparameters(settings: Settings) -> list[dict[str, Any]]:
    """Return each hyper-parameter's name, symbol, default, meaning and limit."""
    defaults = settings.as_dict()
    return [
        {
            "name": field.name,
            "symbol": field.metadata.get("symbol", ""),
            "default": defaults[field.name],
            "doc": field.metadata.get("doc", ""),
            "limit": limit.says if (limit := field.metadata.get("limit")) else "",
        }
        for field in dataclasses.fields(settings)
    ]


def _contents_table(title: str, rows: Sequence[Mapping[str, str | int | float]]) -> Table:
    """Return one column per split."""
    listed = table(title, "", *(str(row["split"]) for row in rows), numbers=True)
    for key in list(rows[0])[1:]:
        listed.add_row(key, *(f"{row[key]:.1%}" if key.startswith("share") else f"{row[key]:,}" for row in rows))
    return listed


def _names(title: str, summaries: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        to_programs([{"name": name, "summary": summary} for name, summary in summaries.items()])
        return
    listed = table(title, "name", "")
    for name, summary in summaries.items():
        listed.add_row(name, summary)
    to_people(listed)


def _text(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, list) else str(default)
