"""Settings of rankers and users: frozen dataclasses whose fields know their symbol and their limits."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from perturank.errors import BadInput, unknown

S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class Limit:
    """A condition on a value, and how to say it."""

    holds: Callable[[Any], bool]
    says: str


POSITIVE = Limit(lambda v: v > 0, "must be above 0")
NOT_NEGATIVE = Limit(lambda v: v >= 0, "must be 0 or more")
PROBABILITY = Limit(lambda v: 0 <= v <= 1, "must be between 0 and 1")
SHARE = Limit(lambda v: 0 < v <= 1, "must be above 0 and at most 1")
AT_LEAST_ONE = Limit(lambda v: v >= 1, "must be 1 or more")
EVEN = Limit(lambda v: v >= 2 and v % 2 == 0, "must be an even number, 2 or more")
NEWER = {
    "scorer": "network",
    "bias": False,
    "l2_document": None,
    "l2_taught": None,
}  # fields that stored runs lack, and what they stand for there
WIDTHS = Limit(lambda v: len(v) >= 1 and all(w >= 1 for w in v), "must be one or more widths of 1 or more")


def hyper(default: Any, doc: str, symbol: str = "", limit: Limit | None = None) -> Any:
    """Declare a hyper-parameter: its default, what it does, the paper's symbol, its limit."""
    return dataclasses.field(default=default, metadata={"doc": doc, "symbol": symbol, "limit": limit})


def is_zero(value: Any) -> bool:
    """Return whether a number of the settings is 0, which switches something off: no array is (see `traced`)."""
    return isinstance(value, int | float) and value == 0


@dataclass(frozen=True)
class Settings:
    """Base of all settings: checks every field's type and limit when it is made.

    A field's own default says what rankers did before there was such a field: see `recorded`.
    """

    arrays: ClassVar[tuple[str, ...]] = ()  # fields that hold arrays instead of numbers: see `traced`

    def __post_init__(self) -> None:
        hints = _hints_of(self)
        for field in dataclasses.fields(self):
            value = _checked(field.name, getattr(self, field.name), hints[field.name])
            object.__setattr__(self, field.name, value)
            limit = field.metadata.get("limit")
            if limit is not None and isinstance(value, int | float | tuple) and not limit.holds(value):
                raise BadInput(f"{field.name} is {_shown(value)}", f"it {limit.says}")

    def changed(self: S, **changes: Any) -> S:
        """Return these settings with some changed; unknown names are refused with the nearest one."""
        names = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in names:
                raise unknown("hyper-parameter", name, names)
        return dataclasses.replace(self, **changes)

    def parsed(self: S, texts: Mapping[str, str]) -> S:
        """Return these settings with some changed, given as text (`--set widths=100,100`)."""
        hints = _hints_of(self)
        return self.changed(**{k: _parsed(k, v, hints[k]) if k in hints else v for k, v in texts.items()})

    def identity(self) -> dict[str, Any]:
        """Return plain values that name a run: see `without_newer`."""
        return without_newer(self.as_dict())

    def traced(self, as_array: Callable[[float], Any]) -> Self:
        """Return these settings with arrays for numbers, so that one compiled program serves all their values.

        A 0 stays a number: what it switches off is not compiled. Whole numbers stay too: they decide shapes.
        """
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        numbers = {k: as_array(v) for k, v in values.items() if isinstance(v, float) and not is_zero(v)}
        return self.with_arrays(values | numbers, tuple(numbers))

    @classmethod
    def with_arrays(cls, values: Mapping[str, Any], arrays: tuple[str, ...]) -> Self:
        """Return settings of these values, unchecked; the fields in `arrays` hold arrays."""
        made = object.__new__(cls)
        made.__dict__.update(values, arrays=arrays)
        return made

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from a record of all of them; fields newer than the record have their own default."""
        return cls().changed(**values)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            field.name: list(value) if isinstance(value := getattr(self, field.name), tuple) else value
            for field in dataclasses.fields(self)
        }


def without_newer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return these settings without newer fields that stand at what earlier runs did: such runs keep their names."""
    return {name: value for name, value in values.items() if name not in NEWER or value != NEWER[name]}


def _hints_of(settings: Settings) -> dict[str, Any]:
    """Return the types of all fields."""
    kind: object = type(settings)  # to mypy a class whose instances have a hash has none itself
    return _hints(kind)


_hints = functools.cache(typing.get_type_hints)  # Python evaluates their text anew every time it is asked


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _checked(name: str, value: Any, hint: Any) -> Any:
    for kind in _alternatives(hint):
        if kind is type(None) and value is None:
            return None
        if typing.get_origin(kind) is typing.Literal and value in typing.get_args(kind):
            return value
        if typing.get_origin(kind) is tuple and isinstance(value, list | tuple):
            if all(_is_whole(v) for v in value):
                return tuple(value)
        if kind is bool and isinstance(value, bool):
            return value
        if kind is int and _is_whole(value):
            return value
        if kind is float and (_is_whole(value) or (isinstance(value, float) and math.isfinite(value))):
            return float(value)
        if kind is str and isinstance(value, str):
            return value
    raise BadInput(f"{name} is {_shown(value)}", f"it must be {_described(hint)}")


def _is_whole(value: Any) -> bool:
    """Return whether it is an integer that machines can count with."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _parsed(name: str, text: str, hint: Any) -> Any:
    for kind in _alternatives(hint):
        try:
            if kind is type(None) and text.lower() == "none":
                return None
            if typing.get_origin(kind) is typing.Literal and text in typing.get_args(kind):
                return text
            if typing.get_origin(kind) is tuple:
                return tuple(int(part) for part in text.replace("x", ",").split(",") if part.strip())
            if kind is bool and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if kind in (int, float):
                return kind(text)
            if kind is str:
                return text
        except ValueError:
            continue
    raise BadInput(f"{name} is {text!r}", f"it must be {_described(hint)}")


def _described(hint: Any) -> str:
    words = []
    for kind in _alternatives(hint):
        if typing.get_origin(kind) is typing.Literal:
            words += [repr(choice) for choice in typing.get_args(kind)]
        elif typing.get_origin(kind) is tuple:
            words.append("whole numbers like 100,100")
        else:
            words.append(
                {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(kind, "none")
            )
    return " or ".join(words)


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a number of more than 18 digits"
    return ",".join(map(str, value)) if isinstance(value, tuple) else repr(value)
