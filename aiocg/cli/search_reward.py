"""The reward of a search for programs without machine code here."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from aiocg.cli.output import CommandError
from aiocg.cli.program import observation_of

if TYPE_CHECKING:
    from aiocg import Env

LEAST, LEAST_OF_LEVEL = 10.0, 3.0  # seconds that are waited in any case, for the program's own cost and for a level's
COUNT = "IrInstructionCountOz"  # the reward that needs no machine code
_LEVELS = {"OzMinsize": "clang -Oz", "OsOptsize": "clang -Os", "Oz": "-Oz", "O3": "-O3"}  # by ends of baselines' names


async def settle_reward(env: "Env", output: Path | None, seconds: float | None, show: Callable[[str], None]) -> str:
    """Reset an environment, and take a reward without a baseline if that of its own cannot be had.

    Args:
        env: with the reward that is wanted.
        output: the file that is to be written at the end, if any.
        seconds: of the search, after which a cost is given up; None for as long as any request may take.
        show: called with what is being done.

    Returns:
        What to tell of it, "" if nothing.

    Raises:
        CommandError: when the program has no such cost, or the file cannot be written; it says what can be done.
        AiocgError, DatasetError: as `Env.reset`.
    """
    from aiocg.errors import DeadlineExceeded, ObservationFailed
    from aiocg.spaces.rewards import CostReward

    reward = env.reward_spaces[env.reward_space or ""]
    if not isinstance(reward, CostReward) or reward.optimised is None:
        return ""
    needed = [reward.cost]
    if output is not None and env.spec.worker == "llvm":
        needed.append(observation_of(env, output) or "ObjectFile")
    env.reward_space = None
    await env.reset()
    timeout = None if seconds is None else max(LEAST, seconds)
    patience = None if seconds is None else max(LEAST_OF_LEVEL, seconds)
    show(f"computing {' and '.join(needed)} of {env.benchmark.uri} as it is")
    try:
        await env.observe(*needed, timeout=timeout)
    except (ObservationFailed, DeadlineExceeded) as error:
        hint = f"; --reward {COUNT}, with no -o or a .bc or .ll, needs none" if COUNT in env.reward_spaces else ""
        problem = _short(error) if isinstance(error, DeadlineExceeded) else f"cannot be had: {_short(error)}"
        raise CommandError(f"the machine code of {env.benchmark.uri} {problem}{hint}") from None
    level = next((words for end, words in _LEVELS.items() if reward.optimised.endswith(end)), reward.optimised)
    show(f"compiling {env.benchmark.uri} with {level}, to compare with")
    try:
        await env.observe(*reward.baseline_spaces, timeout=patience)
    except (ObservationFailed, DeadlineExceeded) as error:
        env.reward_space = reward.cost
        await env.reset()
        slow = isinstance(error, DeadlineExceeded)
        problem = f"{level} {_short(error)}" if slow else f"{level} cannot compile this program: {_short(error)}"
        return f"{problem}; the search goes on against the program as it is"
    env.reward_space = reward.name
    return ""


def _short(error: Exception) -> str:
    """Return what LLVM says is wrong, without the line that it shows, or how long it was waited for."""
    from aiocg.errors import DeadlineExceeded

    if isinstance(error, DeadlineExceeded):
        return f"takes longer than {error.timeout:g} s here, and a longer --budget waits longer"
    return short(error)


def short(error: Exception) -> str:
    """Return what LLVM says is wrong, without the line that it shows."""
    return re.sub(r"^(\w+: )?(code generation: )?", "", str(error).partition("\n")[0])
