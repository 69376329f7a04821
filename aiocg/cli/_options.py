"""Options of commands: each is an argument of its function, described in its `Args:`, in those of its module, or here.

An entry reads `name (what, what): help`, where each `what` is one of:

    -o, --output    how it is given; by default --name, or by its place if the function has no default for it
    1.., 0..65535   the least and the greatest number
    $VARIABLE       an environment variable that gives it, too
    anything else   what the help calls its value
    default ...     what to say of the default; the last one

Args:
    env (--env): Id of the environment; `aiocg envs` lists them.
    workers (1..): Worker processes; one per processor by default.
    host: Address to listen at; 0.0.0.0 for all interfaces, which takes a token.
    port (0..65535): Port, 0 for a free one.
    json: Print one JSON object as the last line, instead of tables.
"""

import copy
import dataclasses
import functools
import inspect
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

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
    ".o": ("obj", "ObjectFile", "ProjectedObject", "Object"),
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
            raise CommandError(f"{env.spec.id} makes no {path.suffix} file, so there is nothing to write")
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
    from aiocg.spaces.rewards import assumed_mark

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


_ENTRY = re.compile(r"^ {4}(\w+)(?: \((.*?)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
_RANGE = re.compile(r"(\d+)?\.\.(\d[\d.]*)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Function = TypeVar("Function", bound=Callable[..., Any])


def command(
    app: typer.Typer, name: str | None = None, *, like: object = None, **settings: Any
) -> Callable[[Function], Function]:
    """Add a function to an application as a command.

    Args:
        app: the application.
        name: of the command; the function's by default.
        like: what else describes arguments of these names; the function's module by default.
        settings: as for `typer.Typer.command`.
    """

    def add(function: Function) -> Function:
        app.command(name, **settings)(as_command(function, described(function, like)))
        return function

    return add


def as_command(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> Callable[..., Any]:
    """Return a function for Typer, with these parameters."""
    groups = {one.name: one.annotation for one in _groups_of(function)}

    @functools.wraps(function)
    def call(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        return function(**given)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]  # in any order
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    call.__doc__ = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")[0]
    return call


def _groups_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [one for one in inspect.signature(function).parameters.values() if dataclasses.is_dataclass(one.annotation)]


def described(function: Callable[..., Any], like: object = None) -> list[inspect.Parameter]:
    """Return the parameters of a function, each with all that Typer is to know of it.

    The fields of a parameter that is a dataclass stand in its place: options that several commands have.
    """
    entries: dict[str, tuple[str, str]] = {}
    for text in (__doc__, getattr(like or inspect.getmodule(function), "__doc__", None), function.__doc__):
        args = f"\n{inspect.cleandoc(text or '')}".partition("\nArgs:\n")[2]
        entries |= {name: (what, " ".join(help.split())) for name, what, help in _ENTRY.findall(args)}
    own, groups = inspect.signature(function).parameters.values(), _groups_of(function)
    shared = [one for group in groups for one in described(group.annotation)]
    return shared + [_parameter(one, *entries.get(one.name, ("", ""))) for one in own if one not in groups]


def _parameter(one: inspect.Parameter, what: str, help: str) -> inspect.Parameter:
    kind, *given = get_args(one.annotation) if get_origin(one.annotation) is Annotated else (one.annotation,)
    what, _, default = what.partition("default ")
    words = [word for word in what.split(", ") if word]
    names = [word for word in words if re.match(r"--?\w", word)]
    if given:
        info = copy.copy(given[0])
    else:
        info = typer.Argument() if one.default is one.empty and not names else typer.Option()
    if isinstance(info, typer.models.OptionInfo) and not info.param_decls:
        flag = one.default is False  # Typer would add --no-name
        info.param_decls = names or ([f"--{one.name.replace('_', '-')}"] if flag else [])
    info.help = " ".join(filter(None, (help, info.help)))
    info.show_default = default or info.show_default
    for word in words:
        if (bounds := _RANGE.fullmatch(word)) is not None:
            info.min, info.max = (json.loads(bound or "null") for bound in bounds.groups())
        elif word.startswith("$"):
            info.envvar = word[1:]
        elif word not in names:
            info.metavar = word
    return one.replace(annotation=Annotated[kind, info])


def time_option(*, least: float = 0.0, counted: str = "") -> Any:
    """Return an option whose value is seconds, given as a number or with a unit such as 30s or 2m.

    Args:
        least: the shortest time, in seconds.
        counted: the option that counts, which may be meant, if there is one.
    """

    def read(value: str | float) -> float:
        text = str(value).strip()
        unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
        try:
            seconds = float(text.removesuffix(unit)) * _UNITS.get(unit, 1.0)
        except ValueError:
            seconds = math.nan
        if math.isfinite(seconds) and seconds >= least:
            return seconds
        shortest = f", of at least {least:g}s" if least else ""
        raise typer.BadParameter(f"{text!r} is no time such as 30s, 500ms, 2m or 1h{shortest}{_instead(counted)}")

    return typer.Option(parser=read, metavar="TIME", help="In seconds, or as 30s, 2m, 1h.")


def count_option(timed: str) -> Any:
    """Return an option whose value is a whole number, where `timed` is the option that takes a time."""

    def read(value: str | int) -> int:
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number >= 1:
            return number
        raise typer.BadParameter(
            f"{str(value)!r} is not a whole number of at least 1, such as 500{_instead(timed, 'a time')}"
        )

    return typer.Option(parser=read, metavar="NUMBER")


def _instead(option: str, what: str = "a number") -> str:
    return f"; {option} takes {what}" if option else ""
