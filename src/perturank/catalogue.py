"""Everything that has a name. The folder of rankers is the registry: a new algorithm is one new file.

A ranker may also lie in another package: an entry point of the group `perturank.rankers` makes it known by its plain
name, and `my_package.my_module:NAME` names it without one.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

import jax

from perturank import rankers as folder
from perturank.core import Ranker
from perturank.errors import BadInput, unknown
from perturank.hyperparameters import Settings
from perturank.parts.scoring import NETWORK
from perturank.publishing import Published

GROUP = "perturank.rankers"  # of entry points: each names a module with a list PUBLISHED


@cache
def rankers() -> dict[str, Published]:
    """Return every ranker that has a plain name: those of this package, and those of entry points."""
    modules = [importlib.import_module(f"{folder.__name__}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)]
    modules += [importlib.import_module(each.module) for each in entry_points(group=GROUP)]
    found: dict[str, Published] = {}
    for entry in (p for m in modules for p in published_in(m)):
        if found.setdefault(entry.name, entry) != entry:
            places = f"{found[entry.name].kind.__module__} and {entry.kind.__module__}"
            raise BadInput(f"two rankers are named {entry.name!r}, in {places}", "rename one, or uninstall its package")
    return dict(sorted(found.items()))


def published_in(module: object) -> list[Published]:
    """Return the rankers in a module's list PUBLISHED."""
    listed = getattr(module, "PUBLISHED", ())
    return [each for each in listed if isinstance(each, Published)] if isinstance(listed, Iterable) else []


def published(name: str) -> Published:
    """Return the ranker of this plain name; an unknown name is refused with the nearest one. No code is loaded."""
    known = rankers()
    if name not in known:
        raise unknown("ranker", name, known)
    return known[name]


def load_published(name: str, *, imports: bool = True) -> Published:
    """Return the ranker of a plain name, or of `my_package.my_module:NAME`, whose module is imported.

    With `imports` false the module must have been imported before: a name that was read from a file loads no code.
    """
    if ":" not in name:
        if imports and name not in rankers():
            own = f"a ranker of your own is named by its module: {name.removesuffix('.py')}:NAME"
            raise BadInput(str(unknown("ranker", name, rankers())), own)
        return published(name)
    module_name, _, wanted = name.partition(":")
    module = import_module(module_name) if imports else sys.modules.get(module_name)
    if module is None:
        raise BadInput(f"the ranker {name!r} lies in a module that is not imported", f"import {module_name} first")
    found = {each.name: each for each in published_in(module)}
    entry = found.get(wanted) or getattr(module, wanted, None)
    if not isinstance(entry, Published):
        place = getattr(module, "__file__", None) or module_name
        what = f"its PUBLISHED has {', '.join(found)}" if found else "it has no list PUBLISHED of rankers"
        raise BadInput(f"no ranker {wanted!r} in {module_name} ({place})", what)
    return replace(entry, name=name)


def import_scorer(settings: Settings) -> None:
    """Import the module of the scorer `module:NAME` that these settings name, if they do."""
    name = settings.as_dict().get("scorer")
    if isinstance(name, str) and name != NETWORK:
        import_module(name.partition(":")[0])


def import_module(name: str) -> ModuleType:
    """Return the module; the working directory is searched last, so that nothing there replaces what is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks another
    except (ValueError, TypeError):  # an empty or relative name
        pass
    if name.endswith(".py"):
        raise BadInput(f"{name!r} is the name of a file", f"name the module: {name.removesuffix('.py')}:NAME")
    raise BadInput(
        f"no module {name!r}, neither among the installed packages nor in {os.getcwd()}",
        "install its package, or run the command in its folder",
    )


def make(name: str, n_features: int, *, seed: int = 0, **settings: object) -> Ranker:
    """Return a new ranker that has learned nothing.

    >>> ranker = make("pdgd-linear", n_features=3, learning_rate=0.05)
    """
    entry = load_published(name)
    chosen = entry.settings.changed(**settings)
    import_scorer(chosen)
    return entry.make(n_features, jax.random.key(seed), chosen)
