"""Shrinking the actions of an environment to the few that something depends on."""

import logging
import random
from collections.abc import Callable, Iterator
from math import ceil, log2
from typing import Any

from aiocg.compat.compiler_gym.util.truncate import truncate

__all__ = [
    "Hypothesis",
    "MinimizationError",
    "bisect_trajectory",
    "environment_validation_fails",
    "minimize_trajectory_iteratively",
    "random_minimization",
]

Hypothesis = Callable[[Any], bool]
"""Tells whether what is looked for is true of an environment in its present state."""

logger = logging.getLogger("compiler_gym.util.minimize_trajectory")


class MinimizationError(OSError):
    """The actions cannot be applied again, or do not show what they were to show."""


def environment_validation_fails(env: Any) -> bool:
    """Tell whether validation finds something wrong with the present state."""
    result = env.validate()
    logger.debug(truncate(str(result), max_line_len=120))
    return not result.okay()


class _Trial:
    """Applies lists of actions to the program of an environment, and asks the hypothesis."""

    def __init__(self, env: Any, hypothesis: Hypothesis, flakiness: int) -> None:
        self.env, self.hypothesis, self.flakiness = env, hypothesis, flakiness

    def holds(self, actions: list[Any]) -> bool:
        for _ in range(self.flakiness):
            self.env.reset(benchmark=self.env.benchmark)
            _, _, done, info = self.env.multistep(list(actions))
            if done:
                raise MinimizationError(f"Failed to replay actions: {info.get('error_details', '')}")
            if self.hypothesis(self.env):
                return True
        return False

    def check(self, actions: list[Any], when: str) -> None:
        if not self.holds(actions):
            raise MinimizationError(f"the hypothesis does not hold {when}")


def bisect_trajectory(
    env: Any,
    hypothesis: Hypothesis = environment_validation_fails,
    reverse: bool = False,
    flakiness: int = 1,
) -> Iterator[Any]:
    """Remove the end of the actions, or the beginning, by bisection.

    Args:
        env: whose actions are to be fewer.
        hypothesis: what must remain true.
        reverse: remove from the beginning.
        flakiness: how often the hypothesis is asked before it counts as wrong.

    Yields:
        The environment, whenever its actions have become fewer, and at the end.

    Raises:
        MinimizationError: when the actions cannot be applied again, or the hypothesis is not true of all of them.
    """
    trial = _Trial(env, hypothesis, flakiness)
    actions = list(env.actions)
    if not actions:
        return
    trial.check(actions, "on the initial state")
    low, high = 0, len(actions)  # so many must be kept, and are known to be enough
    while low < high:
        kept = (low + high) // 2
        part = actions[len(actions) - kept :] if reverse else actions[:kept]
        if trial.holds(part):
            logger.info("Hypothesis holds with %d of %d actions", kept, len(actions))
            high = kept
            yield env
        else:
            logger.info("Hypothesis does not hold with %d of %d actions", kept, len(actions))
            low = kept + 1
    trial.check(actions[len(actions) - high :] if reverse else actions[:high], "after bisection")
    yield env


def random_minimization(
    env: Any,
    hypothesis: Hypothesis = environment_validation_fails,
    num_steps_ratio_multiplier: float = 5,
    init_discard_ratio: float = 0.75,
    discard_ratio_decay: float = 0.75,
    min_trajectory_len: int = 5,
    flakiness: int = 1,
) -> Iterator[Any]:
    """Remove random actions, fewer at a time when that fails.

    Args:
        env: whose actions are to be fewer.
        hypothesis: what must remain true.
        num_steps_ratio_multiplier: how many rounds there are, times the logarithm of the number of actions.
        init_discard_ratio: the part of the actions that is removed at first.
        discard_ratio_decay: what that is multiplied with when the hypothesis does not hold.
        min_trajectory_len: so few actions are left as they are.
        flakiness: how often the hypothesis is asked before it counts as wrong.

    Yields:
        The environment, whenever its actions have become fewer, and at the end.

    Raises:
        MinimizationError: as `bisect_trajectory`.
    """
    trial = _Trial(env, hypothesis, flakiness)
    actions = list(env.actions)
    if not actions:
        return
    trial.check(actions, "on the initial state")
    ratio = init_discard_ratio
    for _ in range(int(log2(len(actions)) * num_steps_ratio_multiplier)):
        if len(actions) < min_trajectory_len:
            break
        removed = min(ceil(len(actions) * ratio), len(actions))
        kept = sorted(random.sample(range(len(actions)), len(actions) - removed))
        candidate = [actions[place] for place in kept]
        if trial.holds(candidate):
            logger.info("Hypothesis holds with %d of %d actions removed", removed, len(actions))
            actions, ratio = candidate, init_discard_ratio
            yield env
        elif removed == 1:
            break
        else:
            logger.info("Hypothesis does not hold with %d of %d actions removed", removed, len(actions))
            ratio *= discard_ratio_decay
    trial.check(actions, "after minimization")
    yield env


def minimize_trajectory_iteratively(
    env: Any,
    hypothesis: Hypothesis = environment_validation_fails,
    flakiness: int = 1,
) -> Iterator[Any]:
    """Remove one action after the other, until none can be removed.

    Args:
        env: whose actions are to be fewer.
        hypothesis: what must remain true.
        flakiness: how often the hypothesis is asked before it counts as wrong.

    Yields:
        The environment, whenever it has an action less, and at the end.

    Raises:
        MinimizationError: as `bisect_trajectory`.
    """
    trial = _Trial(env, hypothesis, flakiness)
    actions = list(env.actions)
    if not actions:
        return
    trial.check(actions, "on the initial state")
    pruned = True
    while pruned and len(actions) > 1:
        pruned, place = False, 0
        while place < len(actions):
            candidate = actions[:place] + actions[place + 1 :]
            if trial.holds(candidate):
                logger.info("Hypothesis holds without action %d, %d remain", place, len(candidate))
                actions, pruned = candidate, True
                yield env
            else:
                place += 1
    trial.check(actions, "after minimization")
    yield env
