"""The base class of CompilerGym's environments, and their registration."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from aiocg.compat._deprecation import outside
from aiocg.compat._errors import EnvironmentNotSupported
from aiocg.compat.classic import _registration as registration
from aiocg.compat.classic._core import Env
from aiocg.compat.service._connection import GCC_SERVICE_BINARY, LLVM_SERVICE_BINARY, LOOP_TOOL_SERVICE_BINARY


class OptionalArgumentValue(Enum):
    """The default of arguments for which None has a meaning."""

    UNCHANGED = 1


UNCHANGED = OptionalArgumentValue.UNCHANGED
JsonDictType = dict[str, Any]
ObservationType = TypeVar("ObservationType")
ActionType = TypeVar("ActionType")
RewardType = float
DoneType = bool
InfoType = JsonDictType
StepType = tuple[Any, Any, DoneType, InfoType]


class CompilerEnv(Env, ABC):
    """An environment for compiler optimisation, with the interface of Gym 0.21. `compiler_gym.make` makes one."""

    @abstractmethod
    def fork(self) -> Any:
        """Return an independent environment in the same state."""

    @abstractmethod
    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode and return the default observation, or None if there is none.

        Args:
            benchmark: a URI or `Benchmark`, to change the program.
            action_space: a name, to change the action space.
            reward_space, observation_space: the new defaults; None switches them off.
            timeout: the time limit in seconds.
        """

    def step(self, action: Any, *args: Any, **kwargs: Any) -> StepType:
        """Apply an action; takes and returns what `multistep` does. Passing a list of actions is deprecated."""
        for old in ("observations", "rewards"):
            if old in kwargs:
                new = f"{old.rstrip('s')}_spaces"
                kwargs[new] = asked_for(kwargs.get(new), kwargs.pop(old), old)
        if isinstance(action, np.ndarray) and action.ndim == 0:
            action = action.item()
        if isinstance(action, (str, bytes, dict)) or not isinstance(action, Iterable):
            return self.multistep([action], *args, **kwargs)
        text = "Argument `action` of CompilerEnv.step no longer accepts a list of actions"
        warnings.warn(f"{text}. Please use CompilerEnv.multistep instead", DeprecationWarning, stacklevel=outside())
        return self.multistep(list(action), *args, **kwargs)

    @abstractmethod
    def multistep(self, actions: Any, *args: Any, **kwargs: Any) -> StepType:
        """Apply several actions; observation and reward are computed once, after the last.

        Args:
            actions: elements of the action space; `step` takes one.
            observation_spaces: spaces to observe instead of the default; the observation is then a list.
            reward_spaces: spaces to reward instead of the default; the reward is then a list.
            observations, rewards: deprecated names of these arguments.
            timeout: the time limit in seconds.

        Returns:
            Observation, reward, whether the episode is done, and info: `action_had_no_effect` and
            `new_action_space`, or `error_type` and `error_details` if the compiler or the program failed.
        """

    def commandline(self) -> str:
        """Return the actions since the reset as a command line."""
        raise NotImplementedError("abstract method")

    def commandline_to_actions(self, commandline: str) -> list[Any]:
        """Parse a command line into actions."""
        raise NotImplementedError("abstract method")

    @abstractmethod
    def apply(self, state: Any) -> None:
        """Apply the actions of a state; if no episode is running, reset to its benchmark first."""

    @abstractmethod
    def validate(self, state: Any = None) -> Any:
        """Check that a state (the current one if None) and its reward can be reproduced, and that the program works."""


def asked_for(new: Any, old: Any, name: str) -> Any:
    """Return an argument that may also be passed by its deprecated name, which warns."""
    if old is None:
        return new
    text = f"Argument `{name}` of CompilerEnv.multistep has been renamed `{name.rstrip('s')}_spaces`"
    warnings.warn(f"{text}. Please update your code", DeprecationWarning, stacklevel=outside())
    return old


enable_llvm_env, enable_mlir_env = True, False

COMPILER_GYM_ENVS: list[str] = []
"""The registered ids."""


def make(id: str, **kwargs: Any) -> Any:
    """Create an environment, as `gym.make` does."""
    return registration.make(id, **kwargs)


def register(id: str, order_enforce: bool = False, **kwargs: Any) -> None:
    """Register an environment.

    Args:
        order_enforce: ignored; environments check the order of calls themselves.
    """
    if id not in COMPILER_GYM_ENVS:
        COMPILER_GYM_ENVS.append(id)
    registration.register(id=id, order_enforce=order_enforce, **kwargs)


_LLVM = "aiocg.compat.envs._llvm:LlvmEnv"
_REWARDS = {"ic": "IrInstructionCountOz", "codesize": "ObjectTextSizeOz"}


class MlirEnv(CompilerEnv):
    """The MLIR environment, which aiocg does not support: creating it raises EnvironmentNotSupported."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "MlirEnv":
        """Raise EnvironmentNotSupported."""
        raise EnvironmentNotSupported("mlir-v0 is not available: aiocg has no workers for MLIR")


register("llvm-v0", entry_point=_LLVM, kwargs={"service": LLVM_SERVICE_BINARY})
for _prefix, _observation in {"": None, "autophase-": "Autophase", "ir-": "Ir"}.items():
    for _short, _reward in _REWARDS.items():
        _settings = {"service": LLVM_SERVICE_BINARY, "observation_space": _observation, "reward_space": _reward}
        register(f"llvm-{_prefix}{_short}-v0", entry_point=_LLVM, kwargs=_settings)
register("gcc-v0", entry_point="aiocg.compat.envs._gcc:GccEnv", kwargs={"service": GCC_SERVICE_BINARY})
register(
    "loop_tool-v0",
    entry_point="aiocg.compat.envs._loop_tool:LoopToolEnv",
    kwargs={"service": LOOP_TOOL_SERVICE_BINARY, "observation_space": "action_state", "reward_space": "flops"},
)
