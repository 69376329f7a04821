"""Costs of states, and of the compiler's levels."""

from collections.abc import Sequence
from typing import Any

from aiocg.env.env import Env
from aiocg.spaces.rewards import CostReward
from aiocg.web.limits import Refusal

__all__ = ["TIME", "costs_of", "levels_of", "numbers"]

LEVELS = ("O3", "Oz", "Os")
TIME = "runtime"  # of a program or kernel, in seconds, where there is nothing else to compare


def costs_of(env: Env) -> tuple[str, ...]:
    """Return the costs of nodes: that of the environment's reward, else of the first reward with one, else the time.

    Raises:
        Refusal: when there is none.
    """
    own = [env.reward_spaces[env.reward_space]] if env.reward_space is not None else []
    for reward in [*own, *sorted(env.reward_spaces.values(), key=lambda one: one.platform_dependent)]:
        if isinstance(reward, CostReward):
            return (reward.cost,)
    if TIME in env.observation_spaces:
        return (TIME,)
    raise Refusal(400, f"{env.spec.id} has no reward that is the decrease of a cost: take another, such as llvm-ic-v0")


def levels_of(env: Env, cost: str) -> dict[str, str]:
    """Return the observations of what a cost is after the compiler's levels, by the levels' options."""
    names = {f"-{level}": (cost.removesuffix("Bytes") + level, f"{cost}_{level}") for level in LEVELS}
    known = {option: [name for name in tried if name in env.observation_spaces] for option, tried in names.items()}
    return {option: found[0] for option, found in known.items() if found}


def numbers(names: Sequence[str], values: Sequence[Any]) -> dict[str, float]:
    """Return values by their names."""
    return {name: float(value) for name, value in zip(names, values, strict=False)}
