"""Labels and teachers teach as clicks do; a teacher's file becomes a file that the service takes."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import perturank as pr
from perturank import teachers
from perturank.cli import app
from perturank.measures import Measure
from perturank.parts.standardised import Scale
from perturank.service.http.app import application
from perturank.service.learner.learner import Learner
from perturank.service.log.changes import read_ranker_file
from perturank.service.log.spec import checked_spec
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.teaching import distil, learn_labels
from perturank.wire.specification import SpecRequest

D = 3


def documents(seed: int = 0, n_queries: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, grades by the first of them, and the sizes of queries."""
    rng = np.random.default_rng(seed)
    group = rng.integers(4, 13, n_queries)
    x = rng.uniform(0, 1, (group.sum(), D)).astype(np.float32)
    return x, np.minimum((3 * x[:, 0]).astype(int), 2), group


def quality(ranker: Any, seed: int = 1) -> float:
    x, y, group = documents(seed)
    return Measure.named("nDCG@10").mean(np.asarray(ranker.score(pr.Query.of(x)))[: len(x)], y, group)


@pytest.mark.parametrize("name", ["p2linrank", "pdgd-linear", "epsilon-greedy-linear"])
def test_labels_and_teachers_teach_the_order_and_a_reversed_teacher_its_reverse(name: str) -> None:
    new = pr.make(name, D)
    x, y, group = documents()
    assert quality(learn_labels(new, x, y, group)) > 0.95
    assert quality(distil(new, x, lambda rows: 100 * rows[:, 0] - 7, group)) > 0.95
    assert quality(distil(new, x, -x[:, 0], group)) < 0.7


def test_a_taught_ranker_begins_without_lessons_and_clicks_overrule_a_wrong_teacher() -> None:
    new: Any = pr.make("p2headrank", D, widths=(8,), budget=64, l2_taught=10)
    x, y, group = documents()
    right, wrong = (distil(new, x, sign * x[:, 0], group) for sign in (1, -1))
    assert quality(right) > 0.95
    assert quality(wrong) < 0.7
    assert int(right.history.n_pairs) == 0
    cold, kept, turned = (
        quality(learn_labels(each, x, y, group, n_lists=100, trust=20)) for each in (new, right, wrong)
    )
    assert min(kept, turned) > cold - 0.02
    with pytest.raises(pr.BadInput, match="has learned already"):
        distil(learn_labels(new, x, y, group, n_lists=100, trust=20), x, x[:, 0], group)


def test_a_taught_ranker_fits_a_new_model_of_the_service(tmp_path: Path) -> None:
    spec = checked_spec(SpecRequest(n_features=D, settings={"widths": [8], "budget": 64}))
    x, _, group = documents()
    start: Any = spec.start()
    scaled = start.with_unknown_scale(Scale.of(np.column_stack([x, np.zeros(len(x))])))
    pr.save(distil(scaled, x, x[:, 0], group), tmp_path / "shop.safetensors")
    file = read_ranker_file("shop", spec, (tmp_path / "shop.safetensors").read_bytes())
    assert file.content
    assert quality(pr.load(tmp_path / "shop.safetensors")) > 0.95


def test_teaching_is_the_same_every_time_and_nothing_to_tell_changes_nothing() -> None:
    new: Any = pr.make("pdgd-linear", D)
    x, y, group = documents()
    one, other = (np.asarray(learn_labels(new, x, y, group).theta.weight) for _ in range(2))
    assert np.array_equal(one, other)
    assert np.array_equal(np.asarray(learn_labels(new, x, 0 * y, group).theta.weight), np.asarray(new.theta.weight))


@pytest.mark.parametrize(
    "change, says",
    [
        ({"name": "mgd-linear"}, "only from lists that it drew itself"),
        ({"labels": [0, 1]}, "2 labels or scores for"),
        ({"group": [3]}, "group adds up to 3"),
        ({"features": np.zeros((4, D + 1))}, "the ranker has 3 features"),
        ({"labels": np.full(4, np.nan), "features": np.zeros((4, D)), "group": [4]}, "not a finite number"),
    ],
)
def test_what_cannot_be_taught_is_refused(change: dict[str, Any], says: str) -> None:
    x, y, group = documents()
    given = {"features": x, "labels": y, "group": group} | {k: v for k, v in change.items() if k != "name"}
    with pytest.raises(pr.BadInput, match=says):
        learn_labels(pr.make(change.get("name", "pdgd-linear"), D), **given)


def saved(kind: str, folder: Path) -> tuple[Path, np.ndarray]:
    """Return the file of a model that was trained on the documents, and its scores of them."""
    x, y, group = documents()
    if kind == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMRanker(n_estimators=20, min_child_samples=5, verbose=-1, n_jobs=1).fit(x, y, group=group)
        model.booster_.save_model(folder / "teacher.txt")
        return folder / "teacher.txt", np.asarray(model.predict(x))
    if kind == "xgboost":
        import xgboost

        model = xgboost.XGBRanker(n_estimators=20, n_jobs=1).fit(x, y, group=group)
        model.save_model(folder / "teacher.json")
        return folder / "teacher.json", model.predict(x)
    import catboost

    quiet = {"logging_level": "Silent", "allow_writing_files": False}  # it would leave the folder catboost_info here
    model = catboost.CatBoost({"iterations": 20, "loss_function": "RMSE", "thread_count": 1} | quiet)
    model.fit(x, y)
    model.save_model(str(folder / "teacher.cbm"))
    return folder / "teacher.cbm", model.predict(x)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "catboost"])
def test_a_model_file_gives_the_scores_of_its_model(kind: str, tmp_path: Path) -> None:
    if kind == "catboost" and importlib.util.find_spec(kind) is None:
        pytest.skip("CatBoost, of 100 MB, is not installed for all: pip install catboost")
    file, scores = saved(kind, tmp_path)
    found = teachers.scores_of(teachers.load_teacher(file), documents()[0])
    assert np.allclose(found - found[0], scores - scores[0], atol=1e-5)
    with pytest.raises(pr.BadInput, match="cannot score rows of 1 features"):
        teachers.scores_of(teachers.load_teacher(file), np.zeros((2, 1), np.float32))


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.txt").write_text("tree\n")
    for name, says in [
        ("broken.txt", "lightgbm cannot read"),
        ("model.pickle", "no ending that is known"),
        ("no.json", "there is no file"),
    ]:
        with pytest.raises(pr.BadInput, match=says):
            teachers.load_teacher(tmp_path / name)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_model_file_that_was_cut_is_refused(kind: str, share: float, tmp_path: Path) -> None:
    teacher, _ = saved(kind, tmp_path)
    os.truncate(teacher, int(teacher.stat().st_size * share))
    with pytest.raises(pr.BadInput, match=f"{kind} cannot read"):
        teachers.load_teacher(teacher)


def test_a_teacher_becomes_a_model_of_the_service(tmp_path: Path) -> None:
    teacher, _ = saved("lightgbm", tmp_path)
    x, _, group = documents()
    spec = {"ranker": "pdgd-linear", "features": [{"name": name} for name in "abc"], "places": 4}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    with (tmp_path / "documents.jsonl").open("w") as lines:
        for rows in np.split(x, np.cumsum(group)[:-1]):
            named = [{"features": dict(zip("abc", row.tolist(), strict=True))} for row in rows]
            lines.write(json.dumps({"documents": named}) + "\n")
    out = tmp_path / "shop.safetensors"
    words = [tmp_path / "documents.jsonl", "--teacher", teacher, "--spec", tmp_path / "spec.json", "--out", out]
    said = CliRunner().invoke(app, ["warm-start", *map(str, words)])
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["documents"] == len(x)
    assert quality(pr.load(out)) > 0.9

    log = SqliteLog(tmp_path / "log.db")
    service = Service(log, ServeSettings(max_documents=16, compile_first=False))
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        assert http.put("/v1/models/shop", json=spec | {"n_features": 3}).status_code == 201
        assert http.put("/v1/models/shop/file", content=out.read_bytes()).status_code == 202
        Learner(log).step()
        service.refresh()
        assert quality(service.models.get("shop").ranker) == quality(pr.load(out))
    service.close()
    log.close()


def test_a_teacher_that_is_trusted_less_or_more_says_which_setting_the_model_needs(tmp_path: Path) -> None:
    teacher, _ = saved("lightgbm", tmp_path)
    x, _, group = documents()
    asked = [{"documents": [{"features": row} for row in rows.tolist()]} for rows in np.split(x, np.cumsum(group)[:-1])]
    (tmp_path / "documents.jsonl").write_text("\n".join(map(json.dumps, asked)))
    spec: dict[str, Any] = {"settings": {"widths": [8], "budget": 64}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    out = tmp_path / "shop.safetensors"
    words = [tmp_path / "documents.jsonl", "--teacher", teacher, "--spec", tmp_path / "spec.json", "--out", out]
    said = CliRunner().invoke(app, ["warm-start", *map(str, words), "--trust", "30"])
    assert said.exit_code == 0, said.output
    needed = json.loads(said.stdout)["settings"]
    assert needed == {"l2_taught": 30.0}
    request = SpecRequest(n_features=D, settings=spec["settings"] | needed)
    assert read_ranker_file("shop", checked_spec(request), out.read_bytes()).content


def test_a_trust_that_cannot_be_is_refused_before_the_teacher_is_asked() -> None:
    def teacher(rows: np.ndarray) -> np.ndarray:
        raise AssertionError

    x, _, group = documents()
    with pytest.raises(pr.BadInput, match=r"l2_taught is 0\.5"):
        distil(pr.make("p2headrank", D, widths=(8,)), x, teacher, group, trust=0.5)


def test_labels_of_a_file_become_a_model(tmp_path: Path) -> None:
    x, y, group = documents(n_queries=8)
    qids = np.repeat(np.arange(len(group)), group)
    rows = zip(y, qids, x, strict=True)
    lines = [f"{g} qid:{q} " + " ".join(f"{i}:{v}" for i, v in enumerate(row, 1)) for g, q, row in rows]
    (tmp_path / "labelled.txt").write_text("\n".join(lines))
    (tmp_path / "spec.json").write_text('{"ranker": "pdgd-linear", "scaling": "none"}')
    words = [tmp_path / "labelled.txt", "--spec", tmp_path / "spec.json", "--out", tmp_path / "m.safetensors"]
    said = CliRunner().invoke(app, ["warm-start", *map(str, words)])
    assert said.exit_code == 0, said.output
    assert quality(pr.load(tmp_path / "m.safetensors")) > 0.9
    (tmp_path / "labelled.txt").write_text("0 qid:1 1:1 2:1 3:1\n0 qid:1 1:1 2:0 3:1\n")
    refused = CliRunner().invoke(app, ["warm-start", *map(str, words)])
    assert (refused.exit_code, "no labels that differ" in refused.stderr) == (2, True)
