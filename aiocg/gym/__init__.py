"""Environments for blocking code, after Gymnasium's interface. Importing this makes them known to Gymnasium::

    import gymnasium

    import aiocg.gym

    env = gymnasium.make("llvm-autophase-ic-v0", benchmark="programs-v0/qsort")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    env.close()

All environments of a process share one runtime, unless they are given another.
"""

from aiocg.errors import ForkedProcess
from aiocg.gym._compilers import GccEnv, LlvmEnv, register_all
from aiocg.gym._env import CompilerEnv
from aiocg.gym._portal import Portal, shutdown
from aiocg.gym._runtime import SyncRuntime, default_runtime, shared_nursery
from aiocg.gym.vector import CompilerVectorEnv

__all__ = [
    "CompilerEnv",
    "CompilerVectorEnv",
    "ForkedProcess",
    "GccEnv",
    "LlvmEnv",
    "Portal",
    "SyncRuntime",
    "default_runtime",
    "register_all",
    "shared_nursery",
    "shutdown",
]

register_all()
