"""The page: what was found in short, then each experiment; it asks nothing of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from perturank.experiments.experiment import Finding
from perturank.report.html import Markup, element
from perturank.report.names import plural, slug
from perturank.report.sections import Picture, section, sentence
from perturank.report.verdicts import SIGNS, JudgedClaim, verdict_counts

TITLE = "Perturbation-based online learning to rank, reproduced"
ALONE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
VERDICTS = {True: ("yes", "borne out"), False: ("no", "not borne out"), None: ("cannot-tell", "cannot tell")}
DEMO = "The demo scale has so few rounds and seeds that it decides nothing: it shows what a report looks like."

Part = tuple[Finding, Sequence[Picture], Sequence[JudgedClaim]]


def page(parts: Sequence[Part], facts: Mapping[str, str]) -> str:
    """Return the whole page as HTML."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=ALONE),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", TITLE),
        element("style", Markup(files(__package__).joinpath("page.css").read_text(encoding="utf-8"))),
    )
    body = element(
        "body",
        element("header", element("h1", TITLE), _summary(parts, facts)),
        _contents(parts),
        element("main", *(section(*part) for part in parts)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def n_runs(findings: Sequence[Finding]) -> int:
    """Return how many runs the report is made of; one that serves several experiments counts once."""
    return len(
        {
            run.job.key
            for finding in findings
            for evidence in finding.evidence
            for by_user in evidence.runs.values()
            for runs in by_user.values()
            for run in runs
        }
    )


def _summary(parts: Sequence[Part], facts: Mapping[str, str]) -> Markup:
    findings = [finding for finding, _, _ in parts]
    counts = verdict_counts(row for _, _, rows in parts for row in rows)
    missing = sum(finding.n_missing for finding in findings)
    tiles = [
        element("li", element("b", f"{SIGNS[holds]} {counts[holds]:,}"), f" {words}", class_=name)
        for holds, (name, words) in VERDICTS.items()
    ]
    listed = [element("div", element("dt", name), element("dd", text)) for name, text in facts.items()]
    made = f"{plural(len(parts), 'experiment')} of {plural(n_runs(findings), 'run')}. "
    return element(
        "section",
        element("h2", "Summary"),
        element("p", DEMO, class_="missing") if facts.get("scale") == "demo" else "",
        element("p", made, "The paper's claims, counted once for each data set:" if any(counts.values()) else ""),
        element("ul", *tiles, class_="tiles") if any(counts.values()) else "",
        element("p", sentence(missing), class_="missing") if missing else "",
        element("dl", *listed) if listed else "",
        class_="summary",
    )


def _contents(parts: Sequence[Part]) -> Markup:
    lines = []
    for finding, _, claims in parts:
        counts = {holds: n for holds, n in verdict_counts(claims).items() if n}
        marks = [
            element("span", f"{SIGNS[holds]} {n}", class_=VERDICTS[holds][0], title=f"{n} {VERDICTS[holds][1]}")
            for holds, n in counts.items()
        ]
        link = element("a", finding.experiment.title, href=f"#{slug(finding.experiment.name)}")
        lines.append(element("li", link, *(part for mark in marks for part in (" ", mark))))
    return element("nav", element("h2", "Contents"), element("ol", *lines), aria_label="Contents")
