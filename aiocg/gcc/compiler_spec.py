"""A GCC and its options, and pulling its container image."""

import contextlib
import math
import operator
import os
import subprocess
import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import msgspec

from aiocg.datasets.process import check_cancelled
from aiocg.env.step import StepResult
from aiocg.errors import AiocgError, EnvironmentNotSupported, InvalidAction
from aiocg.spaces.actions import ActionLanguage, CommandLine, OptionActions
from aiocg.transport.options import UNSET, Option

if TYPE_CHECKING:
    from aiocg.env.env import Env


class InvalidSpec(AiocgError):
    """Text that does not describe a compiler."""


class DroppedOption(msgspec.Struct, array_like=True, frozen=True):
    """An option from the compiler's help, or a value of one, that environments do not have, and why."""

    name: str
    reason: str


class GccSpec(msgspec.Struct, frozen=True):
    """A compiler, and the options that environments choose.

    Attributes:
        gcc: as given: `gcc`, a path, or `docker:gcc:13`.
        version: the first line of `gcc --version`.
        options: in the order of the choices, and of the words on a command line.
        dropped: other options in the compiler's help.
    """

    gcc: str
    version: str
    options: tuple[Option, ...]
    dropped: tuple[DroppedOption, ...] = ()

    @property
    def size(self) -> int:
        """The exact number of command lines: each option is unset or one of its choices."""
        return math.prod(len(option) + 1 for option in self.options)

    def command_line(self, choices: Sequence[int]) -> str:
        """Return the command line of a choice for each option, -1 for one that is not given: `gcc -O2 -fno-gcse`."""
        return CommandLine(self.options).write(choices)

    def choices(self, command_line: str) -> list[int]:
        """Parse a command line into a choice for each option, -1 for one that is not given.

        Raises:
            InvalidAction: for a word that is no option.
        """
        return CommandLine(self.options).read(command_line)

    def to_json(self) -> str:
        """Return all of it as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote.

        Raises:
            InvalidSpec: when it is something else.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidSpec(f"this does not describe a compiler: {error}") from error

    def __repr__(self) -> str:
        power = math.floor(math.log10(self.size))
        return f"<GccSpec {self.gcc}: {self.version}, {len(self.options)} options, 10^{power} command lines>"


class _Answer(msgspec.Struct):
    """A worker's description of its compiler."""

    dropped: dict[str, str]


async def spec(env: "Env") -> GccSpec:
    """Return the compiler of a GCC environment and its options; it need not have been reset.

    Raises:
        TypeError: when it is an environment of another compiler.
    """
    space = _option_space(env)
    if space.language not in _known:
        gcc = env.spec.settings.get("gcc_bin", "")
        _known[space.language] = GccSpec(gcc, env.compiler_version, space.options, await _dropped(env))
    return _known[space.language]


_known: "weakref.WeakKeyDictionary[ActionLanguage, GccSpec]" = weakref.WeakKeyDictionary()


async def _dropped(env: "Env") -> tuple[DroppedOption, ...]:
    async with await env.sibling() as other:  # as a session answers, and this one may have none
        other.observation_space = other.reward_space = None
        await other.reset(benchmark=env.spec.benchmark)
        answer = msgspec.json.decode(await other.send_parameter("gcc_spec", ""), type=_Answer)
    return tuple([DroppedOption(name, reason) for name, reason in answer.dropped.items()])


def _option_space(env: "Env") -> OptionActions:
    """Return the action space of vectors of choices.

    Raises:
        TypeError: when there is none.
    """
    space = env.action_spaces.get("choices")
    if not isinstance(space, OptionActions):
        raise TypeError(f"{env.spec.id} is no environment of GCC: it has no options to choose")
    return space


PATIENCE = 0.2  # seconds between two looks whether anybody still waits

DOCKER = "docker:"  # begins `gcc_bin` where the compiler is in an image


def pull_image(image: str, *, if_missing: bool = False) -> str:
    """Pull a container image, with progress on standard error, and return its id.

    Args:
        image: its name, such as `gcc:13`.
        if_missing: do nothing when the engine has it.

    Raises:
        EnvironmentNotSupported: when there is no engine or no such image.
    """
    command = [sys.executable, "-P", "-m", "aiocg.workers.gcc._pull", "--parent", str(os.getpid())]
    command += [*(["--if-missing"] if if_missing else []), image]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = _output(process)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise EnvironmentNotSupported(said)
    return said


def _output(process: "subprocess.Popen[str]") -> str:
    """Return a process's output; kill it if the caller gives up."""
    while True:
        check_cancelled()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=PATIENCE)[0].strip()


def prepare(settings: Mapping[str, str]) -> None:
    """Pull the image named in the settings of an environment, if the engine does not have it.

    Raises:
        EnvironmentNotSupported: when there is no engine or no such image.
    """
    compiler = settings.get("gcc_bin", "")
    if compiler.startswith(DOCKER):
        pull_image(compiler.removeprefix(DOCKER), if_missing=True)


async def choices(env: "Env") -> list[int]:
    """Return the choice of each option in the present state, -1 for one that is not given."""
    _option_space(env)
    return [int(choice) for choice in await env.observe("choices")]


async def set_choices(env: "Env", values: Iterable[int]) -> StepResult:
    """Choose all options by one action in one round trip; return the result of the step.

    Args:
        env: the environment; whatever its action space is.
        values: a choice for each option, -1 for one that is not given.

    Raises:
        InvalidAction: when these are no such choices; nothing was done.
        ResetNeeded: when there is no episode.
    """
    return await env.step_texts([_text(env, values)])


def _text(env: "Env", values: Iterable[int]) -> str:
    space = _option_space(env)
    try:
        given = [operator.index(value) for value in values]
    except TypeError:
        raise InvalidAction(f"choices are a list of ints, not {values!r:.80}") from None
    if len(given) != len(space.options):
        raise InvalidAction(f"there are {len(space.options)} options, and {len(given)} choices were given")
    for option, choice in zip(space.options, given, strict=True):
        if not UNSET <= choice < len(option):
            raise InvalidAction(f"the choice for {option.name} is not in the range -1 to {len(option) - 1}: {choice}")
    return space.line.write(given)
