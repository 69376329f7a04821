"""Wrappers of environments, with CompilerGym's names, and bases for wrappers of your own::

    env = gymnasium.make("llvm-ic-v0")
    env = ConstrainedCommandline(env, ["mem2reg", "gvn", "simplifycfg", "dce"])
    env = CycleOverBenchmarks(env, ["programs-v0/gcd", "programs-v0/crc32"])
    env = TimeLimit(env, max_episode_steps=10)

They can be forked and copied, take several actions at a time, and have everything that an environment has. Gymnasium's
own wrappers can be put between and over them. `aiocg.gym.wrappers.vector` has those for vectors of environments.
"""

from aiocg.env.plan import StepSettings
from aiocg.gym.wrappers._episodes import (
    Counter,
    CycleOverBenchmarks,
    CycleOverBenchmarksIterator,
    ForkableIterator,
    ForkOnStep,
    IterateOverBenchmarks,
    JustKeepGoing,
    RandomOrderBenchmarks,
    TimeLimit,
)
from aiocg.gym.wrappers._transformation import (
    AUTOPHASE_FLAGS,
    ActionWrapper,
    AutophaseActionSpace,
    AutophaseNormalizedFeatures,
    ClampedReward,
    CommandlineWithTerminalAction,
    ConcatActionsHistogram,
    ConstrainedCommandline,
    ObservationWrapper,
    RewardWrapper,
    RuntimePointEstimateReward,
    ValidateBenchmarkAfterEveryStep,
)
from aiocg.gym.wrappers._wrapper import CompilerEnvWrapper

__all__ = [
    "AUTOPHASE_FLAGS",
    "ActionWrapper",
    "AutophaseActionSpace",
    "AutophaseNormalizedFeatures",
    "ClampedReward",
    "CommandlineWithTerminalAction",
    "CompilerEnvWrapper",
    "ConcatActionsHistogram",
    "ConstrainedCommandline",
    "Counter",
    "CycleOverBenchmarks",
    "CycleOverBenchmarksIterator",
    "ForkOnStep",
    "ForkableIterator",
    "IterateOverBenchmarks",
    "JustKeepGoing",
    "ObservationWrapper",
    "RandomOrderBenchmarks",
    "RewardWrapper",
    "RuntimePointEstimateReward",
    "StepSettings",
    "TimeLimit",
    "ValidateBenchmarkAfterEveryStep",
]
