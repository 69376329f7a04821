"""What a GCC environment's compiler is, and which options it has."""

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import msgspec

from aiocg.errors import AiocgError
from aiocg.spaces.actions import ActionLanguage, CommandLine, OptionActions
from aiocg.transport.options import Option

if TYPE_CHECKING:
    from aiocg.env import Env

__all__ = ["DroppedOption", "GccSpec", "InvalidSpec", "spec"]


class InvalidSpec(AiocgError):
    """Text that does not describe a compiler."""


class DroppedOption(msgspec.Struct, array_like=True, frozen=True):
    """An option that the compiler's help names, or one of its values, which environments do not have, and why."""

    name: str
    reason: str


class GccSpec(msgspec.Struct, frozen=True):
    """A compiler, and the options that environments choose.

    Attributes:
        gcc: what the compiler was given as: `gcc`, a path, `docker:gcc:13`.
        version: the first line of `gcc --version`.
        options: in the order of the choices, and of the words on a command line.
        dropped: what the compiler's help names beside those.
    """

    gcc: str
    version: str
    options: tuple[Option, ...]
    dropped: tuple[DroppedOption, ...] = ()

    @property
    def size(self) -> int:
        """The number of command lines, exactly: each option is not given, or given as one of its choices."""
        return math.prod(len(option) + 1 for option in self.options)

    def command_line(self, choices: Sequence[int]) -> str:
        """Return the command line of a choice for each option, -1 for one that is not given: `gcc -O2 -fno-gcse`."""
        return CommandLine(self.options).write(choices)

    def choices(self, command_line: str) -> list[int]:
        """Return the choice for each option that a command line makes, -1 for one that is not given.

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
    """What a worker says of its compiler, beside what is known already."""

    dropped: dict[str, str]


async def spec(env: "Env") -> GccSpec:
    """Return the compiler of a GCC environment and its options; it need not have been reset.

    Raises:
        TypeError: when it is an environment of another compiler.
    """
    space = option_space(env)
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


def option_space(env: "Env") -> OptionActions:
    """Return the action space of vectors of choices.

    Raises:
        TypeError: when there is none.
    """
    space = env.action_spaces.get("choices")
    if not isinstance(space, OptionActions):
        raise TypeError(f"{env.spec.id} is no environment of GCC: it has no options to choose")
    return space
