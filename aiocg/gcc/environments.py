"""The GCC environment."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiocg.llvm.environments import worker_options
from aiocg.registry import EnvironmentSpec, register

if TYPE_CHECKING:
    from aiocg.spaces.actions import ActionLanguage, Notation
    from aiocg.spaces.rewards import Reward

# Imported in functions because `make` starts workers first, so that importing overlaps with that.


def _notation(language: "ActionLanguage", settings: Mapping[str, str]) -> "Notation":
    from aiocg.gcc.gcc_line import GccLine

    return GccLine(language, settings["gcc_bin"])


def _prepare(settings: Mapping[str, str]) -> None:
    from aiocg.gcc.compiler_spec import prepare

    prepare(settings)


def _rewards() -> "list[Reward]":
    from aiocg.gcc.rewards import gcc_rewards

    return gcc_rewards()


register(
    EnvironmentSpec(
        id="gcc-v0",
        worker="gcc",
        description="the options of GCC's command line; choose your own observation and reward",
        benchmark="benchmark://programs-v0/qsort",
        rewards=_rewards,
        options=worker_options,  # results are kept there, and clang has the linker that programs need
        notation=_notation,
        settings={"gcc_bin": "gcc"},
        takes_sources=True,
        start_timeout=600.0,  # the first one tries each option, and the compiler may be far away or slow
        prepare=_prepare,
        forked=True,
    )
)
