"""What the LLVM environments have, as enumerations."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from aiocg.compat.compiler_gym.envs.llvm.llvm_rewards import llvm_rewards
from aiocg.compat.compiler_gym.envs.llvm.observations import NAMES
from aiocg.compat.compiler_gym.envs.llvm.passes import FLAGS, pascal

__all__ = ["action_descriptions", "actions", "observation_spaces", "reward_spaces"]



def _enumeration(name: str, members: Mapping[str, str], doc: str) -> Any:
    made = Enum(name, members, module=__name__)  # type: ignore[misc]
    made.__doc__ = doc
    return made


observation_spaces = _enumeration("observation_spaces", dict(zip(NAMES, NAMES, strict=True)), "What can be observed.")
reward_spaces = _enumeration("reward_spaces", {str(one): str(one) for one in llvm_rewards()}, "What can be rewarded.")
actions = _enumeration("actions", {pascal(flag): flag for flag in FLAGS}, "The actions, by their flags.")

action_descriptions: Any


def __getattr__(name: str) -> Any:
    if name != "action_descriptions":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aiocg.compat.compiler_gym.envs.llvm.backend import LlvmBackend

    backend = LlvmBackend()  # the compiler knows best
    try:
        space = backend.action_spaces[0]
        described = zip(space.flags, space.descriptions, strict=True)
        members = {pascal(flag): what for flag, what in described}
        found = _enumeration("action_descriptions", members, "What the actions do, one line for each.")
    finally:
        backend.close()
    globals()[name] = found
    return found
