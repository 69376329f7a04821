"""What a search has found, in the figures that papers report."""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

from aiocg.env.env import Env
from aiocg.errors import ObservationFailed, ServiceError
from aiocg.search.lanes import go_to
from aiocg.search.metrics import Comparison
from aiocg.spaces.rewards import CostReward, baselines_of

__all__ = ["compare"]

_INSTRUCTIONS, _BYTES = "IrInstructionCount", "ObjectImageSizeOzMinsize"


async def compare(env: Env, actions: Sequence[str] | None = None) -> Comparison | None:
    """Compare the program at hand with what it was, and with what the baselines make of it.

    The cost is that of the environment's reward space: a search for `ObjectImageSizeOz` is compared in bytes. Numbers
    of instructions have the bytes beside them: wide vectors are few instructions and many bytes.

    Args:
        env: an environment that was reset.
        actions: texts of actions, as in `SearchResult.actions`, to go to first; None to compare the present state.

    Returns:
        The costs, or None when the reward space is none that lowers a cost with baselines.

    Raises:
        ServiceError: when an action fails, or a cost cannot be observed.
    """
    reward = env.reward_spaces.get(env.reward_space or "")
    if not isinstance(reward, CostReward) or "O0" not in _baselines(env, reward):
        return None
    if actions is not None:
        await go_to(env, actions)
    comparison = await _compared(env, reward)
    weighed = env.reward_spaces.get(_BYTES)
    if reward.cost == _INSTRUCTIONS and isinstance(weighed, CostReward):
        with contextlib.suppress(ServiceError):  # LLVM may have no code generator for the program
            return dataclasses.replace(comparison, beside=await _compared(env, weighed))
    return comparison


async def _compared(env: Env, reward: CostReward) -> Comparison:
    names = _baselines(env, reward)
    costs = await _observable(env, reward.cost, *names.values())
    known = {level: costs[name] for level, name in names.items() if name in costs}
    return Comparison(reward.cost, known.pop("O0"), costs[reward.cost], known)


async def _observable(env: Env, first: str, *others: str) -> dict[str, Any]:
    """Return observations by name, without others that fail: what a level makes of a program may have no machine code.

    Raises:
        ServiceError: when the first cannot be observed, or the compiler dies.
    """
    with contextlib.suppress(ObservationFailed):
        return dict(zip((first, *others), await env.observe(first, *others), strict=True))
    found = {first: await env.observe(first)}
    for name in others:
        with contextlib.suppress(ObservationFailed):
            found[name] = await env.observe(name)
    return found


def _baselines(env: Env, reward: CostReward) -> dict[str, str]:
    """Return the observations that give the cost of a reward at levels of optimisation, by level."""
    levels = {level: f"{reward.cost}_{level}" for level in ("O0", "O2", "O3", "Os", "Oz")}
    known = {level: name for level, name in levels.items() if name in env.observation_spaces}
    return known or baselines_of(reward)
