"""The parts of OpenAI Gym 0.21 that CompilerGym and its scripts used. The interface is the old one: four-value steps.

Spaces are Gymnasium's, so that what is written for those takes ours. Whoever writes something new uses `gymnasium`.
"""

from aiocg.compat.gym import envs, error, logger, spaces, utils, wrappers
from aiocg.compat.gym.core import ActionWrapper, Env, GoalEnv, ObservationWrapper, RewardWrapper, Wrapper
from aiocg.compat.gym.envs.registration import make, register, spec
from aiocg.compat.gym.spaces import Space
from aiocg.compat.gym.version import VERSION as __version__

__all__ = [
    "ActionWrapper",
    "Env",
    "GoalEnv",
    "ObservationWrapper",
    "RewardWrapper",
    "Space",
    "Wrapper",
    "__version__",
    "envs",
    "error",
    "logger",
    "make",
    "register",
    "spaces",
    "spec",
    "utils",
    "wrappers",
]
