"""A model's specification as the service uses it: checked, completed with defaults, made into a ranker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import equinox as eqx
import jax
import msgspec
import numpy as np

from perturank.catalogue import published
from perturank.core import START, Ranker, streams
from perturank.errors import BadInput
from perturank.hyperparameters import Settings
from perturank.parts.history_ranker import MemorySettings
from perturank.parts.standardised import Scale, standardised
from perturank.service.log.refusals import Refused
from perturank.wire import specification
from perturank.wire.specification import DEFAULT_RANKER, Exploration, Feature, Fields, Scaling, SpecRequest

# P²HeadRank's matrices grow with the square of the number of features: at 2,000 a version has 38 MB, so that documents
# of more than WIDE features get networks without such matrices by default.
WIDE_RANKER, WIDE = "p2neurrank", 1000
MOST_LAYERS = 16
MOST_BYTES = 1_000_000_000
# Pairs that a model remembers, and bytes of their documents, unless it says otherwise: a service runs for years, and
# a batch copies all of them. With a batch's own pairs they fill powers of two.
MEMORY = 14_000
MEMORY_BYTES = 60_000_000
CAP_AMONG = 1000  # the newest impressions, among which `cap` limits those of one source
DECIDES_LEARNING = (
    "n_features",
    "ranker",
    "places",
    "seed",
    "scaling",
    "prior_strength",
)  # and settings and features: see learns_like


class Spec(specification.SpecRecord, frozen=True):
    """A model as the log holds it, and the ranker that it describes."""

    def chosen_settings(self) -> Settings:
        """Return the ranker's settings; one that is newer than the record is as if it were not there."""
        return type(published(self.ranker).settings).recorded(self.settings)

    def complete(self) -> Spec:
        """Return the same with the settings that are newer than the record."""
        return msgspec.structs.replace(self, settings=self.chosen_settings().as_dict())

    def start(self) -> Ranker:
        """Return the ranker that has learned nothing, the same one every time."""
        inside = _start(self.ranker, self.chosen_settings(), self.n_features + self.is_standardised, self.seed)
        if not self.is_standardised:
            return inside
        features = self.features or (Feature(""),) * self.n_features
        fixed = [feature.has_own_scale or self.scaling == "query" for feature in features]
        spreads = [(feature.scale or 1.0) if is_set else 0.0 for feature, is_set in zip(features, fixed, strict=True)]
        return standardised(
            inside,
            Scale(np.array([*(feature.shift or 0.0 for feature in features), 0.0]), np.array([*spreads, 0.0])),
            fixed=[*fixed, False],
            missing=[*(feature.missing or 0.0 for feature in features), 0.0],
            strength=self.prior_strength,
            names=None if self.features is None else [feature.name for feature in features],
        )

    @property
    def is_standardised(self) -> bool:
        """Whether the ranker stands behind a scale, which sees the prior as one more feature."""
        return self.scaling != "none"

    @classmethod
    def other(cls, ranker: str, changes: Mapping[str, str], seed: int) -> Spec:
        """Return another ranker in words, for a replay; the rest is the model's own."""
        settings = published(ranker).settings.parsed(changes)
        return cls(n_features=1, ranker=ranker, settings=settings.as_dict(), seed=seed)

    @property
    def is_limited(self) -> bool:
        """Whether the spec limits exploration."""
        return self.exploration != Exploration()

    def learns_like(self, other: Spec) -> bool:
        """Return whether what the other has learned can be kept."""
        same = all(getattr(self, name) == getattr(other, name) for name in DECIDES_LEARNING)
        return (
            same
            and self.chosen_settings() == other.chosen_settings()
            and _read_alike(self.features, other.features, self.scaling)
        )


def checked_spec(request: SpecRequest, existing: Spec | None = None) -> Spec:
    """Return the spec with every setting filled in; `existing` is the model of this name. Refuse what cannot be made.

    A model with the same number of features keeps its ranker and settings where the request names none. So a client
    that sends the same request at every start keeps its model when a release changes the defaults.
    """
    try:
        msgspec.convert(msgspec.to_builtins(request), SpecRequest)  # what was made here has passed no check yet
    except msgspec.ValidationError as error:
        raise Refused("such a model cannot be", str(error)) from None
    if existing is not None and existing.n_features != request.n_features:
        existing = None
    ranker = request.ranker or (_default_ranker(request.n_features) if existing is None else existing.ranker)
    try:
        goes_on = existing is not None and existing.ranker == ranker
        chosen = (
            existing.chosen_settings() if existing is not None and goes_on else _defaults(ranker, request.n_features)
        )
        chosen = chosen.changed(**request.settings)
    except BadInput as error:
        raise Refused(str(error), "see `perturank rankers` for what there is") from None
    if chosen != _defaults(_default_ranker(request.n_features), request.n_features):  # which always fits
        _check_size(ranker, chosen, request.n_features + 1)  # a scale adds the prior
    scaling = request.scaling or ("auto" if existing is None else existing.scaling)
    if request.features is not None:
        _check_features(request.features, request.n_features)
    own = next((each.name for each in request.features or () if each.has_own_scale), None)
    if scaling == "query" and own is not None:
        raise Refused(f"feature {own!r} has a scale of its own", "scaling: query scales every feature within each list")
    fields = {name: getattr(request, name) for name in Fields.__struct_fields__}
    return Spec(**fields | {"ranker": ranker, "settings": chosen.as_dict(), "scaling": scaling})


def _default_ranker(n_features: int) -> str:
    return WIDE_RANKER if n_features > WIDE else DEFAULT_RANKER


def _defaults(ranker: str, n_features: int) -> Settings:
    """Return the settings of a new model; its memory is bounded."""
    settings = published(ranker).settings
    if not isinstance(settings, MemorySettings):
        return settings
    bytes_of_a_pair = 2 * 4 * n_features
    return settings.changed(memory=min(MEMORY, MEMORY_BYTES // bytes_of_a_pair))


@lru_cache(maxsize=32)  # making one compiles a program
def _start(ranker: str, settings: Settings, n_features: int, seed: int) -> Ranker:
    return published(ranker).make(n_features, streams(seed)[START], settings)


def _read_alike(mine: tuple[Feature, ...] | None, other: tuple[Feature, ...] | None, scaling: Scaling) -> bool:
    """Return whether documents that both accept reach the ranker as the same numbers."""

    def own_scale(feature: Feature) -> tuple[float, float] | None:
        is_set = feature.has_own_scale or scaling != "auto"
        return (feature.shift or 0.0, feature.scale or 1.0) if is_set else None

    if mine is None or other is None:
        return all(own_scale(feature) in (None, (0.0, 1.0)) for feature in mine or other or ())
    return [(f.name, own_scale(f)) for f in mine] == [(f.name, own_scale(f)) for f in other] and all(
        a.missing == b.missing or None in (a.missing, b.missing) for a, b in zip(mine, other, strict=True)
    )


def _check_size(ranker: str, settings: Settings, n_features: int) -> None:
    """Refuse a ranker that would not fit the machine, before it is made."""
    lists = [value for value in settings.as_dict().values() if isinstance(value, list)]
    if any(len(value) > MOST_LAYERS for value in lists):
        raise Refused(f"a setting has more than {MOST_LAYERS} numbers", "use fewer layers")
    entry = published(ranker)
    shape = eqx.filter_eval_shape(lambda key: entry.kind.start(settings, n_features, key), jax.random.key(0))
    n_bytes = sum(
        math.prod(leaf.shape) * 4 for leaf in jax.tree.leaves(shape) if isinstance(leaf, jax.ShapeDtypeStruct)
    )
    if n_bytes > MOST_BYTES:
        raise Refused(f"the ranker would take {n_bytes / 1e9:.1f} GB", "use fewer or narrower layers, or fewer rankers")


def _check_features(features: tuple[Feature, ...], n_features: int) -> None:
    names = [feature.name for feature in features]
    if len(names) != n_features:
        raise Refused(f"{len(names)} features are named, n_features is {n_features}", "name every feature")
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise Refused(f"two features are named {twice!r}", "give each its own name")
    for feature in features:
        if not all(math.isfinite(v or 0.0) for v in (feature.shift, feature.scale, feature.missing)):
            raise Refused(f"shift, scale or missing of feature {feature.name!r} is not finite", "send finite numbers")
    zero = next((feature.name for feature in features if feature.scale == 0), None)
    if zero is not None:
        raise Refused(f"the scale of feature {zero!r} is 0", "divide by something else")
