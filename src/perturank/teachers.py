"""Teachers from elsewhere: the model files of LightGBM, XGBoost and CatBoost as functions of rows.

Their own packages read them. The service never does: a file from elsewhere is parsed by whoever runs the command.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perturank.errors import BadInput

if TYPE_CHECKING:
    from perturank.teaching import Teacher  # which loads JAX: the process that tries a file does without

KINDS = {
    ".txt": "lightgbm",
    ".json": "xgboost",
    ".ubj": "xgboost",
    ".cbm": "catboost",
}
TRY = "import importlib, pathlib, sys; from perturank.teachers import READERS; kind, file = sys.argv[1:]; "
TRY += "READERS[kind](importlib.import_module(kind), pathlib.Path(file))"


def load_teacher(path: str | Path) -> Teacher:
    """Return the scores that a model file gives to rows [n, d]; the end of its name says whose it is.

    `.txt` is LightGBM's (`booster_.save_model`), `.json` and `.ubj` are XGBoost's (`save_model`), `.cbm` is CatBoost's.
    """
    file = Path(path)
    kind = KINDS.get(file.suffix)
    if kind is None:
        endings = ", ".join(f"{ending} ({package})" for ending, package in KINDS.items())
        raise BadInput(f"{file} has no ending that is known", f"known are {endings}")
    if not file.is_file():
        raise BadInput(f"there is no file {file}", "check the path")
    try:
        package = importlib.import_module(kind)
    except ModuleNotFoundError:
        raise BadInput(f"{kind} is not installed, which reads {file.name}", f"run: pip install {kind}") from None
    _check_readable(kind, file)
    try:
        return READERS[kind](package, file)
    except Exception as error:  # each package has errors of its own
        raise BadInput(f"{kind} cannot read {file} ({str(error).splitlines()[0]})", "check the file") from None


def _check_readable(kind: str, file: Path) -> None:
    """Let another process read the file first: a file that was cut makes LightGBM abort the process that reads it."""
    tried = subprocess.run([sys.executable, "-c", TRY, kind, str(file)], capture_output=True, check=False)
    if tried.returncode < 0:
        raise BadInput(f"{kind} cannot read {file} (it aborts)", "the file is cut or damaged: write it again")


def _lightgbm(package: Any, file: Path) -> Teacher:
    booster = package.Booster(model_file=str(file))
    return lambda rows: np.asarray(booster.predict(rows))


def _xgboost(package: Any, file: Path) -> Teacher:
    booster = package.Booster(model_file=str(file))
    return lambda rows: np.asarray(booster.inplace_predict(rows, predict_type="margin", validate_features=False))


def _catboost(package: Any, file: Path) -> Teacher:
    model = package.CatBoost().load_model(str(file))
    return lambda rows: np.asarray(model.predict(rows))


READERS = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}


def scores_of(teacher: Teacher, rows: np.ndarray) -> np.ndarray:
    """Return a teacher's scores; one that wants other features is refused."""
    try:
        scores = np.asarray(teacher(rows), np.float64)
    except Exception as error:  # as above
        raise BadInput(
            f"the teacher cannot score rows of {rows.shape[1]} features ({str(error).splitlines()[0]})",
            "give the documents the features that it was trained on, in their order",
        ) from None
    if scores.shape != (len(rows),):
        raise BadInput(f"the teacher returns an array of shape {scores.shape}", "it must give a score to every row")
    return scores
