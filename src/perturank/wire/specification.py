"""The specification of a model, as a request states it and as the service answers it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

DEFAULT_RANKER = "p2headrank"  # of a new model whose request names none
MOST_PLACES = 100
MOST_FEATURES = 10_000
MOST_IN_A_BATCH = 64
LONGEST_WINDOW = 31 * 86400.0  # seconds
CLICK = "click"
ACTIONS = {CLICK: 1.0, "add_to_cart": 3.0, "purchase": 10.0}  # what each is worth, unless the model says otherwise

Mode = Literal["learn", "exploit", "shadow"]
# own: the caller's order, while nothing was compiled; imported: shown by another system, and learned with its events;
# test: a list of a live test, which the model did not draw alone
ShownMode = Literal["learn", "exploit", "shadow", "own", "imported", "test"]
Chance = Literal["machine", "seeded"]
Scaling = Literal["auto", "query", "none"]
OnDrift = Literal["alarm", "forget", "challenger"]
ANYWHERE = 1_000_000  # places: more than any list has
Count = Annotated[int, msgspec.Meta(ge=0, le=ANYWHERE)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
LONGEST_ACTION = 100
Action = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ACTION)]
Worth = Annotated[float, msgspec.Meta(ge=-1000, le=1000)]  # negative: the document was turned down
Actions = Annotated[dict[Action, Worth], msgspec.Meta(max_length=100)]
Origin = Annotated[str, msgspec.Meta(pattern="^https?://[a-z0-9._:\\[\\]-]{1,200}$")]  # as browsers send it
UBI_ACTIONS = {"click_through": CLICK}  # of User Behavior Insights: what other names of actions mean


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named feature. With a shift or a scale of its own, x becomes (x - shift) / scale.

    A document that lacks it gets `missing`, a value of the scaled feature. Without that, models whose scaling is `none`
    refuse the document, and others take the feature at its mean. `was` renames a feature of the model as it is.
    """

    name: Name
    shift: float | None = None
    scale: float | None = None
    missing: float | None = None
    was: Name | None = None

    @property
    def has_own_scale(self) -> bool:
        """Whether its scale is set by hand."""
        return self.shift is not None or self.scale is not None


class Exploration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far exploration may go: the probability that is logged accounts for all three."""

    protected: Count = 0  # so many top places always show the best estimate
    displacement: Count | None = None  # places a document may stand away from where the best estimate has it
    share: Share = 1.0  # of the lists that explore at all

    @property
    def most_displacement(self) -> int:
        """How many places a document may move; ANYWHERE, where nothing limits it."""
        return ANYWHERE if self.displacement is None else self.displacement


class Ubi(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How records of User Behavior Insights become feedback of the model."""

    application: Name | None = None  # whose records they are; none: the application has the model's name
    origins: Annotated[tuple[Origin, ...], msgspec.Meta(max_length=100)] = ()  # of pages that may send them
    actions: Annotated[dict[Action, Action], msgspec.Meta(max_length=100)] = {}  # what other action names mean here
    seen: Annotated[tuple[Action, ...], msgspec.Meta(max_length=100)] = ("impression",)  # say how far somebody looked
    ordinal_base: Literal[0, 1] = 1  # the ordinal of the first place


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a request and a record of a model have in common."""

    n_features: Annotated[int, msgspec.Meta(ge=1, le=MOST_FEATURES)]
    settings: dict[str, Any] = {}
    features: tuple[Feature, ...] | None = None
    places: Annotated[int, msgspec.Meta(ge=1, le=MOST_PLACES)] = 10
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 1
    window: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_WINDOW)] = 1800.0  # seconds that feedback may take
    settle: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WINDOW)] = 30.0  # seconds from an event to its learning
    exploration: Exploration = Exploration()
    cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None  # impressions of a source in the last 1,000
    votes: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None  # of a source for a document in the last 1,000
    batch: Annotated[int, msgspec.Meta(ge=1, le=MOST_IN_A_BATCH)] | None = None  # learned together; none: all there is
    chance: Chance = "machine"  # seeded: the number of the draw decides a list, and the seed
    prior_strength: Annotated[float, msgspec.Meta(ge=0, le=100)] = 1.0  # score of a document one spread above the mean
    ubi: Ubi = Ubi()
    candidates: Share = 0.05  # of impressions whose candidates are all kept, to judge other rankers by
    keep_query: bool = False  # the log keeps the `query` of a list, as people have typed it; else a keyed digest of it
    on_drift: OnDrift = "alarm"  # what is done, beside an alarm, when lists please people less than they did


def _ranker_of_early_records() -> str:
    """Return the ranker of a record that names none: the default when such records were written."""
    return "p2neurrank"


def _scaling_of_early_records() -> Scaling:
    """Return the scaling of a record that names none: features and priors were taken as they came."""
    return "none"


def _actions_of_early_records() -> dict[str, float]:
    """Return the actions of a record that names none: only clicks could be sent when such records were written."""
    return dict(ACTIONS)


class SpecRecord(Fields, frozen=True):
    """A model as the log holds it, with every setting that there was when it was made.

    A change of what decides learning (ranker, settings, scaling, prior strength, places, seed) begins it anew.
    """

    ranker: Name = msgspec.field(default_factory=_ranker_of_early_records)  # a factory: new records always name it
    scaling: Scaling = msgspec.field(default_factory=_scaling_of_early_records)
    actions: Actions = msgspec.field(default_factory=_actions_of_early_records)


class SpecRequest(Fields, frozen=True):
    """A model in words. Ranker, settings or scaling that are not named are those of the model, where it exists.

    `actions` are added to click 1, add_to_cart 3, purchase 10, or change what these are worth.
    """

    ranker: Annotated[Name | msgspec.UnsetType, msgspec.Meta(extra_json_schema={"default": DEFAULT_RANKER})] = (
        msgspec.UNSET
    )
    scaling: Annotated[Scaling | msgspec.UnsetType, msgspec.Meta(extra_json_schema={"default": "auto"})] = msgspec.UNSET
    actions: Actions = {}
