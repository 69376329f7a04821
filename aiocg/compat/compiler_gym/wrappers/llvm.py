"""Wrappers of LLVM environments."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.spaces import RuntimeReward
from aiocg.compat.compiler_gym.wrappers.core import CompilerEnvWrapper

__all__ = ["RuntimePointEstimateReward"]


class RuntimePointEstimateReward(CompilerEnvWrapper):
    """A wrapper whose reward is how much less time the program takes after a step.

    Args:
        env: an LLVM environment.
        runtime_count: how often the program is run for each reward.
        warmup_count: how often it is run before that.
        estimator: makes one number of the times, in seconds.
    """

    def __init__(
        self,
        env: Any,
        runtime_count: int = 30,
        warmup_count: int = 0,
        estimator: Callable[[Iterable[float]], float] = np.median,  # type: ignore[assignment]
    ) -> None:
        super().__init__(env)
        base = self.env.unwrapped
        base.reward.add_space(
            RuntimeReward(runtime_count=runtime_count, warmup_count=warmup_count, estimator=estimator)
        )
        base.reward_space = "runtime"
        self._refused: ValueError | None = None
        try:
            base.runtime_observation_count = runtime_count
            base.runtime_warmup_runs_count = warmup_count
        except ValueError as error:
            self._refused = error

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode.

        Raises:
            ValueError: when the numbers of runs make no sense, as CompilerGym finds out here.
        """
        if self._refused is not None:
            raise self._refused
        return super().reset(*args, **kwargs)

    def fork(self) -> "RuntimePointEstimateReward":
        """Return a wrapper of this kind around a fork, which goes on from the same running time."""
        mine = self.reward.spaces["runtime"]
        other = self.env.fork()
        base = other.unwrapped
        total = self.episode_reward
        base.reward.spaces.pop("runtime", None)
        wrapped = type(self)(other, mine.runtime_count, mine.warmup_count, mine.estimator)
        theirs = base.reward.spaces["runtime"]
        theirs.starting_runtime, theirs.previous_runtime = mine.starting_runtime, mine.previous_runtime
        theirs.current_benchmark = mine.current_benchmark
        if self.in_episode:
            base.episode_reward = total
        return wrapped
