"""The reward of loop_tool: by how much faster the program has become."""

from typing import Any

from aiocg.compat.compiler_gym.spaces import Reward

__all__ = ["FLOPSReward"]


class FLOPSReward(Reward):
    """The increase of the speed since the last step, or since the reset, in 10**9 operations a second."""

    def __init__(self) -> None:
        super().__init__(
            name="flops",
            observation_spaces=["flops"],
            default_value=0,
            default_negates_returns=True,
            deterministic=False,
            platform_dependent=True,
        )
        self.previous_flops: float | None = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        """Measure the program as it is at first."""
        self.previous_flops = observation_view["flops"]

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        """Return the increase."""
        before, self.previous_flops = self.previous_flops, observations[0]
        return float(observations[0] if before is None else observations[0] - before)
