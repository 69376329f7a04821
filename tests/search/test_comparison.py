"""Searches told in the figures of papers, on real programs."""

import pytest

import aiocg
from aiocg import search
from aiocg.search.metrics import reward_units
from aiocg.spaces.rewards import CostReward

pytestmark = pytest.mark.asyncio


@pytest.mark.few(1)
@pytest.mark.parametrize("reward_space", ["IrInstructionCountOz", "ObjectImageSizeBytes"])
async def test_a_search_is_compared_in_the_cost_of_its_reward(reward_space: str) -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd", reward_space=reward_space)
        result = await search.random(env, budget=search.Budget(evaluations=60), seed=1)
        comparison = await search.compare(env, result.actions)
        assert comparison is not None and result.reward > 0
        oz = comparison.baselines["Oz"]
        units = reward_units(comparison.unoptimised, oz, comparison.found)
        scale = 1 if reward_space.endswith("Bytes") else comparison.unoptimised - oz
        assert comparison.unoptimised - comparison.found == pytest.approx(result.reward * scale)
        assert comparison.to_dict()["baselines"]["Oz"]["reward_units"] == units
        names = (
            comparison.cost,
            *(f"{comparison.cost.removesuffix('Bytes')}{level}" for level in ("O0", *comparison.baselines)),
        )
        values = [comparison.found, comparison.unoptimised, *comparison.baselines.values()]
        assert await env.observe(*names) == values


async def test_a_reward_without_a_baseline_is_not_compared() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd", reward_space="runtime")
        env.add_reward_space(CostReward("plain", "IsBuildable"))
        assert await search.compare(env) is None
        env.reward_space = "plain"
        assert await search.compare(env) is None
        env.reward_space = None
        assert await search.compare(env) is None
