from __future__ import annotations

import dataclasses
import pkgutil

import pytest
from helpers import small

from perturank import catalogue, rankers
from perturank.errors import BadInput

PROMISED = [
    "p2linrank",
    "p2neurrank",
    "p2headrank",
    "p2linrank-paper",
    "p2neurrank-paper",
    "pairrank",
    "pairrank-diag",
    "olranknet",
    "olranknet-diag",
    "pdgd-linear",
    "pdgd-neural",
    "dbgd-linear",
    "dbgd-neural",
    "mgd-linear",
    "mgd-neural",
    "epsilon-greedy-linear",
    "epsilon-greedy-neural",
    "random",
]


def test_every_promised_ranker_is_there() -> None:
    assert set(PROMISED) <= set(catalogue.rankers())
    assert list(catalogue.rankers()) == sorted(catalogue.rankers())


def test_every_file_of_the_folder_publishes_something() -> None:
    files = {module.name for module in pkgutil.iter_modules(rankers.__path__)}
    assert {p.kind.__module__.rpartition(".")[2] for p in catalogue.rankers().values()} == files


@pytest.mark.parametrize("name", PROMISED)
def test_every_hyper_parameter_is_documented_and_its_default_allowed(name: str) -> None:
    entry = catalogue.published(name)
    assert entry.name == name
    assert entry.summary
    assert entry.settings.changed() == entry.settings
    for field in dataclasses.fields(entry.settings):
        assert field.metadata["doc"], field.name


@pytest.mark.parametrize(
    "name, fields",
    [
        ("p2linrank", {"n_rankers": "N", "noise_std": "ν", "l2": "λ", "examined_beyond": "l"}),
        ("p2neurrank", {"widths": "m, L", "learning_rate": "η", "n_steps": "J"}),
        ("p2headrank", {"n_rankers": "N", "noise_std": "ν", "l2": "λ", "widths": "m, L", "floor": "ε"}),
        ("pairrank", {"alpha": "α", "l2": "λ"}),
        ("olranknet", {"alpha": "α", "widths": "m, L"}),
        ("dbgd-linear", {"step": "δ", "learning_rate": "η"}),
        ("epsilon-greedy-linear", {"epsilon": "ε"}),
    ],
)
def test_hyper_parameters_of_the_paper_bear_its_symbols(name: str, fields: dict[str, str]) -> None:
    symbols = {f.name: f.metadata["symbol"] for f in dataclasses.fields(catalogue.published(name).settings)}
    assert fields.items() <= symbols.items()


def test_a_ranker_is_made_by_name_with_settings_of_ones_own() -> None:
    ranker = catalogue.make("pdgd-linear", 3, learning_rate=0.25)
    assert ranker.n_features == 3
    assert ranker.settings.learning_rate == 0.25  # type: ignore[attr-defined]
    one, same, other = (catalogue.make("pdgd-neural", 5, seed=seed, widths=(8,)) for seed in (1, 1, 2))
    assert small.same_bits(one, same)
    assert not small.same_bits(one, other)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="unknown ranker 'p2neurank'; did you mean 'p2neurrank'"):
        catalogue.make("p2neurank", 5)
    with pytest.raises(BadInput, match="unknown hyper-parameter 'learning_rat'; did you mean 'learning_rate'"):
        catalogue.make("pdgd-linear", 5, learning_rat=1)
    with pytest.raises(BadInput, match=r"epsilon is 2\.0; it must be between 0 and 1"):
        catalogue.make("epsilon-greedy-linear", 5, epsilon=2.0)
