"""The options of a GCC environment as a list with one choice for each."""

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aiocg.errors import InvalidAction
from aiocg.gcc.compiler_spec import option_space
from aiocg.step import StepResult
from aiocg.transport.options import UNSET

if TYPE_CHECKING:
    from aiocg.env import Env

__all__ = ["choices", "set_choices"]


async def choices(env: "Env") -> list[int]:
    """Return the choice of each option in the present state, -1 for one that is not given."""
    option_space(env)
    return [int(choice) for choice in await env.observe("choices")]


async def set_choices(env: "Env", values: Iterable[int]) -> StepResult:
    """Choose all options anew, by one action and in one round trip; return what `step` would.

    Args:
        env: the environment; whatever its action space is.
        values: a choice for each option, -1 for one that is not given.

    Raises:
        InvalidAction: when these are no such choices; nothing was done.
        ResetNeeded: when there is no episode.
    """
    return await env.step_texts([_text(env, values)])


def _text(env: "Env", values: Iterable[int]) -> str:
    space = option_space(env)
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
