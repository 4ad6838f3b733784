from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from perturank.clicks import user, users
from perturank.clicks.dcm import DCM
from perturank.core import ClickModel
from perturank.errors import BadInput


@pytest.mark.parametrize("name", users())
def test_a_user_can_be_made_again_from_its_specification(name: str) -> None:
    model = user(name, 5, stop="clicked")
    again = user(model.spec, 5)
    assert isinstance(model, ClickModel)
    assert again.spec == model.spec


@pytest.mark.parametrize("name", users())
def test_a_user_says_what_it_judges_by_and_clicks_real_places_alone(name: str) -> None:
    model = user(name, 5)
    judged = {"grades": jnp.array([4, 0, 4, 2]), "scores": jnp.array([1.5, -0.5, 9.0, 0.0])}[model.judges_by]
    model.check(np.asarray(judged))
    keys, mask = jax.random.split(jax.random.key(0), 200), jnp.array([True, True, False, True])
    clicks = jax.vmap(lambda key: model.click(judged, mask, key))(keys)
    assert clicks.dtype == bool
    assert clicks[:, 0].any()
    assert not clicks[:, 2].any()
    assert not jax.vmap(lambda key: model.click(judged, jnp.zeros(4, bool), key))(keys).any()


def test_the_five_users_are_found() -> None:
    assert users().keys() >= {"perfect", "navigational", "informational", "position-based", "preferences"}


def test_a_table_can_be_text_toml_or_json(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('model = "dcm"\nclick = [0, 0.5, 1]\nstop = [0, 0, 0.25]\n')
    (tmp_path / "a.json").write_text(json.dumps({"model": "dcm", "click": [0, 0.5, 1], "stop": [0, 0, 0.25]}))
    texts = ["dcm:click=0,.5,1;stop=0,0,.25", str(tmp_path / "a.toml"), str(tmp_path / "a.json")]
    assert {user(text, 3).spec for text in texts} == {DCM.table([0, 0.5, 1], [0, 0, 0.25]).spec}


def test_the_rule_in_a_table_wins_over_the_argument() -> None:
    assert user("dcm:click=0,1;stop=0,1;rule=clicked", 2, stop="examined").spec.endswith("rule=clicked")


@pytest.mark.parametrize(
    "name, n_grades, says",
    [
        ("navigatonal", 5, "unknown user 'navigatonal'; did you mean 'navigational'?"),
        ("perfect", 4, "perfect users have no table for 4 grades; tables exist for 2, 3, 5 grades; give your own"),
        ("dcn:click=0,1;stop=0,0", 2, "unknown click model 'dcn'; did you mean 'dcm'?"),
        ("dcm:clicks=0,1;stop=0,0", 2, "unknown entry of a dcm table 'clicks'; did you mean 'click'?"),
        ("dcm:click=0,1", 2, "the dcm table has no 'stop'"),
        ("dcm:click", 2, "has no '='"),
        ("dcm:click=0,1.5;stop=0,0", 2, "entry 1 of the click probabilities is 1.5; it must be between 0 and 1"),
        ("dcm:click=0,nan;stop=0,0", 2, "entry 1 of the click probabilities is nan"),
        ("dcm:click=0,x;stop=0,0", 2, "give a list of numbers"),
        ("dcm:click=0,1;stop=0,0,0", 2, "the table has 2 click and 3 stop probabilities"),
        ("dcm:click=0,1;stop=0,0;rule=never", 2, "the stop rule is 'never'"),
        ("dcm:click=0,.5,1;stop=0,0,0", 5, "grade 3 has no entry in the click table of 3 grades"),
        ("nowhere.toml", 5, "'nowhere.toml' cannot be read"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(name: str, n_grades: int, says: str) -> None:
    with pytest.raises(BadInput) as error:
        user(name, n_grades)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text, says", [("click = [0]", "names no model"), ("model = ", "is not TOML")])
def test_a_broken_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "user.toml"
    path.write_text(text)
    with pytest.raises(BadInput, match=says):
        user(str(path), 2)


def test_labels_outside_the_table_are_refused_before_they_are_clicked() -> None:
    model = user("perfect", 3)
    model.check(np.array([0, 2, 1]))
    for grades in ([0, 4], [-1, 0]):
        with pytest.raises(BadInput, match="has no entry in the click table of 3 grades"):
            model.check(np.array(grades))
    with pytest.raises(BadInput, match="whole numbers"):
        model.check(np.array([0.5]))
