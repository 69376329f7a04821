"""CompilerGym's environments by their ids."""

from typing import Any

from aiocg.compat.compiler_gym.service.endpoints import (
    GCC_SERVICE_BINARY,
    LLVM_SERVICE_BINARY,
    LOOP_TOOL_SERVICE_BINARY,
)
from aiocg.compat.compiler_gym.util.registration import register

__all__ = ["register_all"]

_ENVS = "aiocg.compat.compiler_gym.envs"
_REWARDS = {"ic": "IrInstructionCountOz", "codesize": "ObjectTextSizeOz"}
_OBSERVATIONS = {"autophase": "Autophase", "ir": "Ir"}


def register_all() -> None:
    """Make all known that the original has."""
    _register_llvm("llvm-v0")
    for short, reward in _REWARDS.items():
        _register_llvm(f"llvm-{short}-v0", reward_space=reward)
    for name, observation in _OBSERVATIONS.items():
        for short, reward in _REWARDS.items():
            _register_llvm(f"llvm-{name}-{short}-v0", observation_space=observation, reward_space=reward)
    register(id="gcc-v0", entry_point=f"{_ENVS}.gcc:GccEnv", kwargs={"service": GCC_SERVICE_BINARY})
    register(
        id="loop_tool-v0",
        entry_point=f"{_ENVS}.loop_tool:LoopToolEnv",
        kwargs={"service": LOOP_TOOL_SERVICE_BINARY, "observation_space": "action_state", "reward_space": "flops"},
    )


def _register_llvm(id: str, **settings: Any) -> None:
    register(id=id, entry_point=f"{_ENVS}.llvm:LlvmEnv", kwargs={"service": LLVM_SERVICE_BINARY, **settings})
