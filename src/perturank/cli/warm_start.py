"""`perturank warm-start`: a file for the service of a ranker that has learned before the first click."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from perturank import machine
from perturank.cli.console import to_programs
from perturank.errors import BadInput

if TYPE_CHECKING:
    from perturank.core import Ranker
    from perturank.service.log.spec import Spec


def warm_start(
    documents: Annotated[
        Path, typer.Argument(help="Documents by query: SVMrank text, or .jsonl with a rank request a line.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    teacher: Annotated[
        Path | None, typer.Option(help="Model of LightGBM (.txt), XGBoost (.json, .ubj) or CatBoost (.cbm).")
    ] = None,
    spec: Annotated[
        Path | None, typer.Option(help="JSON: the model as it is put into the service; by default its defaults.")
    ] = None,
    trust: Annotated[
        float | None,
        typer.Option(
            help="How hard the lessons are to overrule. p2headrank with a teacher: its setting l2_taught, 1 or more, "
            "which the model must have too. Else: the lists of clicks that all lessons count as.",
            min=0.001,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the lists that are shown.", min=0)] = 0,
) -> None:
    """Make a ranker that has learned from a teacher, or from the labels of the documents, for PUT …/file.

    [bold]Example[/bold]

    perturank warm-start documents.txt --teacher lightgbm.txt --out shop.safetensors
    """
    machine.pin_threads()
    from perturank import storage, teachers
    from perturank.service.log.spec import checked_spec
    from perturank.teaching import distil, learn_labels
    from perturank.wire.specification import SpecRequest

    said = _spec(spec)
    names = [feature["name"] for feature in said.get("features") or ()] or None
    rows, labels, group = _documents(documents, names, said.get("n_features"))
    wanted = checked_spec(_converted(said | {"n_features": rows.shape[1]}, SpecRequest))
    start = _scaled(wanted, rows)
    options: dict[str, Any] = {"seed": seed} | ({} if trust is None else {"trust": trust})
    if teacher is not None:
        scores = partial(teachers.scores_of, teachers.load_teacher(teacher))
        learned = distil(start, rows, scores, group, **options)
    elif labels is None or np.ptp(labels) == 0:
        raise BadInput(f"{documents} has no labels that differ", "name a teacher")
    else:
        learned = learn_labels(start, rows, labels, group, **options)
    storage.save(learned, out)
    about = {"ranker": wanted.ranker, "n_features": wanted.n_features, "queries": len(group), "documents": len(rows)}
    to_programs({"file": str(out), **about, "settings": _other_settings(learned, wanted)})


def _other_settings(learned: Ranker, spec: Spec) -> dict[str, Any]:
    """Return the settings that the model must be given, beside its spec, before it takes the file."""
    given = spec.chosen_settings().as_dict()
    return {name: value for name, value in learned.settings.as_dict().items() if value != given[name]}


def _spec(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"{path} is not JSON ({error})", "write what PUT /v1/models/{model} takes") from None
    if not isinstance(said, dict):
        raise BadInput(f"{path} is not a JSON object", "write what PUT /v1/models/{model} takes")
    return said


def _converted(said: dict[str, Any], kind: Any) -> Any:
    import msgspec

    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise BadInput("such a model cannot be", str(error)) from None


def _scaled(spec: Spec, rows: np.ndarray) -> Ranker:
    """Return a new ranker of the model, with the scale of these documents where it learns one."""
    from perturank.parts.standardised import Scale, Standardised

    if spec.scaling == "query":
        raise BadInput("scaling is query, which happens before the ranker", "warm-start a model whose scaling is auto")
    start = spec.start()
    if isinstance(start, Standardised):
        return start.with_unknown_scale(Scale.of(np.column_stack([rows, np.zeros(len(rows))])))
    if any(feature.has_own_scale for feature in spec.features or ()):
        raise BadInput("the service scales these features before the ranker", "use scaling auto, or scale them before")
    return start


def _documents(
    path: Path, names: list[str] | None, n_features: int | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return features [n, d], labels [n] if there are any, and the sizes of the queries."""
    from perturank.datasets import svmlight

    if not path.is_file():
        raise BadInput(f"there is no file {path}", "check the path")
    if path.suffix != ".jsonl":
        data = svmlight.read(path, n_features=n_features, normalise=False).dataset
        return np.array(data.features), np.array(data.labels), np.array(data.lengths)
    rows, group = [], []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                found = [_row(each["features"], names) for each in json.loads(line)["documents"]]
            except (ValueError, KeyError, TypeError) as error:
                remedy = 'write {"documents": [{"features": …}, …]}, and name the features in --spec if they have names'
                raise BadInput(f"{path}, line {number}: {type(error).__name__}: {error}", remedy) from None
            rows += found
            group += [len(found)] if found else []
    if not rows or len({len(row) for row in rows}) != 1:
        raise BadInput(f"{path} has no documents, or some with more features than others", "give all the same features")
    return np.array(rows, np.float32), None, np.array(group)


def _row(features: Any, names: list[str] | None) -> list[float]:
    if isinstance(features, dict):
        if names is None or set(features) - set(names):
            raise KeyError(f"features {sorted(features)}")
        features = [features.get(name) for name in names]
    return [float("nan") if value is None else float(value) for value in features]
