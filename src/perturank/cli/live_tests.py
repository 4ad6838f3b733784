"""`perturank test`: live tests of a running service, and the verdict that its log alone gives."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perturank.cli.console import table, to_people, to_programs
from perturank.cli.learn import DEFAULT_LOG, LogUrl

if TYPE_CHECKING:
    from perturank.client import Client

test_commands = typer.Typer(help="Watch live tests, and promote a winner.", no_args_is_help=True)
Url = Annotated[str, typer.Option("--url", envvar="PERTURANK_URL", help="The address of the service.")]
Key = Annotated[str | None, typer.Option("--key", envvar="PERTURANK_KEY", help="A key with the scope admin.")]
Test = Annotated[str, typer.Argument(help="The name of the test.")]
Json = Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")]
SECONDS_IN_SILENCE = 1.0
DEFAULT_URL = "http://127.0.0.1:8765"
UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


@contextlib.contextmanager
def _client(url: str, key: str | None) -> Iterator[Client]:
    """Yield a client; it tries again for a while where nobody answers, and people are told what it waits for."""
    from perturank.client import Client

    said = threading.Timer(SECONDS_IN_SILENCE, typer.echo, [f"waiting for {url} …"], {"err": True})
    said.daemon = True
    said.start()
    try:
        with Client(url, key) as client:
            yield client
    finally:
        said.cancel()


@test_commands.command("list")
def list_tests(url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False) -> None:
    """List all live tests of a service."""
    with _client(url, key) as client:
        found = client.tests()["tests"]
    if as_json:
        to_programs(found)
        return
    listed = table(f"{len(found)} live tests", "test", "status", "method", "arms", "lists", "leader", "winner")
    for each in found:
        spec: Any = each["spec"]
        arms = ", ".join(spec["arms"])
        words = each["status"], spec.get("method", "interleave"), arms, f"{each['lists']:,}"
        listed.add_row(each["test"], *words, each["leader"] or "–", each["winner"] or "–")
    to_people(listed, 120)


@test_commands.command("show")
def show(test: Test, url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False) -> None:
    """Show who leads a live test, by how much, how surely, and for how long it would go on."""
    with _client(url, key) as client:
        found: Any = client.test(test)
    _print(found, as_json)


@test_commands.command("verdict")
def verdict(test: Test, log: LogUrl = DEFAULT_LOG, as_json: Json = False) -> None:
    """Count a live test again from the records of its log alone; exit code 1: the service has counted otherwise."""
    from msgspec import to_builtins

    from perturank.service.log import live_tests, open_log, verdicts

    with contextlib.closing(open_log(log)) as opened:
        replayed = live_tests.replayed(opened, test)
        stored = live_tests.stored(opened, test)
        found = to_builtins(verdicts.told(opened, test, replayed))
        is_newer = stored is not None and stored.at > replayed.at  # counted meanwhile
        is_same = stored is not None and (is_newer or to_builtins(stored) == to_builtins(replayed))
    _print(found, as_json)
    if not is_same:
        typer.echo("the service has stored another standing than the records make", err=True)
        raise typer.Exit(1)


@test_commands.command("promote")
def promote(
    test: Test,
    arm: Annotated[str | None, typer.Option(help="This arm, which need not have won.")] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Let the first arm's model serve what the winner is, and stop the test."""
    with _client(url, key) as client:
        to_programs(client.promote(test, arm))


def _print(found: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        to_programs(found)
        return
    spec = found["spec"]
    title = f"{found['test']}: {spec.get('method', 'interleave')}, {found['status']}, {found['lists']:,} lists"
    arms = table(title, "arm", "version", "lists", "credit", "learned", "learns", numbers=True)
    for arm in found["arms"]:
        version = "–" if arm["version"] is None else str(arm["version"])
        numbers = f"{arm['lists']:,}", f"{arm['credit']:,.6g}", f"{arm['learned']:,}"
        arms.add_row(arm["arm"], version, *numbers, arm["reason"] or arm["learns"])
    to_people(arms, 120)
    pairs = table(_sentence(found), "one", "other", "difference of a list", "within", "sure", "until decided")
    for each in found["comparisons"]:
        low, high = (("−∞", "∞")[i] if end is None else f"{end:+.4g}" for i, end in enumerate(each["interval"]))
        sure = f"{each['confidence']:.1%}"
        pairs.add_row(each["one"], each["other"], f"{each['difference']:+.4g}", f"{low} … {high}", sure, _until(each))
    to_people(pairs, 120)


def _sentence(found: Mapping[str, Any]) -> str:
    if found["promoted"] is not None:
        return f"{found['promoted']} was promoted."
    if found["winner"] is not None:
        withdrawn = any(arm["unlearned"] for arm in found["arms"] if arm["arm"] == found["winner"])
        since = " Its model has unlearned a source since." if withdrawn else ""
        return f"{found['winner']} has won, after {found['decided_after']:,} lists.{since}"
    return f"{found['leader']} leads; nothing is decided." if found["leader"] is not None else "Nobody leads."


def _until(pair: Mapping[str, Any]) -> str:
    """Return how long two arms would have to be compared yet.

    >>> _until({"decided": False, "lists_more": 1200, "seconds_more": 7200.0})
    '1,200 lists, 2 hours'
    """
    if pair["decided"]:
        return "decided"
    if pair["lists_more"] is None:
        return "not foreseeable"
    seconds = pair["seconds_more"]
    if seconds is None:
        return f"{pair['lists_more']:,} lists"
    unit, name = next((each for each in UNITS if seconds >= each[0]), (1.0, "seconds"))
    return f"{pair['lists_more']:,} lists, {seconds / unit:.3g} {name}"
