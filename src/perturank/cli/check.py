"""`perturank check`: the contracts that every ranker must keep, on one ranker."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from perturank import machine
from perturank.cli.console import table, to_people, to_programs
from perturank.cli.simulate import named_values

if TYPE_CHECKING:
    from perturank.publishing import Published


def check(
    ranker: Annotated[str, typer.Argument(help="A name of `perturank rankers`, or module:NAME.")],
    changes: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, as name=value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run every contract on a ranker; exit code 1 if it breaks one.

    [bold]Examples[/bold]

    perturank check my_module:tally

    perturank check p2neurrank --set widths=8
    """
    machine.compile_lightly()
    from dataclasses import replace

    from perturank import catalogue

    found = catalogue.load_published(ranker)
    chosen = replace(found, settings=found.settings.parsed(named_values(changes or [])))
    results = dict(broken_contracts(chosen))
    broken = {name: why for name, why in results.items() if why}
    if as_json:
        to_programs({"ranker": ranker, "settings": chosen.settings.as_dict(), "contracts": results})
    else:
        listed = table(f"{ranker}: {len(results)} contracts", "", "contract")
        for name, why in results.items():
            listed.add_row("✗" if why else "✓", name)
        for name, missing in contracts_left_out(chosen):
            listed.add_row("–", f"{name} (not declared: {missing})")
        to_people(listed)
        for name, why in broken.items():
            typer.echo(f"\n✗ {name}\n  {why}")
    if broken:
        raise typer.Exit(1)


def broken_contracts(published: Published) -> Iterator[tuple[str, str]]:
    """Yield the name of each contract that applies, and how the ranker breaks it; empty where it keeps it."""
    from perturank.contracts import CONTRACTS, ContractBroken

    for contract in (each for each in CONTRACTS if each.applies_to(published)):
        try:
            contract.check(published)
        except ContractBroken as broken:
            yield contract.name, str(broken)
        except Exception as error:  # of the ranker's own code: told as any other way to break a contract
            said = (str(error).strip().splitlines() or [""])[0]
            yield contract.name, f"{type(error).__name__}: {said} {_where(error, published)}"
        else:
            yield contract.name, ""


def contracts_left_out(published: Published) -> Iterator[tuple[str, str]]:
    """Yield the name of each contract that does not apply, and the protocols that the ranker does not declare."""
    from perturank.contracts import CONTRACTS

    for contract in CONTRACTS:
        missing = contract.missing_from(published)
        if missing:
            yield contract.name, ", ".join(missing)


def _where(error: Exception, published: Published) -> str:
    """Return the innermost line of the ranker's own file, where there is one."""
    import inspect

    file = inspect.getsourcefile(published.kind)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"({file}:{lines[-1].lineno})" if lines else ""
