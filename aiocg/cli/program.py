"""Programs on the command line: flags for one's own, and writing the current one to a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli.output import CommandError, write_file
from aiocg.datasets.errors import BenchmarkInitError

if TYPE_CHECKING:
    from aiocg import Env


def _checked(words: list[str] | None) -> list[str]:
    from aiocg.datasets.source_flags import checked_flags

    try:
        return [*checked_flags(words or ())]
    except BenchmarkInitError as error:
        raise typer.BadParameter(str(error)) from None


Flags = Annotated[
    list[str] | None,
    typer.Argument(
        callback=_checked,
        metavar="[-- FLAG...]",
        help="Flags for clang, for your own C or C++ file: -- -std=c++20 -Iinclude -DN=3.",
        show_default=False,
    ),
]
"""The flags behind `--` of all commands that take a program, checked."""

_OBSERVED = {  # by suffix of the file
    ".bc": ("Bitcode",),
    ".ll": ("Ir",),
    ".s": ("asm", "Assembly"),
    ".o": ("obj", "ObjectFile"),
}
_EXECUTABLE = ("", ".exe", ".elf", ".out")


def observation_of(env: "Env", path: Path) -> str | None:
    """Return the observation to write to a file, by the file's suffix; None for an executable.

    Raises:
        CommandError: when the environment cannot write such a file.
    """
    wanted = _OBSERVED.get(path.suffix)
    if wanted is not None:
        found = next((name for name in wanted if name in env.observation_spaces), None)
        if found is None:
            raise CommandError(f"{env.spec.id} has no observation {' or '.join(wanted)}, so there is nothing to write")
        return found
    if path.suffix not in _EXECUTABLE:
        raise CommandError(
            f"{path} should end in .bc or .ll, for LLVM's code, in .s or in .o; an executable has no suffix"
        )
    if "Bitcode" not in env.observation_spaces:
        raise CommandError(f"{env.spec.id} links no executable {path}: give it a suffix, such as .o")
    if env.benchmark.program is None:
        raise CommandError(
            f"{env.benchmark.uri} is no whole program, so it cannot be linked: {path} should end in .bc, .ll or .o"
        )
    return None


async def write_program(env: "Env", path: Path) -> int:
    """Write the program, see `observation_of`, and return its number of bytes.

    Where the reward is of functions marked for size, they are marked in the file, so that it is as small as was told.
    """
    from aiocg.spaces.baselines import assumed_mark

    reward = env.reward_spaces[env.reward_space] if env.reward_space is not None else None
    if mark := assumed_mark(getattr(reward, "cost", "")):
        async with await env.fork() as marked:
            await marked.apply([f"mark<{mark.lower()}>"])
            return await _write(marked, path)
    return await _write(env, path)


async def _write(env: "Env", path: Path) -> int:
    observation = observation_of(env, path)
    if observation is None:
        from aiocg.programs.project import write_program as link

        try:
            return (await link(env, path)).stat().st_size
        except BenchmarkInitError as error:
            raise CommandError(str(error)) from None
    value = await env.observe(observation)
    content = value.encode() if isinstance(value, str) else value
    write_file(path, content)
    return len(content)
