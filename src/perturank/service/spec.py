"""What decides a model beside its clicks: ranker, features, window, exploration, seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import msgspec

from perturank.catalogue import published
from perturank.core import START, Ranker, streams
from perturank.errors import BadInput
from perturank.hyperparameters import Settings
from perturank.parts.history_ranker import MemorySettings
from perturank.service.refusals import Refused

# Of a new model whose request names none. P²HeadRank's matrices grow with the square of the number of features: at
# 2,000 a version has 38 MB, so that documents of more than WIDE features get networks without such matrices.
DEFAULT_RANKER, WIDE_RANKER, WIDE = "p2headrank", "p2neurrank", 1000
MOST_PLACES = 100
MOST_FEATURES = 10_000
MOST_LAYERS = 16
MOST_BYTES = 1_000_000_000
MOST_IN_A_BATCH = 64
# Pairs that a model remembers, and bytes of their documents, unless it says otherwise: a service runs for years, and
# a batch copies all of them. With a batch's own pairs they fill powers of two.
MEMORY = 14_000
MEMORY_BYTES = 60_000_000

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named feature: x becomes (x - shift) / scale, and a document that lacks it gets `missing` instead."""

    name: Name
    shift: float = 0.0
    scale: float = 1.0
    missing: float | None = None  # of the scaled feature; none: it must be given


class Exploration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far exploration may go: the probability that is logged accounts for all three."""

    protected: Count = 0  # so many top places always show the best estimate
    displacement: Count | None = None  # places a document may stand away from where the best estimate has it
    share: Share = 1.0  # of the lists that explore at all


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a request and a record say of a model in the same words."""

    n_features: Annotated[int, msgspec.Meta(ge=1, le=MOST_FEATURES)]
    settings: dict[str, Any] = {}
    features: tuple[Feature, ...] | None = None
    places: Annotated[int, msgspec.Meta(ge=1, le=MOST_PLACES)] = 10
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 1
    window: Annotated[float, msgspec.Meta(gt=0, le=31 * 86400)] = 1800.0  # seconds that feedback may take
    exploration: Exploration = Exploration()
    cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None  # impressions of one source among CAP_AMONG
    batch: Annotated[int, msgspec.Meta(ge=1, le=MOST_IN_A_BATCH)] | None = None  # learned together; none: all there is
    chance: Literal["machine", "seeded"] = "machine"  # seeded: the number of the draw decides a list, and the seed


def _ranker_of_early_records() -> str:
    """Return the ranker of a record that names none: the default when such records were written."""
    return "p2neurrank"


class Spec(_Words, frozen=True):
    """A model as the log holds it, with every setting that there was when it was made.

    Changing what decides learning (ranker, settings, features, places, seed) starts it anew.
    """

    ranker: Name = msgspec.field(default_factory=_ranker_of_early_records)  # a factory: new records always name it

    def chosen_settings(self) -> Settings:
        """Return the ranker's settings; one that is newer than the record is as if it were not there."""
        return type(published(self.ranker).settings).recorded(self.settings)

    def complete(self) -> Spec:
        """Return the same with the settings that are newer than the record."""
        return msgspec.structs.replace(self, settings=self.chosen_settings().as_dict())

    def start(self) -> Ranker:
        """Return the ranker that has learned nothing, the same one every time."""
        return _start(self.ranker, self.chosen_settings(), self.n_features, self.seed)

    @classmethod
    def other(cls, ranker: str, changes: Mapping[str, str], seed: int) -> Spec:
        """Return another ranker in words, for a replay; the rest is the model's own."""
        settings = published(ranker).settings.parsed(changes)
        return cls(n_features=1, ranker=ranker, settings=settings.as_dict(), seed=seed)

    @property
    def is_limited(self) -> bool:
        """Whether exploration is held back at all."""
        return self.exploration != Exploration()

    def learns_like(self, other: Spec) -> bool:
        """Return whether what the other has learned can be kept."""
        same = all(getattr(self, name) == getattr(other, name) for name in DECIDES_LEARNING)
        return same and self.chosen_settings() == other.chosen_settings() and _read_alike(self.features, other.features)


class SpecRequest(_Words, frozen=True):
    """A model in words. A ranker or settings that are not named are those of the model, where it exists already."""

    ranker: Annotated[Name | msgspec.UnsetType, msgspec.Meta(extra_json_schema={"default": DEFAULT_RANKER})] = (
        msgspec.UNSET
    )

    def checked(self, held: Spec | None = None) -> Spec:
        """Return the model with every setting said, if it can be made; `held` is what stands under its name.

        A model of as many features keeps what is not named: who makes its model at every start, in the same words,
        goes on learning when a release brings other defaults.
        """
        try:
            msgspec.convert(msgspec.to_builtins(self), SpecRequest)  # what was made here has passed no check yet
        except msgspec.ValidationError as error:
            raise Refused("such a model cannot be", str(error)) from None
        if held is not None and held.n_features != self.n_features:
            held = None
        ranker = self.ranker or (_default_ranker(self.n_features) if held is None else held.ranker)
        try:
            goes_on = held is not None and held.ranker == ranker
            chosen = held.chosen_settings() if held is not None and goes_on else _defaults(ranker, self.n_features)
            chosen = chosen.changed(**self.settings)
        except BadInput as error:
            raise Refused(str(error), "see `perturank rankers` for what there is") from None
        _check_size(ranker, chosen, self.n_features)
        if self.features is not None:
            _check_features(self.features, self.n_features)
        words = {name: getattr(self, name) for name in _Words.__struct_fields__}
        return Spec(**words | {"ranker": ranker, "settings": chosen.as_dict()})


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


CAP_AMONG = 1000
DECIDES_LEARNING = ("n_features", "ranker", "places", "seed")  # and settings and features: see learns_like
Mode = Literal["learn", "exploit", "shadow"]


def _read_alike(mine: tuple[Feature, ...] | None, other: tuple[Feature, ...] | None) -> bool:
    """Return whether documents that both accept reach the ranker as the same numbers."""
    if mine is None or other is None:
        return all((feature.shift, feature.scale) == (0, 1) for feature in mine or other or ())
    return [(f.name, f.shift, f.scale) for f in mine] == [(f.name, f.shift, f.scale) for f in other] and all(
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
        if not all(math.isfinite(v) for v in (feature.shift, feature.scale, feature.missing or 0.0)):
            raise Refused(f"shift, scale or missing of feature {feature.name!r} is not finite", "send finite numbers")
    zero = next((feature.name for feature in features if feature.scale == 0), None)
    if zero is not None:
        raise Refused(f"the scale of feature {zero!r} is 0", "divide by something else")
