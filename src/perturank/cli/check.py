"""`perturank check`: the contracts that every ranker must keep, on one ranker."""

from __future__ import annotations

import traceback
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
    catalogue.import_scorer(chosen.settings)
    results, left_out = check_contracts(chosen)
    broken = {name: why for name, why in results.items() if why}
    if as_json:
        about = {"ranker": ranker, "settings": chosen.settings.as_dict()}
        to_programs(about | {"contracts": results, "does_not_apply": left_out})
    else:
        listed = table(f"{ranker}: {len(results)} contracts", "", "contract")
        for name, why in results.items():
            listed.add_row("✗" if why else "✓", name)
        for name, why in left_out.items():
            listed.add_row("–", f"{name} (does not apply: {why})")
        to_people(listed)
        for name, why in broken.items():
            typer.echo(f"\n✗ {name}\n  {why}")
    if broken:
        raise typer.Exit(1)


def check_contracts(published: Published) -> tuple[dict[str, str], dict[str, str]]:
    """Return how the ranker breaks each contract that applies, empty where it keeps it; and why others do not apply."""
    from perturank.contracts import CONTRACTS, ContractBroken, DoesNotApply

    results: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for contract in CONTRACTS:
        if missing := contract.missing_from(published):
            left_out[contract.name] = f"{', '.join(missing)} not declared"
            continue
        try:
            contract.check(published)
        except DoesNotApply as reason:
            left_out[contract.name] = str(reason)
        except ContractBroken as broken:
            results[contract.name] = str(broken)
        except Exception as error:  # of the ranker's own code: told as any other way to break a contract
            said = (str(error).strip().splitlines() or [""])[0]
            results[contract.name] = f"{type(error).__name__}: {said} {_where(error, published)}"
        else:
            results[contract.name] = ""
    return results, left_out


def _where(error: Exception, published: Published) -> str:
    """Return the innermost line of the ranker's own file, where there is one."""
    import inspect

    file = inspect.getsourcefile(published.kind)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"({file}:{lines[-1].lineno})" if lines else ""
