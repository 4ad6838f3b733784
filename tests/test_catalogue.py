from __future__ import annotations

import dataclasses
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import small

from perturank import catalogue, rankers, storage
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


# Rankers of other packages

THEIRS = """
from perturank.publishing import Published
from perturank.rankers.pdgd import PUBLISHED as OURS

ours = OURS[0]


class Theirs(ours.kind):
    pass


PUBLISHED = [Published("theirs", "somebody else's", ours.settings, Theirs)]
ALONE = Published("alone", "not in the list", ours.settings, Theirs)
"""


@pytest.fixture
def their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "their_package").mkdir()
    (tmp_path / "their_package" / "__init__.py").touch()
    (tmp_path / "their_package" / "module.py").write_text(THEIRS)
    (tmp_path / "their_package" / "needy.py").write_text("import a_package_that_is_missing")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    return tmp_path


@pytest.mark.parametrize("name", ["their_package.module:theirs", "their_package.module:ALONE"])
def test_a_ranker_of_another_package_is_named_by_its_module(their_package: Path, name: str) -> None:
    assert catalogue.load_published(name).name == name
    ranker = catalogue.make(name, 3, learning_rate=0.25)
    assert type(ranker).__name__ == "Theirs"
    path = their_package / "ranker"
    storage.save(ranker, path)
    assert small.same_bits(storage.load(path), ranker)


def test_a_module_or_a_name_that_is_missing_is_refused_with_what_was_looked_for_and_where(their_package: Path) -> None:
    for name in ("their_packge.module:theirs", "their_package.modul:theirs", ":theirs"):
        with pytest.raises(BadInput, match=r"no module '.*', neither among the installed packages nor in "):
            catalogue.load_published(name)
    with pytest.raises(BadInput, match=r"no ranker 'their' in their_package.module \(.*module.py\); .* has theirs"):
        catalogue.load_published("their_package.module:their")
    with pytest.raises(BadInput, match="it has no list PUBLISHED"):
        catalogue.load_published("os:theirs")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_missing"):
        catalogue.load_published("their_package.needy:theirs")


def test_a_file_loads_no_code(their_package: Path) -> None:
    with pytest.raises(BadInput, match="unknown ranker"):
        catalogue.published("their_package.module:theirs")
    with pytest.raises(BadInput, match=r"not imported; import their_package.other first"):
        catalogue.load_published("their_package.other:theirs", imports=False)


def in_a_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout + done.stderr


def test_an_entry_point_makes_rankers_known_by_their_plain_names(their_package: Path) -> None:
    about = their_package / "their_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[perturank.rankers]\ntheirs = their_package.module\n")
    program = "from perturank import catalogue, storage; made = catalogue.make('theirs', 3); "
    assert in_a_process(program + "print(storage.header_of(made)['ranker'])") == "theirs\n"
    (their_package / "their_package" / "module.py").write_text(THEIRS.replace('"theirs"', '"pdgd-linear"'))
    said = in_a_process("from perturank import catalogue; catalogue.rankers()")
    assert "two rankers are named 'pdgd-linear', in perturank.rankers.pdgd and their_package.module" in said
