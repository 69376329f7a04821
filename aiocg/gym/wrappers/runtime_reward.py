"""Rewarding the running time of the program."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from aiocg.gym.wrappers.wrapper import CompilerEnvWrapper
from aiocg.rewards import RuntimeReward

__all__ = ["RuntimePointEstimateReward"]


class RuntimePointEstimateReward(CompilerEnvWrapper, RecordConstructorArgs):
    """Makes the decrease of the program's running time, in seconds, the default reward, under the name `runtime`.

    Args:
        env: an LLVM environment.
        runtime_count: how often the program is run and timed after each step.
        warmup_count: how often it is run before.
        estimator: makes one number of the times measured: a function, or "median", "min" or "mean".
    """

    def __init__(
        self,
        env: "gymnasium.Env[Any, Any]",
        runtime_count: int = 30,
        warmup_count: int = 0,
        estimator: str | Callable[[Sequence[float]], float] = statistics.median,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, runtime_count=runtime_count, warmup_count=warmup_count, estimator=estimator
        )
        CompilerEnvWrapper.__init__(self, env)
        self.runtime_observation_count = runtime_count
        self.runtime_warmup_runs_count = warmup_count
        self.add_reward_space(RuntimeReward(estimator))
        self.reward_space = "runtime"
