"""An experiment in the page: its figures, final numbers, choices and claims."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from perturank.experiments.evidence import Evidence, data_name
from perturank.experiments.experiment import Choice, Drawing, Finding
from perturank.experiments.trust import by_user
from perturank.report.curves import Panel
from perturank.report.html import Markup, element, joined, table
from perturank.report.names import p_value, plural, slug
from perturank.report.numbers import TRUST_COLUMNS, Cell, Finals, finals, rounded, star, three_digits, trust_cells
from perturank.report.verdicts import SIGNS, WORDS, JudgedClaim

PIXELS = 112  # of the page for an inch of a figure: letters about as large as the text around


@dataclass(frozen=True)
class Picture:
    """A drawing that was drawn: its file name, what it shows, its SVGs for wide and for narrow pages, its inches."""

    drawing: Drawing
    name: str
    panels: Sequence[Panel]
    wide: bytes
    narrow: bytes
    width: float


def section(finding: Finding, pictures: Sequence[Picture], claims: Sequence[JudgedClaim]) -> Markup:
    """Return the section of an experiment."""
    experiment = finding.experiment
    labels = [label for label in dict.fromkeys(drawing.label for drawing in experiment.drawings) if ":" in label]
    cited = element("p", "In the paper: ", *_listed([element("code", label) for label in labels]), class_="cited")
    return element(
        "section",
        element("h2", experiment.title, id=slug(experiment.name)),
        *(element("p", text) for text in experiment.about.split("\n\n") if text.strip()),
        _left_out(finding),
        cited if labels else "",
        _missing(finding),
        *map(_figure, pictures),
        *_numbers(finding),
        *_trust(finding),
        _choices(finding.choices) if finding.choices else "",
        _claims(claims) if claims else "",
    )


def sentence(n_missing: int) -> str:
    """Return what a reader must know where runs are missing."""
    verb = "is" if n_missing == 1 else "are"
    return f"{plural(n_missing, 'run')} {verb} missing: what is shown is of the finished ones."


def _missing(finding: Finding) -> Markup:
    if not any(evidence.users for evidence in finding.evidence):
        return element("p", "No run of this experiment has finished.", class_="missing")
    return element("p", sentence(finding.n_missing), class_="missing") if finding.n_missing else Markup("")


def _left_out(finding: Finding) -> Markup:
    """Return which of the arms that the experiment describes this scale does not run."""
    ran = {arm for evidence in finding.evidence for arm in evidence.runs}
    absent = [arm.label for arm in finding.experiment.arms if arm.label not in ran]
    if finding.n_missing or not ran or not absent:
        return Markup("")
    return element("p", f"Left out at this scale: {', '.join(absent)}.", class_="missing")


def _listed(parts: Sequence[str]) -> list[str]:
    return [each for part in parts for each in (", ", part)][1:]


def _figure(picture: Picture) -> Markup:
    drawing = picture.drawing
    places = ", ".join(f"{data_name(panel.data)} with the {panel.user} user" for panel in picture.panels)
    curves = ", ".join(dict.fromkeys(name for panel in picture.panels for name in panel.names))
    alt = f"{drawing.title}: {drawing.y_label} against the {drawing.x_label}. Panels: {places}. Curves: {curves}."
    counts = {int(n) for panel in picture.panels for line in panel.lines for n in line.counts}
    runs = f"{min(counts)} to {max(counts)} runs" if len(counts) > 1 else plural(max(counts), "run")
    band = "; band: 95 % interval" if max(counts) > 1 and not drawing.against else ""
    band += "; dotted: the control" if drawing.control else ""
    links = [element("a", kind.upper(), href=f"figures/{picture.name}.{kind}") for kind in ("png", "pdf", "csv")]
    image = element(
        "picture",
        element("source", media="(max-width: 700px)", srcset=_inline(picture.narrow)),
        element("img", src=_inline(picture.wide), alt=alt, width=f"{PIXELS * picture.width:.0f}"),
    )
    caption = (element("strong", drawing.title), f". Mean of {runs}{band}. ", element("span", *_listed(links)))
    return element("figure", image, element("figcaption", *caption))


def _inline(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + b64encode(svg).decode()


def _numbers(finding: Finding) -> list[Markup]:
    tables = [found for found in finals(finding) if found.measures]
    if not tables:
        return []
    against = star(finding.experiment)
    says = "Mean ± half of the 95 % interval after the last round; the best in bold. "
    test = (
        f"▲ better, ▼ worse than {against} (★) in a paired t-test over folds and seeds at level 0.05, "
        "by Holm's method for all comparisons of a measure in the table."
    )
    note = element("p", says + (test if against else ""), class_="note")
    return [element("h3", "Final numbers"), note, *map(_table, tables)]


def _trust(finding: Finding) -> list[Markup]:
    """Return how far the arms can be relied on, a table per data set."""
    known = [evidence for evidence in finding.evidence if evidence.users]
    if not known:
        return []
    says = (
        "NDCG@10 after the last round: worst run, tenth percentile, mean. Collapsed: share of runs below a random "
        "ranker. Uncertain: share of pairs without a certain order. Wrong: share of certain orders that the grades "
        "contradict, on test queries."
    )
    return [element("h3", "Trust"), element("p", says, class_="note"), *map(_trust_table, known)]


def _trust_table(evidence: Evidence) -> Markup:
    head = [element("th", text, scope="col") for text in ("ranker", *TRUST_COLUMNS)]
    rows: list[Sequence[Markup]] = []
    for user, trusts in by_user(evidence):
        across = str(len(head))
        rows.append([element("th", element("em", f"{user} users"), scope="rowgroup", colspan=across)])
        rows += [
            (element("th", arm, scope="row"), *(element("td", cell) for cell in trust_cells(trust)))
            for arm, trust in trusts.items()
        ]
    return table(f"Trust on {data_name(evidence.data)}", [head], rows)


def _table(found: Finals) -> Markup:
    n = str(len(found.measures))
    users = [element("th", user, scope="colgroup", colspan=n) for user in found.users]
    first = (element("th", "ranker", scope="col", rowspan="2"), *users)
    last = element("th", "time per round (ms)", scope="col", rowspan="2")
    second = [element("th", called, scope="col") for _ in found.users for called in found.measures.values()]
    rows = []
    for arm in found.arms:
        name = element("th", arm, " ★" if arm == found.star else "", scope="row")
        cells = [_cell(found, arm, user, measure) for user in found.users for measure in found.measures]
        rows.append((name, *cells, element("td", three_digits(found.milliseconds[arm]))))
    return table(f"Final numbers on {data_name(found.data)}", ((*first, last), second), rows)


def _cell(found: Finals, arm: str, user: str, measure: str) -> Markup:
    cell = found.cells.get((arm, user, measure))
    if cell is None:
        return element("td", "–")
    decimals = found.decimals(user, measure)
    value = rounded(cell.mean.value, decimals)
    half = "" if math.isnan(cell.mean.half_width) else f" ± {rounded(cell.mean.half_width, decimals)}"
    number = joined([element("strong", value) if cell.is_best else value, element("small", half) if half else ""])
    mark = element("span", cell.mark, class_="mark", aria_hidden="true")  # always there: numbers stay in line
    if math.isnan(cell.p):
        return element("td", number, mark)
    words = _comparison(cell, found.star)
    return element("td", number, mark, element("span", f" ({words})", class_="heard"), title=words)


def _comparison(cell: Cell, against: str) -> str:
    relation = {"▲": "better than", "▼": "worse than", "": "not significantly different from"}[cell.mark]
    return f"{relation} {against}, {p_value(cell.p)}"


def _choices(choices: Sequence[Choice]) -> Markup:
    head = [element("th", text, scope="col") for text in ("data", "ranker", "user", "fold", "chosen", "of", "NDCG")]
    rows = [
        (
            element("td", data_name(each.data)),
            element("th", each.arm, scope="row"),
            element("td", each.user),
            element("td", str(each.fold)),
            element("td", ", ".join(f"{key} = {_plain(value)}" for key, value in each.chosen.items()), class_="text"),
            element("td", str(each.among)),
            element("td", f"{each.ndcg:.4f}"),
        )
        for each in choices
    ]
    caption = "Chosen on the validation queries, by their NDCG after the last round"
    summary = element("summary", f"Chosen hyper-parameters ({plural(len(choices), 'choice')})")
    return element("details", summary, table(caption, [head], rows))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _claims(claims: Sequence[JudgedClaim]) -> Markup:
    items = []
    for says in dict.fromkeys(row.says for row in claims):
        verdicts = [
            element(
                "li",
                element("span", f"{SIGNS[holds]} {WORDS[holds]}", class_=f"verdict {WORDS[holds].replace(' ', '-')}"),
                element("span", element("b", data_name(row.data)), ": " if row.data else "", row.verdict.because),
            )
            for row in claims
            if row.says == says
            for holds in [row.verdict.holds]
        ]
        items.append(element("li", element("p", says), element("ul", *verdicts)))
    return joined([element("h3", "What the paper says, and whether these runs bear it out"), _list(items)])


def _list(items: Sequence[Markup]) -> Markup:
    return element("ol", *items, class_="claims")
