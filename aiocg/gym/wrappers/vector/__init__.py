"""Wrappers of vectors of environments, by the names of those for one environment, as in `gymnasium.wrappers.vector`::

    envs = gymnasium.make_vec("llvm-autophase-ic-v0", num_envs=64, benchmarks="aiocg-v0", max_episode_steps=45)
    envs = ConstrainedCommandline(envs, ["mem2reg", "gvn", "simplifycfg", "dce"])
    envs = ConcatActionsHistogram(AutophaseNormalizedFeatures(envs), norm_to_episode_len=45)

They are for `CompilerVectorEnv`, with `step` as well as with `send` and `recv`, and for Gymnasium's vectors over our
environments, except where one says otherwise. What has no wrapper here, the vector does itself: benchmarks are chosen
with `benchmarks=`, episodes limited with `max_episode_steps=`. Gymnasium's own wrappers for vectors can be put over and
under these.
"""

from aiocg.gym.wrappers.vector.commandline import (
    AutophaseActionSpace,
    CommandlineWithTerminalAction,
    ConstrainedCommandline,
)
from aiocg.gym.wrappers.vector.ending import Counter, ValidateBenchmarkAfterEveryStep
from aiocg.gym.wrappers.vector.transformation import AutophaseNormalizedFeatures, ClampedReward, ConcatActionsHistogram
from aiocg.gym.wrappers.vector.wrapper import CompilerVectorWrapper

__all__ = [
    "AutophaseActionSpace",
    "AutophaseNormalizedFeatures",
    "ClampedReward",
    "CommandlineWithTerminalAction",
    "CompilerVectorWrapper",
    "ConcatActionsHistogram",
    "ConstrainedCommandline",
    "Counter",
    "ValidateBenchmarkAfterEveryStep",
]
