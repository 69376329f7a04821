"""Rewards: the definitions, on numbers."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.rewards import CostReward, Reward, llvm_rewards

COUNTS = st.integers(0, 10**6)
REWARDS = {reward.name: reward for reward in llvm_rewards()}


def earn(name: str, before: int, after: int, o0: int = 0, baseline: int = 0) -> float:
    reward = REWARDS[name]
    level = name.removeprefix("IrInstructionCount")
    known = {"IrInstructionCountO0": o0, f"IrInstructionCount{level}": baseline}
    return reward.reward(
        {"IrInstructionCount": before},
        {"IrInstructionCount": after},
        {space: known[space] for space in reward.baseline_spaces},
    )


def test_there_are_the_four_rewards_of_instruction_counts() -> None:
    assert list(REWARDS) == [f"IrInstructionCount{suffix}" for suffix in ("", "Norm", "O3", "Oz")]
    assert all(reward.deterministic and not reward.platform_dependent for reward in REWARDS.values())
    assert [reward.success_threshold for reward in REWARDS.values()] == [None, None, 1.0, 1.0]


def test_the_plain_reward_is_the_decrease() -> None:
    assert (earn("IrInstructionCount", 100, 60), earn("IrInstructionCount", 60, 100)) == (40.0, -40.0)


def test_the_norm_is_a_fraction_of_the_unoptimised_count() -> None:
    assert earn("IrInstructionCountNorm", 100, 60, o0=200) == 0.2
    assert earn("IrInstructionCountNorm", 5, 3, o0=0) == 2.0


@pytest.mark.parametrize("level", ["O3", "Oz"])
def test_one_is_as_good_as_the_baseline(level: str) -> None:
    assert earn(f"IrInstructionCount{level}", 500, 300, o0=500, baseline=300) == 1.0
    assert earn(f"IrInstructionCount{level}", 500, 250, o0=500, baseline=300) == 1.25


@pytest.mark.parametrize("baseline", [500, 501, 900])
def test_a_baseline_that_does_not_help_counts_units(baseline: int) -> None:
    assert earn("IrInstructionCountOz", 500, 497, o0=500, baseline=baseline) == 3.0


@given(st.lists(COUNTS, min_size=2, max_size=20), COUNTS, COUNTS)
def test_rewards_of_an_episode_sum_up_to_that_of_one_step(counts: list[int], o0: int, oz: int) -> None:
    for name in REWARDS:
        steps = [earn(name, a, b, o0, oz) for a, b in itertools.pairwise(counts)]
        assert sum(steps) == pytest.approx(earn(name, counts[0], counts[-1], o0, oz), rel=1e-9, abs=1e-6)


def test_a_failed_step_takes_back_what_was_earned() -> None:
    assert CostReward("c", "cost").reward_on_error(3.5) == -3.5


def test_a_reward_without_a_definition_says_so() -> None:
    with pytest.raises(NotImplementedError, match="mine"):
        Reward("mine").reward({}, {}, {})
