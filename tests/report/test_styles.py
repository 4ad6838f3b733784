from __future__ import annotations

from helpers.made_up import finals, finding

from perturank.experiments.experiment import Arm, Finding
from perturank.report.styles import COLOURS, styles


def of(*names: str, ours: str = "") -> Finding:
    arms = [Arm(name, "pdgd", is_ours=name == ours) for name in names]
    return finding([finals({name: {"perfect": [1.0]} for name in names})], arms)


def test_an_arm_looks_the_same_in_all_figures_and_our_own_chooses_first() -> None:
    looks = styles([of("a", "b", "p2", ours="p2"), of("c", "p2", "a", ours="p2")])
    assert set(looks) == {"a", "b", "c", "p2"}
    assert looks["p2"].colour == COLOURS[0]
    assert looks["p2"].is_ours


def test_arms_drawn_together_differ_in_colour_and_in_grey() -> None:
    names = [f"arm {i}" for i in range(12)]
    looks = styles([of(*names)])
    assert len({look.colour for look in looks.values()}) == len(COLOURS)
    assert len({(look.colour, look.dash) for look in looks.values()}) == len(names)
    assert len({(look.dash, look.marker) for look in looks.values()}) == len(names)


def test_arms_of_different_experiments_may_share_colours_but_not_within_one() -> None:
    parts = [of(*(f"{letter}{i}" for i in range(6)), "shared") for letter in "abcd"]
    looks = styles(parts)
    for part in parts:
        labels = [arm.label for arm in part.experiment.arms]
        assert len({looks[label].colour for label in labels}) == len(labels)


def test_more_arms_than_styles_still_have_one_each() -> None:
    assert len(styles([of(*(str(i) for i in range(40)))])) == 40
