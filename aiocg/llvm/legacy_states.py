"""States that CompilerGym wrote: their command lines, which are for LLVM 10, as actions of the compiler at hand."""

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces.actions import ActionSpaces, split_texts
from aiocg.state import CompilerEnvState, LegacyState

if TYPE_CHECKING:
    from aiocg.env import Env
    from aiocg.runtime import Runtime

__all__ = ["DEFAULT_ENVIRONMENT", "Translation", "modern_state", "translate_command_line"]

DEFAULT_ENVIRONMENT = "llvm-ic-v0"  # what CompilerGym's leaderboard is for

_SPACE = "PassesLegacy124"
_RENAMED = {"-loop-extract-single": "loop-extract<single>"}  # flags of early releases, which the space does not have


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line of CompilerGym is for the compiler at hand.

    Attributes:
        commandline: as it was written.
        actions: what can be done today, as texts of actions.
        flags: how many flags of LLVM 10's `opt` it has; 0 for one that was written for today's `opt`.
        gone: the flags that nothing today does the job of, with how often they occur. They are left out.
        reasons: why, for each of them.
        renamed: the flags whose pass has another name or form today, with that.
        compiler: the compiler at hand.
    """

    commandline: str
    actions: tuple[str, ...] = ()
    flags: int = 0
    gone: dict[str, int] = {}
    reasons: dict[str, str] = {}
    renamed: dict[str, str] = {}
    compiler: str = ""

    @property
    def another_compiler(self) -> bool:
        """Was the command line made for another compiler than the one at hand, so that other rewards are no errors?"""
        return self.flags > 0

    def __str__(self) -> str:
        left_out = sum(self.gone.values())
        if not self.flags:
            return f"{len(self.actions)} actions for {self.compiler}"
        names = ", ".join(name if times == 1 else f"{name} ({times} times)" for name, times in self.gone.items())
        text = f"{self.flags - left_out} of {self.flags} flags of LLVM 10 have a pass in {self.compiler}"
        return f"{text}; left out: {names}" if self.gone else text


async def translate_command_line(env: "Env", commandline: str) -> Translation:
    """Find the actions of today for a command line that CompilerGym wrote, or a program that stands in for it.

    Args:
        env: an environment of the compiler at hand; it is not touched.
        commandline: such as "opt -mem2reg -barrier input.bc -o output.bc". A line for today's `opt`, with `-passes=`,
            and a list of actions with commas between them are understood, too. For an environment of GCC it is one
            for `gcc`.

    Raises:
        InvalidAction: when the line cannot be read.
    """
    spaces = env.action_spaces
    if spaces.language.line is not None:  # a compiler's own command line is an action
        return Translation(
            commandline=commandline,
            actions=(spaces.language.line.canonical(commandline),),
            compiler=env.compiler_version,
        )
    notation = spaces.language.notation
    if notation is None or not notation.recognises(commandline):
        if commandline.lstrip().startswith("-"):
            raise InvalidAction(f"{commandline!r} is no command line: it should begin with the name of the program")
        return Translation(
            commandline=commandline, actions=tuple(split_texts(commandline)), compiler=env.compiler_version
        )
    elements = notation.read(commandline)
    flags = [texts[0] for texts in elements if texts[0].startswith("-")]
    known = _texts(spaces)
    passes = {flag: known[flag] if flag in known else await _by_name(env, flag) for flag in dict.fromkeys(flags)}
    gone = Counter(flag for flag in flags if not passes[flag])
    indices = spaces.language.indices
    texts = (passes.get(one[0]) or next((text for text in one if text in indices), one[0]) for one in elements)
    return Translation(
        commandline=commandline,
        actions=tuple(text for text in texts if not text.startswith("-")),
        flags=len(flags),
        gone=dict(gone.most_common()),
        reasons={flag: _reason(spaces, flag) for flag in gone},
        renamed={flag: text for flag, text in passes.items() if text and text != flag.removeprefix("-")},
        compiler=env.compiler_version,
    )


async def modern_state(
    runtime: "Runtime", state: LegacyState, environment: str | None = None
) -> tuple[CompilerEnvState, Translation]:
    """Return a state of CompilerGym's as one that `Runtime.replay` and validation take, and how it was translated.

    The benchmark is not looked at. The reward stays what was said, though another compiler may earn another.

    Args:
        runtime: whose compiler it is to be for.
        state: as `CompilerEnvStateReader` reads it.
        environment: id of the environment that it comes from, which such files do not say; `"llvm-ic-v0"` if None. The
            reward is taken to be the environment's default reward.

    Raises:
        UnknownName: when there is no such environment.
        InvalidAction: when the command line cannot be read.
        WorkerStartError: when the compiler cannot be started.
    """
    async with await runtime.make(environment or DEFAULT_ENVIRONMENT) as env:
        translation = await translate_command_line(env, state.commandline)
        modern = CompilerEnvState(
            environment=env.spec.id,
            benchmark=state.benchmark,
            actions=translation.actions,
            reward_space=env.reward_space,
            reward=state.reward if env.reward_space is not None else None,
            walltime=state.walltime,
        )
    return modern, translation


def _texts(spaces: ActionSpaces) -> dict[str, str]:
    """Return the text for each flag that CompilerGym had last, "" for one that is gone."""
    names = spaces[_SPACE].names if _SPACE in spaces else ()
    return {name: spaces[_SPACE].text(index) for index, name in enumerate(names)}


async def _by_name(env: "Env", flag: str) -> str:
    """Return the text for another flag, if there is a pass of that name; "" if not."""
    text = _RENAMED.get(flag, flag.removeprefix("-"))
    try:
        await env.check_actions([text])
    except (UnknownName, InvalidAction):
        return ""
    return text


def _reason(spaces: ActionSpaces, flag: str) -> str:
    if _SPACE in spaces and flag in spaces[_SPACE].names:
        space = spaces[_SPACE]
        return space.descriptions[space.names.index(flag)].removeprefix("gone: ")
    return "this LLVM has no pass of that name"
