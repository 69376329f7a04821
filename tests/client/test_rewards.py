"""Rewards: the definitions, on numbers."""

import itertools
import statistics
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.spaces import ObservationSpace, Scalar
from aiocg.spaces.rewards import (
    STRONGER,
    CostReward,
    ObservationReward,
    Reward,
    RuntimeReward,
    cost_baselines,
    llvm_rewards,
    rewards_of_observations,
)

COUNTS = st.integers(0, 10**6)
REWARDS = {reward.name: reward for reward in llvm_rewards()}
PREFIXES = ("IrInstructionCount", "ObjectImageSize", "ObjectTextSize", "TextSize")
MARKS = {"OsOptsize": "Optsize", "OzMinsize": "Minsize"}
COSTS = [name for name in REWARDS if name != "runtime"]


def earn(name: str, before: int, after: int, o0: int = 0, baseline: int = 0) -> float:
    """Return a reward by its name, given the costs and what the baselines cost."""
    reward = REWARDS[name]
    assert isinstance(reward, CostReward)
    known = {reward.unoptimised: o0, reward.optimised: baseline}
    costs = {reward.cost: before}, {reward.cost: after}
    return reward.reward(*costs, {space: known[space] for space in reward.baseline_spaces})


def space(name: str, space: "gymnasium.Space[Any]", **options: Any) -> ObservationSpace:
    known = {"deterministic": True, "platform_dependent": False, "default": 0, "description": ""}
    return ObservationSpace(name, space, **(known | options))


def test_there_are_plain_and_scaled_rewards_for_each_cost_and_one_for_time() -> None:
    scaled = ("Norm", "O3", "Oz", "OsOptsize", "OzMinsize")
    sized = ("Bytes", "OptsizeBytes", "MinsizeBytes", *scaled)
    expected = [
        *(f"IrInstructionCount{suffix}" for suffix in ("", *scaled)),
        *(f"ObjectImageSize{suffix}" for suffix in sized),
        *(f"ObjectTextSize{suffix}" for suffix in sized),
        *(f"TextSize{suffix}" for suffix in sized),
        "runtime",
    ]
    assert list(REWARDS) == expected
    assert [name for name, reward in REWARDS.items() if not reward.deterministic] == ["runtime"]
    assert [name for name, reward in REWARDS.items() if not reward.platform_dependent] == expected[:6]
    assert {name for name, reward in REWARDS.items() if reward.success_threshold is None} == {
        name for name in expected if not name.endswith(("O3", "Oz", *MARKS))
    }
    assert all(reward.description and "\n" not in reward.description for reward in REWARDS.values())


@pytest.mark.parametrize("level", ["O3", "Oz", *MARKS])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_sizes_are_compared_with_the_same_mark_on_both_sides(prefix: str, level: str) -> None:
    reward = REWARDS[f"{prefix}{level}"]
    if prefix == "IrInstructionCount":
        assert reward.observation_spaces == (prefix,)
        assert reward.baseline_spaces == (f"{prefix}O0", f"{prefix}{level}")
    else:
        mark = MARKS.get(level, "")
        assert reward.observation_spaces == (f"{prefix}{mark}Bytes",)
        assert reward.baseline_spaces == (f"{prefix}O0{mark}", f"{prefix}{level}")


@pytest.mark.parametrize("cost", ["ObjectImageSizeBytes", "ObjectImageSizeMinsizeBytes"])
def test_a_result_is_told_against_the_usual_baseline_and_the_stronger(cost: str) -> None:
    usual, stronger = cost_baselines(cost) or pytest.fail("there are none")
    assert usual == ("Oz", "ObjectImageSizeBytes", "ObjectImageSizeO0", "ObjectImageSizeOz")
    marked = ("ObjectImageSizeMinsizeBytes", "ObjectImageSizeO0Minsize", "ObjectImageSizeOzMinsize")
    assert stronger == (STRONGER, *marked)


def test_the_baselines_of_instructions_count_the_same_program() -> None:
    usual, stronger = cost_baselines("IrInstructionCount") or pytest.fail("there are none")
    assert usual.cost == stronger.cost == "IrInstructionCount"
    assert (usual.optimised, stronger.optimised) == ("IrInstructionCountOz", "IrInstructionCountOzMinsize")
    assert cost_baselines("Autophase") is None


@pytest.mark.parametrize("name", ["IrInstructionCount", "ObjectImageSizeBytes", "TextSizeMinsizeBytes"])
def test_the_plain_reward_is_the_decrease(name: str) -> None:
    assert (earn(name, 100, 60), earn(name, 60, 100)) == (40.0, -40.0)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_norm_is_a_fraction_of_the_unoptimised_cost(prefix: str) -> None:
    assert earn(f"{prefix}Norm", 100, 60, o0=200) == 0.2
    assert earn(f"{prefix}Norm", 5, 3, o0=0) == 2.0


@pytest.mark.parametrize("name", [f"{prefix}{level}" for prefix in PREFIXES for level in ("O3", "Oz", *MARKS)])
def test_one_is_as_good_as_the_baseline(name: str) -> None:
    assert earn(name, 500, 300, o0=500, baseline=300) == 1.0
    assert earn(name, 500, 250, o0=500, baseline=300) == 1.25


@pytest.mark.parametrize("baseline", [500, 501, 900])
def test_a_baseline_that_does_not_help_counts_units(baseline: int) -> None:
    assert earn("IrInstructionCountOz", 500, 497, o0=500, baseline=baseline) == 3.0


@given(st.lists(COUNTS, min_size=2, max_size=20), COUNTS, COUNTS)
def test_rewards_of_an_episode_sum_up_to_that_of_one_step(counts: list[int], o0: int, oz: int) -> None:
    for name in COSTS:
        steps = [earn(name, a, b, o0, oz) for a, b in itertools.pairwise(counts)]
        assert sum(steps) == pytest.approx(earn(name, counts[0], counts[-1], o0, oz), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(("estimator", "expected"), [("median", 2.0), ("min", 1.0), ("mean", 1.75), (max, 2.0)])
def test_the_runtime_is_a_point_estimate(estimator: Any, expected: float) -> None:
    before, after = np.array([4.0, 2.0, 6.0, 3.0]), np.array([1.0, 4.0, 1.5, 1.5])
    assert RuntimeReward(estimator).reward({"Runtime": before}, {"Runtime": after}, {}) == expected


def test_an_estimator_of_ones_own_gets_plain_floats() -> None:
    seen: list[Any] = []
    reward = RuntimeReward(lambda times: seen.append(times) or statistics.geometric_mean(times), "geo")
    assert reward.reward({"Runtime": np.array([4.0])}, {"Runtime": np.array([1.0])}, {}) == pytest.approx(3.0)
    assert seen == [[4.0], [1.0]] and type(seen[0][0]) is float and reward.name == "geo"


def test_an_estimator_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="median, min, mean, not 'mode'"):
        RuntimeReward("mode")


def test_a_program_that_cannot_be_run_has_no_runtime() -> None:
    with pytest.raises(BenchmarkInitError, match="cannot be run"):
        RuntimeReward().reward({"Runtime": np.array([])}, {"Runtime": np.array([])}, {})


def test_every_number_observed_without_a_reward_of_its_name_gets_one() -> None:
    spaces = {
        "count": space("count", Scalar(0, None, "int64")),
        "ratio": space("ratio", Scalar(0, 1, "float64"), deterministic=False, platform_dependent=True),
        "known": space("known", Scalar(0, None, "int64")),
        "text": space("text", gymnasium.spaces.Text(10)),
        "array": space("array", gymnasium.spaces.Box(0, 1, (1,))),
    }
    rewards = rewards_of_observations(spaces, {"known": CostReward("known", "known")})
    assert list(rewards) == ["count", "ratio"]
    assert (rewards["ratio"].deterministic, rewards["ratio"].platform_dependent) == (False, True)
    assert (rewards["count"].deterministic, rewards["count"].platform_dependent) == (True, False)


def test_the_reward_of_a_number_is_its_increase_and_0_on_error() -> None:
    reward = ObservationReward(space("count", Scalar(0, None, "int64")))
    assert reward.reward({"count": 3}, {"count": 5}, {}) == 2.0
    assert reward.reward_on_error(7.0) == 0.0


@pytest.mark.parametrize("name", REWARDS)
def test_a_failed_step_takes_back_what_was_earned(name: str) -> None:
    assert REWARDS[name].reward_on_error(3.5) == -3.5


@pytest.mark.parametrize(("negates", "reward"), [(True, -13.5), (False, -10.0)])
def test_what_a_failure_costs_can_be_chosen(negates: bool, reward: float) -> None:
    class Strict(Reward):
        default_value = -10.0
        default_negates_returns = negates

        def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
            return 0.0

    assert Strict("strict").reward_on_error(3.5) == reward


def test_a_reward_without_a_definition_says_so() -> None:
    with pytest.raises(NotImplementedError, match="mine"):
        Reward("mine").reward({}, {}, {})
