"""The environments of loop nests."""

from collections.abc import Mapping
from typing import Any

from aiocg.datasets.loop_nests import dataset as loop_nests
from aiocg.datasets.loop_nests import loop_tool
from aiocg.registry import EnvironmentSpec, register
from aiocg.spaces.rewards import Reward


def _options() -> Mapping[str, Any]:
    """Tell the workers where measured rooflines are cached."""
    from aiocg.datasets.cache import cache_directory

    return {"cache_dir": str(cache_directory())}


class GainReward(Reward):
    """The increase of a speed since the last state; an error takes back the whole gain of the episode.

    Has the noise of two measurements, since both states are measured. An action without effect is worth 0.

    Args:
        space: the observation, one number.
        description: one line.
    """

    deterministic = False
    platform_dependent = True

    def __init__(self, space: str, description: str) -> None:
        super().__init__(space, description)
        self.observation_spaces = (space,)

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return the increase."""
        return float(after[self.name] - before[self.name])


def loop_tool_rewards() -> list[Reward]:
    """Return the reward of `loop_tool-v0`."""
    return [GainReward("flops", "increase of the speed, in 10**9 floating-point operations a second")]


def loops_rewards() -> list[Reward]:
    """Return the rewards of `loops-v0`."""
    return [
        *loop_tool_rewards(),
        GainReward("roof_fraction", "increase of the speed, as a fraction of what the device can do"),
    ]


register(
    EnvironmentSpec(
        id="loops-v0",
        worker="loops",
        description="schedules of loop nests, on processors and GPUs; the reward is measured speed",
        benchmark="generator://loops-v0/matmul?m=512&n=512&k=512",
        reward_space="flops",
        rewards=loops_rewards,
        options=_options,
        settings={"target": "cpu", "threads": ""},
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
        rewards=loop_tool_rewards,
        options=_options,
        kind=loop_tool.KIND,
        start_timeout=120.0,
    )
)
