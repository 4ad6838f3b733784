"""How an arm looks: the same in every figure of a report, and unlike the others beside it, in colour and in grey."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perturank.experiments.experiment import Finding

INK = "#333333"
# Okabe and Ito's palette: distinct under every common colour blindness, and in grey.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
# The same without yellow, which is too light for a line; their black last.
COLOURS = (PALETTE[0], PALETTE[5], PALETTE[2], PALETTE[1], PALETTE[3], PALETTE[4], "#000000")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.5), (1.3, 1.3), (6, 1.5, 1.3, 1.5))
MARKERS = "os^DvPX<>ph"


@dataclass(frozen=True)
class Style:
    """A colour, a dash pattern (none: solid) and a marker; our own arms are drawn heavier."""

    colour: str
    dash: tuple[float, ...]
    marker: str
    is_ours: bool = False


def arms(finding: Finding) -> list[str]:
    """Return the labels of the arms with runs, in the order of the evidence."""
    found = (evidence.runs.items() for evidence in finding.evidence)
    return list(dict.fromkeys(label for runs in found for label, by_user in runs if any(by_user.values())))


def styles(findings: Sequence[Finding]) -> dict[str, Style]:
    """Return a style per arm: our own choose first, and none takes the colour of one it is drawn with if it can."""
    ours = {arm.label for finding in findings for arm in finding.experiment.arms if arm.is_ours}
    together = [arms(finding) for finding in findings]
    labels = sorted(dict.fromkeys(label for group in together for label in group), key=lambda label: label not in ours)
    taken: dict[str, int] = {}
    for label in labels:
        beside = {taken[other] for group in together if label in group for other in group if other in taken}
        taken[label] = _least_alike(beside)
    return {label: _style(place, label in ours) for label, place in taken.items()}


def _style(place: int, is_ours: bool = False) -> Style:
    turn = place // len(COLOURS)
    dash = DASHES[(place + 2 * turn) % len(DASHES)]  # neighbours differ in both, so that grey tells them apart too
    return Style(COLOURS[place % len(COLOURS)], dash, MARKERS[place % len(MARKERS)], is_ours)


def _least_alike(beside: Iterable[int]) -> int:
    others = [_style(place) for place in beside]

    def likeness(place: int) -> tuple[int, ...]:
        style = _style(place)
        return (
            sum((style.colour, style.dash) == (other.colour, other.dash) for other in others),
            sum((style.dash, style.marker) == (other.dash, other.marker) for other in others),
            sum(style.colour == other.colour for other in others),
            sum(style.marker == other.marker for other in others),
            place,
        )

    return min(range(len(COLOURS) * len(DASHES)), key=likeness)
