"""The dataset `POJ104Dataset`."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import POJ104Dataset

__all__ = ["POJ104Dataset"]
