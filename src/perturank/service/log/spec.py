"""A model's specification as the service uses it: checked, completed with defaults, made into a ranker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, get_args

import equinox as eqx
import jax
import msgspec
import numpy as np

from perturank.catalogue import published
from perturank.core import START, Fades, Key, Query, Ranker, streams
from perturank.errors import BadInput
from perturank.hyperparameters import Settings
from perturank.parts.history_ranker import MemorySettings
from perturank.parts.standardised import Scale, Standardised, standardised
from perturank.parts.widening import are_alike, can_widen, widened
from perturank.service.log.refusals import Refused
from perturank.wire.requests import OnError
from perturank.wire.specification import (
    ACTIONS,
    DEFAULT_RANKER,
    Chance,
    Exploration,
    Feature,
    Fields,
    Mode,
    OnDrift,
    Scaling,
    SpecRecord,
    SpecRequest,
    Ubi,
)

# P²HeadRank's matrices grow with the square of the number of features: at 2,000 a version has 38 MB, so that documents
# of more than WIDE features get networks without such matrices by default.
WIDE_RANKER, WIDE = "p2neurrank", 1000
MOST_LAYERS = 16
MOST_BYTES = 1_000_000_000
# Pairs that a model remembers, and bytes of their documents, unless it says otherwise: a service runs for years, and
# a batch copies all of them. With a batch's own pairs they fill powers of two.
MEMORY = 14_000
MEMORY_BYTES = 60_000_000
# Of a new model of the default ranker. Its published settings must find an order from nothing, on few queries that
# come again and again; customers have a prior to begin with, and bring ever new lists (docs/service/tuning.md).
IN_A_SERVICE = {
    "noise_std": 0.2,
    "early_noise": 1.0,
    "new_weight": 4.0,
    "widths": (200,),
    "bias": True,
    "l2_document": 1.0,
    "l2_taught": 10.0,
}
LIMITS_AMONG = 1000  # the newest impressions, and votes, among which `cap` and `votes` limit those of one source
DECIDES_LEARNING = ("ranker", "places", "seed", "scaling", "prior_strength")  # and settings and features: see follow
CHOICES = {"mode": Mode, "on_error": OnError, "scaling": Scaling, "chance": Chance, "on_drift": OnDrift}
SAME_SCALE = 1e-12  # relative: two numbers that a program computed in two ways


class Spec(SpecRecord, frozen=True):
    """A model as the log holds it, and the ranker that it describes.

    Features that were added, dropped or moved since learning began leave the ranker inside the scale as it is:
    `columns` [d + 1] says which of its `width` features each of the model's is, and the prior, which is the last.
    """

    columns: tuple[int, ...] | None = None  # None: they are the same
    width: int = 0  # 0: n_features and the prior

    def chosen_settings(self) -> Settings:
        """Return the ranker's settings; one that is newer than the record is as if it were not there."""
        return type(published(self.ranker).settings).recorded(self.settings)

    def complete(self) -> Spec:
        """Return the same with the settings that are newer than the record."""
        return msgspec.structs.replace(self, settings=self.chosen_settings().as_dict())

    def start(self) -> Ranker:
        """Return the ranker that has learned nothing, the same one every time; models of equal specs share it."""
        return _start_of(
            msgspec.msgpack.encode(msgspec.structs.replace(self, ubi=Ubi(), keep_query=False, on_drift="alarm"))
        )

    @property
    def needs_own_lists(self) -> bool:
        """Whether the ranker learns only from lists that it drew itself, since it needs its memo of them."""
        return _needs_own_lists(self.ranker, self.chosen_settings(), self.n_features, self.places)

    def _start(self) -> Ranker:
        width = self.width or self.n_features + self.is_standardised
        inside = _start_inside(self.ranker, self.chosen_settings(), width, self.seed)
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
            slots=self.columns,
        )

    @property
    def layout(self) -> tuple[int, ...]:
        """Which features of the ranker inside the model's features are; [d]. The log's features are in this order."""
        return tuple(range(self.n_features)) if self.columns is None else self.columns[:-1]

    def with_layout(self, n_features: int, columns: tuple[int, ...] | None, width: int) -> Spec:
        """Return the model as it was, or will be, with other features, whose names and scales are left out."""
        return msgspec.structs.replace(self, n_features=n_features, features=None, columns=columns, width=width)

    def adapt(self, ranker: Ranker) -> Ranker:
        """Return a ranker of this model, made when it had other features, behind the features of now."""
        start = self.start()
        if not isinstance(ranker, Standardised) or not isinstance(start, Standardised):
            return ranker
        inside, n = ranker.ranker, start.ranker.n_features
        if inside.n_features < n:
            inside = widened(inside, n, partial(_start_inside, self.ranker, self.chosen_settings()))
        return ranker.behind(start, inside)

    def owned(self) -> dict[str, Any]:
        """Return what the caller owns, as JSON values: all but what follows from earlier changes."""
        return msgspec.to_builtins(msgspec.structs.replace(self.complete(), columns=None, width=0))

    @property
    def is_standardised(self) -> bool:
        """Whether the ranker stands behind a scale, which sees the prior as one more feature."""
        return self.scaling != "none"

    @property
    def kind(self) -> tuple[object, ...]:
        """What decides, beside the size of a history, which compiled programs a model needs."""
        names = None if self.features is None else tuple(feature.name for feature in self.features)
        shape = self.n_features, self.places, self.is_standardised, self.prior_strength, self.columns, self.width
        return self.ranker, str(self.settings), *shape, names

    @property
    def reading(self) -> tuple[object, ...]:
        """What decides how documents become the arrays that the log keeps: models that agree in it can share them."""
        names = None if self.features is None else tuple(feature.name for feature in self.features)
        return self.scaling, self.n_features, self.features if self.scaling == "none" else names

    @classmethod
    def other(cls, ranker: str, changes: Mapping[str, str], seed: int) -> Spec:
        """Return another ranker in words, for a replay; the rest is the model's own."""
        settings = published(ranker).settings.parsed(changes)
        return cls(n_features=1, ranker=ranker, settings=settings.as_dict(), seed=seed)

    @property
    def is_limited(self) -> bool:
        """Whether the spec limits exploration."""
        return self.exploration != Exploration()

    def follow(self, existing: Spec | None) -> tuple[Spec, str]:
        """Return this spec as the next of a model, and why its learning would begin anew; an empty reason: it goes on.

        Features are found by their names, those that are renamed by what they were.
        """
        named = self.features and tuple(msgspec.structs.replace(feature, was=None) for feature in self.features)
        fresh = msgspec.structs.replace(self, features=named)
        if existing is None:
            return fresh, ""
        why = _other_fields(self, existing) or _other_settings(self, existing)
        if why:
            return fresh, why
        if self.features is None or existing.features is None:
            moved, why = (existing.columns, existing.width), _other_unnamed_features(self, existing)
        else:
            sources = _sources(self.features, existing.features)
            moved, why = _moved(sources, existing), _other_features(self, existing, sources)
        if why:
            return fresh, why
        return msgspec.structs.replace(fresh, columns=moved[0], width=moved[1]), ""


def _other_fields(new: Spec, old: Spec) -> str:
    """Return which field begins learning anew; empty: none."""
    names = [name for name in DECIDES_LEARNING if getattr(new, name) != getattr(old, name)]
    return "; ".join(f"{name} would be {getattr(new, name)} and is {getattr(old, name)}" for name in names)


def _other_settings(new: Spec, old: Spec) -> str:
    mine, theirs = new.chosen_settings().as_dict(), old.chosen_settings().as_dict()
    names = [name for name in mine if mine[name] != theirs[name]]
    return "; ".join(f"the setting {name} would be {mine[name]} and is {theirs[name]}" for name in names)


def _other_unnamed_features(new: Spec, old: Spec) -> str:
    if new.n_features != old.n_features:
        says = f"n_features would be {new.n_features} and is {old.n_features}"
        return f"{says}, and only named features can be told apart"
    own = next((f.name for f in new.features or old.features or () if _own_scale(f, new) not in (None, (0, 1))), None)
    return "" if own is None else f"feature {own!r} has a scale, and either the model or the change names no features"


def _sources(new: tuple[Feature, ...], old: tuple[Feature, ...]) -> list[int | None]:
    """Return which of the old features each of the new ones is; None: it is added."""
    places = {feature.name: i for i, feature in enumerate(old)}
    renamed = [feature.was for feature in new if feature.was is not None and feature.name not in places]
    for was in renamed:
        if was not in places or renamed.count(was) > 1:
            raise Refused(f"no feature can be renamed that was {was!r}", "name one that the model has, once")
    names = [feature.was if feature.was in renamed and feature.name not in places else feature.name for feature in new]
    taken = [name in renamed and name == feature.name for name, feature in zip(names, new, strict=True)]
    return [None if is_taken else places.get(name or "") for name, is_taken in zip(names, taken, strict=True)]


def _moved(sources: list[int | None], old: Spec) -> tuple[tuple[int, ...] | None, int]:
    """Return `columns` and `width` of a model whose features come from these of the old ones."""
    before, width = old.columns or tuple(range(old.n_features + 1)), old.width or old.n_features + 1
    columns = []
    for source in sources:
        columns.append(width if source is None else before[source])
        width += source is None
    columns.append(before[-1])
    is_same = columns == list(range(width))
    return (None, 0) if is_same else (tuple(columns), width)


def _other_features(new: Spec, old: Spec, sources: list[int | None]) -> str:
    """Return which feature begins learning anew; empty: none."""
    assert new.features is not None
    assert old.features is not None
    if not new.is_standardised and sources != list(range(old.n_features)):
        return "with scaling none, features cannot be added, dropped or moved"
    if all(source is None for source in sources):
        return "the model would keep none of its features"
    for feature, source in zip(new.features, sources, strict=True):
        if source is None:
            continue
        was = old.features[source]
        if not _is_close(_own_scale(feature, new), _own_scale(was, old)):
            return f"feature {feature.name!r} would have another shift or scale"
        if feature.missing != was.missing and None not in (feature.missing, was.missing):
            return f"feature {feature.name!r} would have another `missing` value"
    before, n_new = old.width or old.n_features + 1, sources.count(None)
    if n_new and not _can_widen(new.ranker, new.chosen_settings(), before, before + n_new):
        return f"{new.ranker} with these settings cannot take more features"
    return ""


def _own_scale(feature: Feature, spec: Spec) -> tuple[float, float] | None:
    """Return shift and scale; None: they are learned."""
    is_set = feature.has_own_scale or spec.scaling != "auto"
    return (feature.shift or 0.0, feature.scale or 1.0) if is_set else None


def _is_close(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(math.isclose(a, b, rel_tol=SAME_SCALE) for a, b in zip(one, other, strict=True))


def checked_spec(request: SpecRequest, existing: Spec | None = None, *, is_whole: bool = False) -> Spec:
    """Return the spec with every setting filled in; `existing` is the model of this name. Refuse what cannot be made.

    A model with the same number of features, or with names for them, keeps its ranker and settings where the request
    names none. So a client that sends the same request at every start keeps its model when a release changes the
    defaults. A request that `is_whole` names all that is to be kept.
    """
    try:
        msgspec.convert(msgspec.to_builtins(request), SpecRequest)  # what was made here has passed no check yet
    except msgspec.ValidationError as error:
        raise Refused("such a model cannot be", str(error)) from None
    are_named = existing is not None and existing.features is not None and request.features is not None
    if is_whole or (existing is not None and existing.n_features != request.n_features and not are_named):
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
    scaling = request.scaling or ("auto" if existing is None else existing.scaling)
    if request.features is not None:
        _check_features(request.features, request.n_features)
    worthless = next((name for name, worth in request.actions.items() if math.isnan(worth)), None)
    if worthless is not None:
        raise Refused(f"the worth of action {worthless!r} is NaN", "send a number")
    strange = next((name for name in request.ubi.actions.values() if name not in ACTIONS | request.actions), None)
    if strange is not None:
        raise Refused(f"`ubi` has an action {strange!r}", f"the model knows {', '.join(ACTIONS | request.actions)}")
    own = next((each.name for each in request.features or () if each.has_own_scale), None)
    if scaling == "query" and own is not None:
        raise Refused(f"feature {own!r} has a scale of its own", "scaling: query scales every feature within each list")
    if request.on_drift == "forget" and not can_forget(ranker):
        raise Refused(f"{ranker} has no memory that could fade", "choose another `on_drift`: alarm or challenger")
    fields = {name: getattr(request, name) for name in Fields.__struct_fields__}
    chosen_too = {"settings": chosen.as_dict(), "scaling": scaling, "actions": ACTIONS | request.actions}
    spec = Spec(**fields | {"ranker": ranker} | chosen_too)
    if chosen != _defaults(_default_ranker(request.n_features), request.n_features):  # which always fits
        _check_size(ranker, chosen, request.n_features + 1)  # a scale adds the prior
    return spec


def can_forget(ranker: str) -> bool:
    """Return whether a ranker of this name has a memory that could fade."""
    return isinstance(published(ranker).kind, Fades)


def patched(spec: Spec, patch: Any) -> SpecRequest:
    """Return the request for a model that is changed by an RFC 7396 merge patch.

    Settings belong to a ranker, and n_features follows from the features where the patch does not say it.
    """
    if not isinstance(patch, dict):
        raise Refused("the patch is not an object", "send the fields that are to change")
    whole = spec.owned()
    if patch.get("ranker", spec.ranker) != spec.ranker:
        del whole["settings"]
    if isinstance(patch.get("features"), list | tuple):
        patch = {"n_features": len(patch["features"])} | patch
    try:
        return msgspec.convert(_merged(whole, patch), SpecRequest)
    except msgspec.ValidationError as error:
        raise Refused("the patch cannot be understood", with_choices(str(error))) from None


def with_choices(error: str) -> str:
    """Return what msgspec says is wrong, and the values that a field may have whose value is none of them.

    >>> with_choices("Invalid enum value 'guess' - at `$.mode`")
    "Invalid enum value 'guess' - at `$.mode`: one of learn, exploit, shadow"
    """
    choices = CHOICES.get(error.rpartition(".")[2].rstrip("`")) if error.startswith("Invalid enum value") else None
    return error if choices is None else f"{error}: one of {', '.join(get_args(choices))}"


def _merged(target: Any, patch: Any) -> Any:
    """Return a value changed by a merge patch: null takes a field away."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _default_ranker(n_features: int) -> str:
    return WIDE_RANKER if n_features > WIDE else DEFAULT_RANKER


def _defaults(ranker: str, n_features: int) -> Settings:
    """Return the settings of a new model; its memory is bounded, and the default ranker explores less at first."""
    settings = published(ranker).settings
    if not isinstance(settings, MemorySettings):
        return settings
    if ranker == DEFAULT_RANKER:
        settings = settings.changed(**IN_A_SERVICE)
    bytes_of_a_pair = 2 * 4 * n_features
    return settings.changed(memory=min(MEMORY, MEMORY_BYTES // bytes_of_a_pair))


@lru_cache(maxsize=64)
def _start_of(spec: bytes) -> Ranker:
    return msgspec.msgpack.decode(spec, type=Spec)._start()


@lru_cache(maxsize=64)  # it is traced, which takes a while
def _needs_own_lists(ranker: str, settings: Settings, n_features: int, places: int) -> bool:
    query = Query.of(np.zeros((places, n_features)))

    def memo(query: Query, key: Key) -> Any:
        return published(ranker).kind.start(settings, n_features, key).rank(query, key, places).memo

    return bool(jax.tree.leaves(eqx.filter_eval_shape(memo, query, jax.random.key(0))))


@lru_cache(maxsize=32)  # making one compiles a program
def _start_inside(ranker: str, settings: Settings, n_features: int, seed: int) -> Ranker:
    return published(ranker).make(n_features, streams(seed)[START], settings)


@lru_cache(maxsize=32)  # it makes several rankers
def _can_widen(ranker: str, settings: Settings, before: int, after: int) -> bool:
    """Return whether a ranker keeps what it has learned when it gets so many features instead of so many."""
    start = partial(_start_inside, ranker, settings)
    return are_alike(start(before, 0), start(after, 0)) and can_widen(start)


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
