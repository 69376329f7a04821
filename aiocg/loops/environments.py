"""The environments of loop nests."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiocg.datasets.loop_nests import dataset as loop_nests
from aiocg.registry import EnvironmentSpec, register

if TYPE_CHECKING:
    from aiocg.spaces.rewards import Reward

# Imports in functions wait until an environment is made: `make` starts its workers before them.


def _options(_: Mapping[str, str]) -> Mapping[str, Any]:
    """Tell the workers where measured rooflines are cached."""
    from aiocg.datasets.cache import cache_directory

    return {"cache_dir": str(cache_directory())}


def _loop_tool_rewards() -> "list[Reward]":
    from aiocg.spaces.rewards import GainReward

    return [GainReward("flops", "increase of the speed, in 10**9 floating-point operations a second")]


def _rewards() -> "list[Reward]":
    from aiocg.spaces.rewards import GainReward

    roof = GainReward("roof_fraction", "increase of the speed, as a fraction of what the device can do")
    return [*_loop_tool_rewards(), roof]


register(
    EnvironmentSpec(
        id="loops-v0",
        worker="loops",
        description="schedules of loop nests, on processors and GPUs; the reward is measured speed",
        benchmark="generator://loops-v0/matmul?m=512&n=512&k=512",
        reward_space="flops",
        rewards=_rewards,
        options=_options,
        settings={"target": "cpu", "threads": "", "precision": "float32"},
        kind=loop_nests.KIND,
        start_timeout=120.0,  # a GPU's driver may take its time
    )
)
register(
    EnvironmentSpec(
        id="loop_tool-v0",
        worker="loop_tool",
        description="sizes and threads of the loops around an addition of vectors, as CompilerGym had it",
        benchmark="benchmark://loop_tool-cpu-v0/1048576",
        observation_space="action_state",
        reward_space="flops",
        rewards=_loop_tool_rewards,
        options=_options,
        kind=loop_nests.LOOP_TOOL_KIND,
        start_timeout=120.0,
    )
)
