"""States written by CompilerGym: translating their command lines for LLVM 10 into actions of the compiler at hand."""

import functools
from collections import Counter
from typing import TYPE_CHECKING

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces.actions import ActionSpaces, split_texts
from aiocg.states.result import Translation
from aiocg.states.state import CompilerEnvState, LegacyState

if TYPE_CHECKING:
    from aiocg.env.base import Owner
    from aiocg.env.env import Env

DEFAULT_ENVIRONMENT = "llvm-ic-v0"  # what CompilerGym's leaderboard is for

_SPACE = "PassesLegacy124"
_RENAMED = {"-loop-extract-single": "loop-extract<single>"}  # flags of early releases, which the space does not have


async def translate_command_line(env: "Env", commandline: str) -> Translation:
    """Translate a command line of CompilerGym, or of a tool in its place, into today's actions.

    Args:
        env: an environment of the compiler at hand; it is not touched.
        commandline: such as "opt -mem2reg -barrier input.bc -o output.bc". A line for today's `opt`, with `-passes=`,
            and a list of actions with commas between them are understood, too. For an environment of GCC it is one
            for `gcc`.

    Raises:
        InvalidAction: when the line cannot be read.
    """
    spaces = env.action_spaces
    told = functools.partial(Translation, commandline=commandline, compiler=env.compiler_version)
    if spaces.language.line is not None:  # a compiler's own command line is an action
        return told(actions=(spaces.language.line.canonical(commandline),))
    notation = spaces.language.notation
    if notation is None or not notation.recognises(commandline):
        if commandline.lstrip().startswith("-"):
            raise InvalidAction(f"{commandline!r} is no command line: it should begin with the name of the program")
        return told(actions=tuple(split_texts(commandline)))
    elements = notation.read(commandline)
    flags = [texts[0] for texts in elements if texts[0].startswith("-")]
    known = _texts(spaces)
    passes = {flag: known[flag] if flag in known else await _by_name(env, flag) for flag in dict.fromkeys(flags)}
    gone = Counter(flag for flag in flags if not passes[flag])
    indices = spaces.language.indices
    texts = (passes.get(one[0]) or next((text for text in one if text in indices), one[0]) for one in elements)
    actions = tuple(text for text in texts if not text.startswith("-"))
    reasons = {flag: _reason(spaces, flag) for flag in gone}
    renamed = {flag: text for flag, text in passes.items() if text and text != flag.removeprefix("-")}
    missing = dict(gone.most_common())
    return told(actions=actions, flags=len(flags), gone=missing, reasons=reasons, renamed=renamed)


async def modern_state(
    runtime: "Owner", state: LegacyState, environment: str | None = None
) -> tuple[CompilerEnvState, Translation]:
    """Translate a state of CompilerGym for `Runtime.replay` and validation; also return the translation.

    The benchmark is not accessed. The reward is kept, although another compiler may earn another.

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
    """Return the text for each flag of CompilerGym's last release, "" for removed ones."""
    names = spaces[_SPACE].names if _SPACE in spaces else ()
    return {name: spaces[_SPACE].text(index) for index, name in enumerate(names)}


async def _by_name(env: "Env", flag: str) -> str:
    """Return the text for another flag if a pass has its name; "" if not."""
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
