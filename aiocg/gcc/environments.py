"""The GCC environment."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiocg.llvm.environments import worker_options
from aiocg.registry import EnvironmentSpec, register

if TYPE_CHECKING:
    from aiocg.spaces.actions import ActionLanguage, Notation
    from aiocg.spaces.rewards import Reward

_COSTS = (
    ("asm_size", "the bytes of assembly"),
    ("obj_size", "the bytes of the object file"),
    ("obj_image_size", "the bytes that the object file brings into an image"),
    ("obj_text_size", "the bytes of code and read-only data in the object file"),
)

# Imported in functions because `make` starts workers first, so that importing overlaps with that.


def _notation(language: "ActionLanguage", settings: Mapping[str, str]) -> "Notation":
    from aiocg.gcc._gcc_line import GccLine

    return GccLine(language, settings["gcc_bin"])


def _prepare(settings: Mapping[str, str]) -> None:
    from aiocg.gcc.compiler_spec import prepare

    prepare(settings)


def gcc_rewards() -> "list[Reward]":
    """Return the rewards: each cost's decrease in bytes, and relative to what a level saves; and the runtime's."""
    from aiocg.spaces.rewards import CostReward, RuntimeReward

    rewards: list[Reward] = []
    for cost, what in _COSTS:
        rewards.append(CostReward(cost, cost, platform_dependent=True, description=f"decrease of {what}"))
        for level in ("Os", "Oz", "O2", "O3"):
            about = f"decrease of {what}; 1 is what -{level} saves, or one byte where it saves none"
            scaled = functools.partial(CostReward, unoptimised=f"{cost}_O0", optimised=f"{cost}_{level}")
            rewards.append(scaled(f"{cost}_{level}", cost, platform_dependent=True, description=about))
    return [*rewards, RuntimeReward(space="runtime")]


register(
    EnvironmentSpec(
        id="gcc-v0",
        worker="gcc",
        description="the options of GCC's command line; choose your own observation and reward",
        benchmark="benchmark://programs-v0/qsort",
        rewards=gcc_rewards,
        options=worker_options,  # results are kept there, and clang has the linker that programs need
        notation=_notation,
        settings={"gcc_bin": "gcc"},
        takes_sources=True,
        start_timeout=600.0,  # the first one tries each option, and the compiler may be far away or slow
        prepare=_prepare,
        forked=True,
    )
)
