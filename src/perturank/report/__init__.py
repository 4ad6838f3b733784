"""The report: figures with the numbers behind them, and one page that says what the runs say of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from perturank import storage
from perturank.errors import BadInput
from perturank.experiments.experiment import Finding
from perturank.report import curves, pictures, plots
from perturank.report.names import file_names
from perturank.report.page import page
from perturank.report.sections import Picture
from perturank.report.styles import Style, styles
from perturank.report.terminal import table
from perturank.report.verdicts import judged_claims

__all__ = ["table", "write_report"]


def write_report(folder: Path, findings: Sequence[Finding], facts: Mapping[str, str]) -> Path:
    """Write `report.html` and its `figures` (PNG, PDF, CSV) to the folder, and return the page's path."""
    figures = folder / "figures"
    try:
        figures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make {figures}: {error.strerror}", "choose a folder that can be written") from None
    looks, names = styles(findings), file_names([finding.experiment for finding in findings])
    parts = [(finding, _write_figures(figures, finding, names, looks), judged_claims(finding)) for finding in findings]
    path = folder / "report.html"
    storage.put(path, page(parts, facts).encode())
    return path


def _write_figures(
    folder: Path, finding: Finding, names: Mapping[tuple[str, int], str], looks: Mapping[str, Style]
) -> list[Picture]:
    """Write the figures that have something to show, and return what the page needs of them."""
    drawn = []
    for i, drawing in enumerate(finding.experiment.drawings):
        shown = curves.panels(finding, drawing)
        if not shown:
            continue
        name = names[finding.experiment.name, i]
        figure = plots.wide(shown, drawing, looks)
        files = {
            "png": pictures.png(figure),
            "pdf": pictures.pdf(figure),
            "csv": curves.to_csv(shown, drawing.against or "round"),
        }
        for kind, content in files.items():
            storage.put(folder / f"{name}.{kind}", content)
        narrow = pictures.svg(plots.narrow(shown, drawing, looks))
        drawn.append(Picture(drawing, name, shown, pictures.svg(figure), narrow, figure.get_figwidth()))
    return drawn
