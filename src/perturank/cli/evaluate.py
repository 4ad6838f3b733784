"""`perturank evaluate`: what another ranker would have earned on a model's traffic."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from perturank import machine
from perturank.cli.console import table, to_people, to_programs
from perturank.cli.learn import DEFAULT_LOG, LogUrl
from perturank.cli.simulate import named_values
from perturank.service import children

if TYPE_CHECKING:
    from perturank.counterfactual import Estimate
    from perturank.service.evaluation.evaluate import Evaluation

REWARDS = {
    "first-click": "reciprocal rank of the first click",
    "clicks": "clicked documents",
    "dcg": "clicked documents, discounted by log2(1 + rank)",
    "worth": "worth of events",
}
Reward = Literal["first-click", "clicks", "dcg", "worth"]


def evaluate(
    against: Annotated[
        str, typer.Option(help="own (the caller's order), a version, a file, or a ranker that learns from this log.")
    ],
    model: Annotated[str, typer.Option(help="The model whose traffic judges.")] = "default",
    log: LogUrl = DEFAULT_LOG,
    reward: Annotated[Reward, typer.Option(help="What a list is to earn.")] = "first-click",
    estimator: Annotated[
        list[str] | None, typer.Option(help="ips, snips, rips, snrips, iips, sniips, cdr or dm; all by default.")
    ] = None,
    places: Annotated[int | None, typer.Option(help="Only so many top places count.", min=1)] = None,
    after: Annotated[int, typer.Option(help="Only lists behind this position.", min=0)] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, as name=value.")] = None,
    seed: Annotated[int, typer.Option(help="Of a ranker that learns from this log.", min=0)] = 1,
    learns_from: Annotated[
        float, typer.Option(help="The share of the lists that it learns from.", min=0.0, max=0.99)
    ] = 0.5,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw the estimates into this PNG.")] = None,
    threads: Annotated[int, typer.Option(help="Threads; the last bits depend on them.", min=1)] = 1,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Estimate what another ranker would have earned on a model's traffic, from the log alone.

    [bold]Examples[/bold]

    perturank evaluate --model books --against own

    perturank evaluate --model books --against pdgd-linear --reward clicks
    """
    if with_parent:
        children.stay_with_parent()
    machine.pin_threads(threads)
    from perturank.service.evaluation import evaluate as evaluation
    from perturank.service.log import open_log
    from perturank.service.log.refusals import Refused

    try:
        with contextlib.closing(open_log(log)) as opened:
            found = evaluation.evaluate(
                opened,
                model,
                against,
                reward=reward,
                estimators=estimator or None,
                settings=named_values(changes or []),
                seed=seed,
                places=places,
                after=after,
                learns_from=learns_from,
            )
    except Refused as refused:
        if not with_parent:
            raise
        to_programs(refused.told())
        raise typer.Exit(children.REFUSED) from None
    if figure is not None:
        _draw(found, figure)
    if json or with_parent:
        to_programs(found.as_json())
    else:
        _print(found)


def _print(found: Evaluation) -> None:
    top = "the first place" if found.places == 1 else f"{found.places} places"
    title = f"{found.against} on {found.lists:,} lists of {found.model}: {REWARDS[found.reward]}, {top}"
    columns = ("", "earns", "95 % interval", "gain", "95 % interval", "in effect", "support")
    shown = table(title, *columns, numbers=True)
    earned = found.earned
    shown.add_row(
        found.model, f"{earned.value:.4f}", _interval(earned.low, earned.high), "", "", f"{found.lists:,}", ""
    )
    for each in found.estimates:
        shown.add_row(each.estimator, *_numbers(each))
    to_people(shown)
    for text in _sentences(found):
        to_people(text)


def _numbers(each: Estimate) -> tuple[str, ...]:
    support = "–" if each.support is None else f"{each.support:.0%}"
    about = (f"{each.effective:,.0f}", support)
    if each.value is None or each.low is None or each.high is None or each.gain is None:
        return ("refused", "", "", "", *about)
    gain = each.gain
    interval = _interval(each.low, each.high)
    return (f"{each.value:.4f}", interval, f"{gain.value:+.4f}", _interval(gain.low, gain.high, "+"), *about)


def _interval(low: float, high: float, sign: str = "") -> str:
    return f"{low:{sign}.3f} … {high:{sign}.3f}"


def _sentences(found: Evaluation) -> list[str]:
    """Return what is to be known beside the numbers, each estimator's assumption first."""
    assumed = _grouped({each.estimator: each.assumes for each in found.estimates})
    refused = _grouped({each.estimator: f"refused, {each.refusal}." for each in found.estimates if each.refusal})
    said = [f"{found.agrees:.0%} of the lists begin with the document that {found.against} would show first."]
    if found.left_out:
        said.append(f"Left out: {', '.join(f'{n:,} lists {why}' for why, n in found.left_out.items())}.")
    return ["", *assumed, *refused, *_needed(found), *said, *([found.note] if found.note else [])]


def _grouped(texts: Mapping[str, str]) -> list[str]:
    """Return each text once, behind the names that it is about."""
    return [
        f"{', '.join(name for name, each in texts.items() if each == text)}: {text}"
        for text in dict.fromkeys(texts.values())
    ]


def _needed(found: Evaluation) -> list[str]:
    if found.needed is None:
        return []
    share, lists, days = found.needed.share, found.needed.lists, found.needed.days
    how_long = "" if days is None else f", {days:,.1f} days at the rate of this log"
    explores = f"With {share:.0%} of the places open to any document (the setting floor of P², epsilon of ε-greedy)"
    return [
        f"{explores if share else 'With the exploration that there is'}, about {lists:,.0f} lists with their "
        f"candidates would do{how_long}. More `candidates` of the model make it shorter; fewer --places need less."
    ]


def _draw(found: Evaluation, path: Path) -> None:
    from perturank import storage
    from perturank.report import pictures  # which says so if Matplotlib is missing
    from perturank.report.estimates import estimates_figure

    title = f"{found.against} on {found.lists:,} lists of {found.model}"
    drawn = estimates_figure(title, REWARDS[found.reward], found.earned, found.estimates)
    storage.put(path, pictures.png(drawn))
