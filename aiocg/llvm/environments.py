"""The LLVM environments."""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiocg.registry import EnvironmentSpec, register

if TYPE_CHECKING:
    from aiocg.datasets.benchmark import Benchmark
    from aiocg.env.env import Env
    from aiocg.spaces import ObservationSpace
    from aiocg.spaces.actions import ActionLanguage, Notation
    from aiocg.spaces.rewards import Reward

_LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz")

# Imports in functions wait until an environment is made: `make` starts its workers before them.


def worker_options(settings: Mapping[str, str]) -> Mapping[str, Any]:
    """Return where the workers keep files, their libLLVM if one was chosen, and the clang that compiles the programs.

    Raises:
        EnvironmentNotSupported: when the release that was chosen is not on this machine.
    """
    from aiocg.datasets.cache import cache_directory
    from aiocg.datasets.errors import ToolchainNotFound
    from aiocg.datasets.llvm_releases import chosen, using
    from aiocg.datasets.toolchain import find_clang
    from aiocg.errors import EnvironmentNotSupported

    options = {"cache_dir": str(cache_directory())}
    with using(settings.get("llvm", "")):
        try:
            if (release := chosen()) is not None:
                options["library"] = str(release.library)
        except ToolchainNotFound as error:
            raise EnvironmentNotSupported(str(error)) from error
        with contextlib.suppress(ToolchainNotFound):  # a worker may still find one, or say what is wrong
            options["clang"] = str(find_clang())
    return options


def _environ() -> Mapping[str, str]:
    from aiocg.datasets.toolchain import loader_environment

    return loader_environment()


def _form(benchmark: "Benchmark", settings: Mapping[str, str]) -> "Benchmark":
    """Return a program as the clang of the chosen release compiles it."""
    return benchmark.compiled_by(settings["llvm"])


def _rewards() -> "list[Reward]":
    from aiocg.spaces.rewards import llvm_rewards

    return llvm_rewards()


def _notation(language: "ActionLanguage", _settings: Mapping[str, str]) -> "Notation":
    from aiocg.llvm._opt_line import OptLine

    return OptLine(language)


async def _apply_baseline(env: "Env", level: str) -> str:
    """Apply one of LLVM's own pipelines; return "1" if that changed the program, "0" if not.

    CompilerGym has it as a session parameter. Here it is a step of the trajectory, whose reward is added to the return
    of the episode.

    Raises:
        ParameterFailed: when there is no such level.
        ServiceError: when LLVM fails; the episode has then ended.
    """
    from aiocg.errors import ParameterFailed
    from aiocg.transport.messages import FailureCode

    if level not in _LEVELS:
        message = f"llvm.apply_baseline_optimizations takes {', '.join(_LEVELS)}, not {level!r}"
        raise ParameterFailed(FailureCode.PARAMETER, message)
    _, _, info = await env.apply([f"default<{level[1:]}>"], observation_spaces=[])
    return "0" if info["action_had_no_effect"] else "1"


def _observations() -> "list[ObservationSpace]":
    from aiocg.llvm import _ir2vec as ir2vec
    from aiocg.llvm import _lexed_ir as lexed_ir
    from aiocg.llvm import _programl as programl
    from aiocg.llvm import inst2vec

    return [*inst2vec.spaces(), *ir2vec.spaces(), *lexed_ir.spaces(), *programl.spaces()]


for name, description, observation, reward in (
    ("llvm-v0", "LLVM phase ordering; choose your own observation and reward", None, None),
    ("llvm-ic-v0", "fewer IR instructions than -Oz", None, "IrInstructionCountOz"),
    ("llvm-autophase-ic-v0", "as llvm-ic-v0, observing Autophase", "Autophase", "IrInstructionCountOz"),
    ("llvm-ir-ic-v0", "as llvm-ic-v0, observing the IR as text", "Ir", "IrInstructionCountOz"),
    ("llvm-codesize-v0", "smaller object code than -Oz", None, "ObjectImageSizeOz"),
    ("llvm-autophase-codesize-v0", "as llvm-codesize-v0, observing Autophase", "Autophase", "ObjectImageSizeOz"),
    ("llvm-ir-codesize-v0", "as llvm-codesize-v0, observing the IR as text", "Ir", "ObjectImageSizeOz"),
):
    register(
        EnvironmentSpec(
            id=name,
            worker="llvm",
            description=description,
            benchmark="benchmark://programs-v0/qsort",
            observation_space=observation,
            reward_space=reward,
            rewards=_rewards,
            options=worker_options,
            environ=_environ,
            derived=_observations,
            notation=_notation,
            settings={"llvm": ""},
            form_of=_form,
            parameters={"llvm.apply_baseline_optimizations": _apply_baseline},
            forked=True,
        )
    )
