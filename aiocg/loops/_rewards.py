"""The rewards of the loop-nest environments."""

from collections.abc import Mapping
from typing import Any

from aiocg.spaces.rewards import Reward


class _GainReward(Reward):
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
    return [_GainReward("flops", "increase of the speed, in 10**9 floating-point operations a second")]


def loops_rewards() -> list[Reward]:
    """Return the rewards of `loops-v0`."""
    return [
        *loop_tool_rewards(),
        _GainReward("roof_fraction", "increase of the speed, as a fraction of what the device can do"),
    ]
