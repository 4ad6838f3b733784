from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from helpers.made_up import drawing, finals, finding, outcome
from rich.console import Console

from perturank import report
from perturank.errors import BadInput
from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Arm, Choice, Claim, Drawing, Finding, Verdict

EVIL = "<script>alert('x')</script>"
ARMS = (Arm("ours", "p2linrank", is_ours=True), Arm(EVIL, "pdgd"), Arm("third", "dbgd"))
VALUES = {
    "ours": {"perfect": [0.50, 0.52, 0.51], "navigational": [0.40, 0.42, 0.41]},
    EVIL: {"perfect": [0.30, 0.32, 0.31], "navigational": [0.30, 0.33, 0.31]},
    "third": {"perfect": [0.51, 0.53, 0.50], "navigational": [0.39, 0.42, 0.41]},
}
CLAIMS = (
    Claim("ours is good & new", lambda runs: Verdict(runs.mean("ours", "perfect", "ndcg") > 0.5, f"on {runs.data}")),
    Claim("ours is best", lambda runs: Verdict(False, "third 0.513 > 0.510")),
    Claim(EVIL, lambda runs: Verdict(None, f"too few runs {EVIL}")),
)


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and the text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []  # the element, and the text in it
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("img", "meta", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    @property
    def text(self) -> str:
        return " ".join(text for tag, text in self.texts if tag != "style")

    def inside(self, tag: str) -> list[str]:
        return [text for within, text in self.texts if within == tag]

    def attributes(self, name: str) -> list[str]:
        return [value for _, given in self.elements if (value := given.get(name))]


def sample(**more: Any) -> Finding:
    choices = (Choice("synthetic", EVIL, "perfect", 1, {"l2": 0.1, "how": EVIL}, 6, 0.4321),)
    drawings = (drawing(), Drawing("fig:efficiency", "seconds", f"Time {EVIL}", "running time (s)"))
    given: dict[str, Any] = {"choices": choices, "claims": CLAIMS, "drawings": drawings, "about": f"One.\n\n{EVIL}"}
    return finding([finals(VALUES)], ARMS, **(given | more))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report")
    assert (
        report.write_report(made / "new", [sample(n_missing=4)], {"version": "1.2", EVIL: EVIL})
        == made / "new/report.html"
    )
    return made / "new"


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_figures_are_there_as_png_pdf_and_csv_and_nothing_half_written_stays(folder: Path) -> None:
    names = [f"{name}.{kind}" for name in ("efficiency", "offline_linear") for kind in ("csv", "pdf", "png")]
    assert sorted(path.name for path in (folder / "figures").iterdir()) == names
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "report.html"]
    for name in names:
        begins = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-", "csv": b"data,user,"}[name[-3:]]
        assert (folder / "figures" / name).read_bytes().startswith(begins)


def test_the_page_asks_nothing_of_the_network(folder: Path, page: Page) -> None:
    for value in [value for name in ("src", "href", "srcset") for value in page.attributes(name)]:
        assert value.startswith(("data:image/svg+xml;base64,", "#", "figures/"))
    for link in page.attributes("href"):
        assert link.startswith("#") or (folder / link).is_file()
    assert not re.search(r"(https?:)?//", "".join(page.inside("style")))
    assert "@import" not in "".join(page.inside("style"))
    assert not {"script", "link", "iframe"} & {tag for tag, _ in page.elements}


def test_whatever_people_wrote_is_text(page: Page) -> None:
    assert page.text.count(EVIL) >= 8
    assert "script" not in {tag for tag, _ in page.elements}


def test_every_link_into_the_page_finds_its_heading_and_every_picture_says_what_it_shows(page: Page) -> None:
    anchors = [link[1:] for link in page.attributes("href") if link.startswith("#")]
    assert anchors
    assert set(anchors) <= set(page.attributes("id"))
    alts = page.attributes("alt")
    assert len(alts) == 2
    assert all("Panels: synthetic with the perfect user" in alt for alt in alts)
    assert [given["lang"] for tag, given in page.elements if tag == "html"] == ["en"]
    assert {given.get("scope") for tag, given in page.elements if tag == "th"} == {"col", "colgroup", "row", "rowgroup"}


def test_the_best_number_of_a_column_is_bold(page: Page) -> None:
    bold = page.inside("strong")
    assert bold[:2] == ["A drawing of ndcg", f"Time {EVIL}"]
    assert len(bold) == 2 + 2 + 3 * 2  # captions, the best of either user, and all arms took the same time
    assert {"0.513", "0.410"} <= set(bold)


def test_marks_can_be_seen_hovered_and_heard(page: Page) -> None:
    titles = page.attributes("title")
    heard = page.inside("span")
    worse = [title for title in titles if title.startswith("worse than ours, p ")]
    assert len(worse) == 2
    assert all(any(f"({title})" in text for text in heard) for title in worse)
    assert page.inside("span").count("▼") == 2
    assert page.inside("span").count("▲") == 0


def test_claims_are_shown_as_checked_and_counted(page: Page) -> None:
    assert [text for text in page.inside("span") if text in ("✓ yes", "✗ no", "? cannot tell")] == [
        "✓ yes",
        "✗ no",
        "? cannot tell",
    ]
    assert "third 0.513 > 0.510" in page.text
    assert "✓ 1  borne out" in page.text
    assert "✗ 1  not borne out" in page.text
    assert "? 1  cannot tell" in page.text


def test_runs_choices_and_facts_are_told(page: Page) -> None:
    assert page.inside("p").count("4 runs are missing: what is shown is of the finished ones.") == 2
    assert "1 experiment of 6 runs." in page.text  # the arms share their settings: one run per user and seed
    assert f"l2 = 0.1, how = {EVIL}" in page.inside("td")
    assert "0.4321" in page.inside("td")
    assert "1.2" in page.inside("dd")
    assert "fig:efficiency" in page.inside("code")


def test_every_arm_and_user_has_a_row_of_trust(page: Page) -> None:
    assert "Trust" in page.inside("h3")
    assert "Trust on synthetic" in page.inside("caption")
    assert {"perfect users", "navigational users"} <= set(page.inside("em"))
    cells = page.inside("td")
    ours = VALUES["ours"]["perfect"]
    row = [f"{value:.3f}" for value in (min(ours), 0.502, sum(ours) / 3)]
    assert any(cells[i : i + 3] == row for i in range(len(cells)))


def test_an_experiment_without_runs_says_so_and_draws_nothing(tmp_path: Path) -> None:
    nothing = finding([finals({"ours": {}})], ARMS, n_missing=9, claims=CLAIMS[:1])
    page = Page(report.write_report(tmp_path, [nothing], {}).read_text())
    assert "No run of this experiment has finished." in page.inside("p")
    assert "no run has finished" in page.text
    assert not list((tmp_path / "figures").iterdir())


def test_a_scale_says_which_arms_it_leaves_out_and_the_demo_that_it_decides_nothing(tmp_path: Path) -> None:
    fewer = finding([finals({"ours": VALUES["ours"]})], ARMS, about="Three.")
    page = Page(report.write_report(tmp_path, [fewer], {"scale": "demo"}).read_text())
    assert f"Left out at this scale: {EVIL}, third." in page.text
    assert "it decides nothing" in page.text
    page = Page(report.write_report(tmp_path, [sample()], {"scale": "quick"}).read_text())
    assert "Left out" not in page.text
    assert "it decides nothing" not in page.text


def test_two_drawings_under_one_label_have_files_of_their_own(tmp_path: Path) -> None:
    same = (drawing("ndcg", "fig:variance_01"), drawing("seconds", "fig:variance_01"))
    report.write_report(tmp_path, [sample(drawings=same)], {})
    assert sorted(path.stem for path in (tmp_path / "figures").glob("*.png")) == [
        "variance_01-ndcg",
        "variance_01-seconds",
    ]


def test_writing_again_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    report.write_report(tmp_path, [sample(n_missing=4)], {"version": "1.2", EVIL: EVIL})
    first, second = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (folder, tmp_path)
    )
    assert first == second != {}


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot make"):
        report.write_report(tmp_path / "file" / "report", [], {})


def test_the_terminal_shows_final_numbers_in_80_columns() -> None:
    users = ("perfect", "navigational", "informational", "position-based")
    runs = {
        arm: {
            user: [outcome({"ndcg": [0.1, 0.4 + s / 100]}, [1, 9], seed=s, user=user) for s in (0, 1)] for user in users
        }
        for arm in ("ours", "[bold]a rather long name of a ranker[/bold]")
    }
    shown = io.StringIO()
    Console(file=shown, width=80).print(report.table([finding([Evidence("some/folder/of/data", runs)], ARMS)]))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "Linear rankers: ndcg on data" in lines
    assert lines[-1].endswith("(paired t, Holm, 0.05)")
    assert lines[-1].startswith("±")
    assert all(any(user in line for line in lines) for user in users)
    assert "[bold]" in shown.getvalue()
    assert any(line.startswith("ours ★") and "0.405 ± " in line for line in lines)


def test_the_terminal_shows_trust_by_user_in_80_columns() -> None:
    ends = {"uncertain": [1.0, 0.125], "certain_wrong": [0.5, 0.25]}
    runs = [
        replace(outcome({"ndcg": [0.1, ndcg], **ends}, [1, 9], seed=s), random_ndcg=0.3)
        for s, ndcg in enumerate([0.2, 0.4, 0.6])
    ]
    shown = io.StringIO()
    evidence = Evidence("data", {"a ranker with quite a long name, greedy": {"perfect": runs}})
    Console(file=shown, width=80).print(report.table([finding([evidence], ARMS)]))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "Linear rankers: trust on data" in lines
    assert any(line.startswith("perfect users") for line in lines)
    assert any("0.200 0.240 0.400 33.3 % 12.5 % 25.0 %" in " ".join(line.split()) for line in lines)
