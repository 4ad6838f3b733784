"""A version of a model in the format of another system: what the service does to features is folded in."""

from __future__ import annotations

from dataclasses import replace

from perturank.core import Ranker
from perturank.errors import BadInput
from perturank.exports import Export, check_scaling, export_formula, format_named
from perturank.exports.formula import Column, Formula, formula_of
from perturank.service.log import Log, snapshots
from perturank.service.log.refusals import NotKnown, Refused
from perturank.service.log.spec import Spec


def export_version(
    spec: Spec, ranker: Ranker, format: str, *, name: str, prior: str | None = None, **options: object
) -> Export:
    """Return a version of a model of this spec; what the format cannot express is refused."""
    try:
        check_scaling(spec.scaling)
        wanted = format_named(format)
        names = None if spec.features is None else [feature.name for feature in spec.features]
        formula = formula_of(ranker, names=names, prior=prior, default_prior=wanted.default_prior)
        if spec.scaling == "none":
            formula = _with_owned_scales(formula, spec)
        return export_formula(formula, wanted, name=name, **options)  # type: ignore[arg-type]
    except BadInput as error:
        raise Refused(str(error)) from None


def _with_owned_scales(formula: Formula, spec: Spec) -> Formula:
    """Return the formula of features as they are sent; a ranker without a scale gets them shifted and scaled."""
    columns = list(formula.columns)
    for i, feature in enumerate(spec.features or ()):
        columns[i] = Column(columns[i].name, feature.shift or 0.0, feature.scale or 1.0, missing=feature.missing or 0.0)
    return replace(formula, columns=tuple(columns))


def stored_version(log: Log, model: str, version: int) -> tuple[Spec, Ranker]:
    """Return a version whose bytes are stored, and the model as it was then."""
    published = snapshots.found(log, model, version)
    content = None if published is None else log.stored(snapshots.version_name(model, version))
    if published is None or content is None:
        raise NotKnown(f"model {model!r} has no stored version {version}", "list its versions")
    spec = snapshots.spec_at(log, model, published.position)
    return spec, snapshots.ranker_of(content, f"version {version} of {model!r}", spec)[0]
