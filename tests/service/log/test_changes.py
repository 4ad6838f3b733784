from __future__ import annotations

from typing import Any, cast

import msgspec
import numpy as np
import pytest
from helpers import small

from perturank import catalogue, storage
from perturank.service.log import changes, snapshots
from perturank.service.log.refusals import Refused
from perturank.service.log.spec import Spec, checked_spec
from perturank.wire.specification import SpecRequest

GROWS: dict[str, Any] = {
    "widths": (16, 16)
}  # the covariance of so many parameters begins with room for some of its pairs alone


def growing(name: str) -> dict[str, Any]:
    return GROWS if name.startswith("olranknet") else {}


def spec(name: str) -> Spec:
    settings = small.settings(name, **growing(name)).as_dict()
    n, k = small.N_FEATURES, small.PLACES
    return checked_spec(SpecRequest(n_features=n, ranker=name, settings=settings, places=k, scaling="none"))


@pytest.mark.parametrize("name", sorted(catalogue.rankers()))
def test_a_file_of_any_ranker_that_has_learned_is_taken_to_the_last_bit(name: str) -> None:
    ranker = small.learned(name, **growing(name))
    file = changes.read_ranker_file("m", spec(name), snapshots.state_bytes(ranker))
    assert small.same_bits(snapshots.ranker_of(file.content, "it", spec(name))[0], ranker)


def test_a_file_without_a_schema_is_refused_by_a_model_that_scales_its_features() -> None:
    standardises = msgspec.structs.replace(spec("p2linrank"), scaling="auto")
    with pytest.raises(Refused, match="the file has no schema, and the model's scaling is auto; put it into a model"):
        changes.read_ranker_file("m", standardises, snapshots.state_bytes(small.learned("p2linrank")))


def test_a_file_of_another_class_is_refused_by_its_name_and_one_of_other_settings_by_those() -> None:
    content = snapshots.state_bytes(small.learned("pdgd-linear"))
    with pytest.raises(Refused, match="ranker is pdgd-linear in the file and p2linrank here"):
        changes.read_ranker_file("m", spec("p2linrank"), content)
    header = storage.header_of(small.learned("pdgd-linear"))
    for field in ("ranker", "settings", "n_features"):
        for value in cast("tuple[Any, ...]", ("no such", 7, None, [], {})):
            with pytest.raises(Refused, match="another kind of ranker"):
                changes.read_ranker_file("m", spec("pdgd-linear"), storage.packed({}, header | {field: value}))
    with pytest.raises(Refused, match=r"learning_rate is 0\.5 in the file and 0\.05 here") as refused:
        changes.read_ranker_file(
            "m", spec("mgd-linear"), snapshots.state_bytes(small.learned("mgd-linear", learning_rate=0.5))
        )
    assert "ranker is" not in str(refused.value)


def test_a_covariance_that_has_grown_is_taken_and_one_whose_arrays_differ_is_not() -> None:
    ranker = small.learned("olranknet", **GROWS)
    assert ranker.covariance.n_blocks > small.ranker("olranknet", **GROWS).covariance.n_blocks
    arrays, header = storage.arrays_of(ranker), storage.header_of(ranker)
    names = [name for name, array in arrays.items() if name.startswith(".covariance") and array.ndim]
    assert len(names) > 2
    for name in names:
        for array in (arrays[name][:-1], np.repeat(arrays[name], 2, 0), arrays[name][:0]):
            with pytest.raises(Refused, match=r"the file's array \.covariance"):
                changes.read_ranker_file("m", spec("olranknet"), storage.packed(arrays | {name: array}, header))


def test_what_cannot_grow_has_the_size_of_a_new_one() -> None:
    ranker = small.learned("p2linrank")
    arrays = storage.arrays_of(ranker)
    longer = arrays | {".theta": np.repeat(arrays[".theta"], 2, 0)}
    with pytest.raises(Refused, match=r"\.theta has shape"):
        changes.read_ranker_file("m", spec("p2linrank"), storage.packed(longer, storage.header_of(ranker)))


def test_a_history_of_negative_weight_is_refused() -> None:
    ranker = small.learned("p2linrank")
    arrays = storage.arrays_of(ranker)
    below = arrays | {".history.weight": -arrays[".history.weight"]}
    with pytest.raises(Refused, match=r"\.history\.weight is below zero"):
        changes.read_ranker_file("m", spec("p2linrank"), storage.packed(below, storage.header_of(ranker)))
