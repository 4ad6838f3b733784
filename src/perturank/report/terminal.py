"""Final numbers for the terminal, in 80 columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perturank.experiments.evidence import Evidence, data_name
from perturank.experiments.experiment import Finding
from perturank.experiments.trust import by_user
from perturank.report.numbers import TRUST_COLUMNS, Finals, finals, rounded, trust_cells

N_USERS = 3  # side by side in 80 columns
TRUST_NOTE = "NDCG@10 of worst run, tenth percentile, mean; collapsed: ended below random"
NOTE = "± half of the 95 % interval; ▲ better, ▼ worse than ★ (paired t, Holm, 0.05)"


def table(findings: Sequence[Finding]) -> Group:
    """Return tables of arms by users for each experiment, data set and measure, with ▲ and ▼ as in the report."""
    shown: list[RenderableType] = []
    for finding in findings:
        shown += [each for found in finals(finding) for each in _tables(finding, found)]
        shown += [each for evidence in finding.evidence if evidence.users for each in _trust(finding, evidence)]
    notes = Text(f"\n{TRUST_NOTE}\n{NOTE}", style="dim")
    return Group(*shown, notes) if shown else Group(Text("No run has finished."))


def _tables(finding: Finding, found: Finals) -> Iterator[RenderableType]:
    for measure, called in found.measures.items():
        yield Text(f"\n{finding.experiment.title}: {called} on {data_name(found.data)}", style="bold")
        for first in range(0, len(found.users), N_USERS):
            users = found.users[first : first + N_USERS]
            made = Table(box=None, pad_edge=False)
            made.add_column("ranker", overflow="fold", max_width=26)
            for user in users:
                made.add_column(Text(user), justify="right", no_wrap=True)
            for arm in found.arms:
                name = Text(arm + (" ★" if arm == found.star else ""))
                made.add_row(name, *(_cell(found, arm, user, measure) for user in users))
            yield made


def _trust(finding: Finding, evidence: Evidence) -> Iterator[RenderableType]:
    """Yield how far the arms can be relied on, under each user."""
    yield Text(f"\n{finding.experiment.title}: trust on {data_name(evidence.data)}", style="bold")
    made = Table(box=None, pad_edge=False)
    made.add_column("ranker", overflow="fold", max_width=26)
    for name in TRUST_COLUMNS:
        made.add_column(name, justify="right", no_wrap=True)
    for user, trusts in by_user(evidence):
        made.add_row(Text(f"{user} users", style="italic"))
        for arm, trust in trusts.items():
            made.add_row(Text(arm), *trust_cells(trust))
    yield made


def _cell(found: Finals, arm: str, user: str, measure: str) -> Text:
    cell = found.cells.get((arm, user, measure))
    if cell is None:
        return Text("–  ")
    decimals = found.decimals(user, measure)
    half = "" if math.isnan(cell.mean.half_width) else f" ± {rounded(cell.mean.half_width, decimals)}"
    value = Text(rounded(cell.mean.value, decimals), style="bold" if cell.is_best else "")
    return value.append(half, style="not bold").append(f" {cell.mark or ' '}", style="not bold")
