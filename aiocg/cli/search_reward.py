"""The reward of a search where the program, or what a level makes of it, has no machine code here."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from aiocg.cli.output import CommandError
from aiocg.cli.program import observation_of

if TYPE_CHECKING:
    from aiocg import Env

COUNT = "IrInstructionCountOz"  # the reward that needs no machine code
_LEVELS = {"OzMinsize": "clang -Oz", "OsOptsize": "clang -Os", "Oz": "-Oz", "O3": "-O3"}  # by ends of baselines' names


async def settle_reward(env: "Env", output: Path | None) -> str:
    """Reset an environment, and take a reward without a baseline if that of its own cannot be had.

    Args:
        env: with the reward that is wanted.
        output: the file that is to be written at the end, if any.

    Returns:
        What to tell of it, "" if nothing.

    Raises:
        CommandError: when the program has no such cost, or the file cannot be written; it says what can be done.
        AiocgError, DatasetError: as `Env.reset`.
    """
    from aiocg.errors import ObservationFailed
    from aiocg.spaces.rewards import CostReward

    reward = env.reward_spaces[env.reward_space or ""]
    if not isinstance(reward, CostReward) or reward.optimised is None:
        return ""
    needed = [reward.cost]
    if output is not None and env.spec.worker == "llvm":
        needed.append(observation_of(env, output) or "ObjectFile")
    env.reward_space = None
    await env.reset()
    try:
        await env.observe(*needed)
    except ObservationFailed as error:
        hint = f"; --reward {COUNT}, with no -o or a .bc or .ll, needs none" if COUNT in env.reward_spaces else ""
        raise CommandError(f"the machine code of {env.benchmark.uri} cannot be had: {short(error)}{hint}") from None
    try:
        await env.observe(*reward.baseline_spaces)
    except ObservationFailed as error:
        level = next((words for end, words in _LEVELS.items() if reward.optimised.endswith(end)), reward.optimised)
        env.reward_space = reward.cost
        return f"{level} cannot compile this program: {short(error)}; the search goes on against the program as it is"
    env.reward_space = reward.name
    return ""


def short(error: Exception) -> str:
    """Return what LLVM says is wrong, without the line that it shows."""
    return re.sub(r"^(\w+: )?(code generation: )?", "", str(error).partition("\n")[0])
