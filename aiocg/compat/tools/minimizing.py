"""Minimising the actions of an environment while a hypothesis holds."""

import logging
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from aiocg.compat.tools._text import truncate
from aiocg.validation.minimize import Strategy, bisect_prefix, bisect_suffix, one_by_one, random_removal

Hypothesis = Callable[[Any], bool]
"""Returns whether the property in question holds for an environment in its current state."""

logger = logging.getLogger("compiler_gym.util.minimize_trajectory")


class MinimizationError(OSError):
    """The actions cannot be replayed, or the hypothesis does not hold."""


def environment_validation_fails(env: Any) -> bool:
    """Return whether validation finds errors in the current state."""
    result = env.validate()
    logger.debug(truncate(str(result), max_line_len=120))
    return not result.okay()


def _shrink(strategy: Strategy[Any], env: Any, hypothesis: Hypothesis, flakiness: int) -> Iterator[Any]:
    """Test a strategy's candidates; yield the environment after each success, and at the end."""

    def holds(actions: Iterable[Any]) -> bool:
        for _ in range(flakiness):
            env.reset(benchmark=env.benchmark)
            _, _, done, info = env.multistep(list(actions))
            if done:
                raise MinimizationError(f"Failed to replay actions: {info.get('error_details', '')}")
            if hypothesis(env):
                return True
        return False

    if not env.actions:
        return
    actions, found = tuple(env.actions), None
    search = strategy(actions)
    if not holds(actions):
        raise MinimizationError("the hypothesis does not hold on the initial state")
    try:
        while True:
            candidates = search.send(found)
            found = next((index for index, candidate in enumerate(candidates) if holds(candidate)), None)
            if found is not None:
                logger.info("Hypothesis holds with %d of %d actions", len(candidates[found]), len(actions))
                yield env
    except StopIteration as stop:
        if not holds(stop.value):
            raise MinimizationError("the hypothesis does not hold after minimization") from None
    yield env


def bisect_trajectory(
    env: Any, hypothesis: Hypothesis = environment_validation_fails, reverse: bool = False, flakiness: int = 1
) -> Iterator[Any]:
    """Remove actions from the end, or the beginning, by bisection; yield the environment after each success."""
    return _shrink(bisect_suffix if reverse else bisect_prefix, env, hypothesis, flakiness)


def random_minimization(
    env: Any,
    hypothesis: Hypothesis = environment_validation_fails,
    num_steps_ratio_multiplier: float = 5,
    init_discard_ratio: float = 0.75,
    discard_ratio_decay: float = 0.75,
    min_trajectory_len: int = 5,
    flakiness: int = 1,
) -> Iterator[Any]:
    """Remove random actions, fewer after each failure; yield the environment after each success."""
    strategy: Strategy[Any] = random_removal(
        random.randrange(2**32),
        rounds=num_steps_ratio_multiplier,
        discard=init_discard_ratio,
        decay=discard_ratio_decay,
        shortest=min_trajectory_len,
    )
    return _shrink(strategy, env, hypothesis, flakiness)


def minimize_trajectory_iteratively(
    env: Any, hypothesis: Hypothesis = environment_validation_fails, flakiness: int = 1
) -> Iterator[Any]:
    """Remove single actions until none can be removed; yield the environment after each success."""
    return _shrink(one_by_one, env, hypothesis, flakiness)
