"""The estimators beside those of the Open Bandit Pipeline, and on its real clicks.

`pip install obp==0.4.1`, which needs torch. Later versions, for Python 3.10, have more estimators to compare with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perturank.counterfactual import LoggedLists, Predictions, evaluate

ope: Any = pytest.importorskip("obp.ope", reason="pip install obp==0.4.1")
pytestmark = pytest.mark.long
N, K, V = 400, 3, 5
SIX_DIGITS = 1e-6


def slates(seed: int = 0) -> dict[str, np.ndarray]:
    """Return lists by a softmax with the probabilities of their places, and those of another softmax."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(2, N, V))
    actions, chances = np.empty((N, K), int), np.empty((2, N, K))
    dist = np.empty((N, K, V))  # B's, given the places above
    for i in range(N):
        left = np.ones(V, bool)
        for r in range(K):
            p = np.where(left, np.exp(scores[:, i]), 0)
            p /= p.sum(axis=1, keepdims=True)
            dist[i, r] = p[1]
            actions[i, r] = rng.choice(V, p=p[0])
            chances[:, i, r] = p[:, actions[i, r]]
            left[actions[i, r]] = False
    q = rng.uniform(0, 2, (N, K, V))
    return {
        "actions": actions,
        "rewards": (rng.random((N, K)) < 0.4).astype(float),
        "logged": chances[0],
        "target": chances[1],
        "dist": dist,
        "q": q,
    }


def flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1)


def test_estimators_are_those_of_obp_to_six_digits() -> None:
    made = slates()
    shown = np.take_along_axis(made["q"], made["actions"][:, :, None], axis=2)[:, :, 0]
    predictions = Predictions(shown, (made["dist"] * made["q"]).sum(axis=2), np.zeros((N, K)))
    whole = np.ones((N, K))
    marginals = np.random.default_rng(1).uniform(0.1, 1, (2, N, K))
    lists = LoggedLists(
        made["rewards"],
        made["logged"],
        made["target"],
        reach=whole,
        marginal_reach=whole,
        logged_marginal=marginals[0],
        target_marginal=marginals[1],
        predictions=predictions,
    )
    found = {name: each.value for name, each in evaluate(lists).items()}
    about = {
        "slate_id": np.repeat(np.arange(N), K),
        "position": np.tile(np.arange(K), N),
        "reward": flat(made["rewards"]),
        "action": flat(made["actions"]),
    }
    cascade = [np.cumprod(made[name], axis=1) for name in ("logged", "target")]
    whole_lists = [np.repeat(each[:, -1:], K, axis=1) for each in cascade]
    for name, prefix, suffix, chances in (
        ("rips", "RewardInteractionIPS", "_cascade", cascade),
        ("ips", "StandardIPS", "", whole_lists),
        ("iips", "IndependentIPS", "_item_position", list(marginals)),
    ):
        given = {f"pscore{suffix}": flat(chances[0]), f"evaluation_policy_pscore{suffix}": flat(chances[1])}
        theirs = getattr(ope, f"Slate{prefix}")(len_list=K).estimate_policy_value(**about, **given)
        assert found[name] == pytest.approx(theirs, rel=SIX_DIGITS)
        normalised = getattr(ope, f"SelfNormalizedSlate{prefix}", None)
        if normalised is not None:
            assert found[f"sn{name}"] == pytest.approx(
                normalised(len_list=K).estimate_policy_value(**about, **given), rel=SIX_DIGITS
            )
    if hasattr(ope, "SlateCascadeDoublyRobust"):
        robust = ope.SlateCascadeDoublyRobust(len_list=K, n_unique_action=V)
        theirs = robust.estimate_policy_value(
            **about,
            pscore_cascade=flat(cascade[0]),
            evaluation_policy_pscore_cascade=flat(cascade[1]),
            q_hat=flat(made["q"]),
            evaluation_policy_action_dist=flat(made["dist"]),
        )
        assert found["cdr"] == pytest.approx(theirs, rel=SIX_DIGITS)


def test_estimators_of_one_place_are_those_of_obp_to_six_digits() -> None:
    made = slates(1)
    action, reward, logged = made["actions"][:, 0], made["rewards"][:, 0], made["logged"][:, 0]
    dist, q = made["dist"][:, 0, :, None], made["q"][:, 0, :, None]
    expected = (dist * q).sum(axis=(1, 2))[:, None]
    predictions = Predictions(q[np.arange(N), action], expected, expected)
    one = np.ones((N, 1))
    lists = LoggedLists(reward[:, None], logged[:, None], made["target"][:, :1], reach=one, predictions=predictions)
    found = {name: each.value for name, each in evaluate(lists).items()}
    given = {
        "reward": reward,
        "action": action,
        "pscore": logged,
        "action_dist": dist,
        "position": np.zeros(N, int),
        "estimated_rewards_by_reg_model": q,
    }
    for name, kind in (
        ("rips", "InverseProbabilityWeighting"),
        ("snrips", "SelfNormalizedInverseProbabilityWeighting"),
        ("cdr", "DoublyRobust"),
        ("dm", "DirectMethod"),
    ):
        theirs = getattr(ope, kind)().estimate_policy_value(**given)
        assert found[name] == pytest.approx(float(theirs), rel=SIX_DIGITS)


def open_bandit(campaign: str, policy: str) -> np.ndarray:
    """Return clicks and propensities of the sample that obp brings along; [n, 2]."""
    file = Path(ope.__file__).parents[1] / "dataset" / "obd" / policy / campaign / f"{campaign}.csv"
    pandas = pytest.importorskip("pandas")
    return pandas.read_csv(file, index_col=0)[["click", "propensity_score"]].to_numpy()


@pytest.mark.parametrize("campaign", ["men", "all"])
def test_the_value_of_the_uniform_policy_is_within_the_interval(campaign: str) -> None:
    """Lists of one place that Thompson sampling showed on a fashion site, and what a uniform policy earned there."""
    shown, uniform = open_bandit(campaign, "bts"), open_bandit(campaign, "random")
    lists = LoggedLists(shown[:, :1], shown[:, 1:], np.full((len(shown), 1), uniform[0, 1]))
    found = evaluate(lists)["rips"]
    assert found.low is not None
    assert found.high is not None
    assert found.low <= uniform[:, 0].mean() <= found.high
    assert found.effective == pytest.approx({"men": 656, "all": 340}[campaign], abs=1)


def test_a_log_whose_weights_are_those_of_one_list_is_refused() -> None:
    shown, uniform = open_bandit("women", "bts"), open_bandit("women", "random")
    found = evaluate(LoggedLists(shown[:, :1], shown[:, 1:], np.full((len(shown), 1), uniform[0, 1])))
    for each in found.values():
        assert each.effective == pytest.approx(2.08, abs=0.01)
        assert each.value is None
        assert "worth 2.08 lists" in each.refusal
