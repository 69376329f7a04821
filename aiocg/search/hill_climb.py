"""Hill climbing over whole command lines: change the best a little, and keep what is not worse."""

from typing import Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search.command_lines import search_command_lines
from aiocg.search.driver import Options
from aiocg.search.result import SearchResult
from aiocg.search.tuner import FAILED
from aiocg.search.variation import Choices, Variation

__all__ = ["hill_climb"]


async def hill_climb(env: Env, *, seed: int = 0, **options: Unpack[Options]) -> SearchResult:
    """Change the best command line so far in a few options, again and again, and go on from what is not worse.

    A few lines of options that are known to help are evaluated first. The climb begins with no option at all, and with
    each optimisation level alone. A command line that does not compile is worth nothing, and counts as one that was
    evaluated.

    Args:
        env: of a compiler with options, such as `gcc-v0`, with a reward space. If its action space is none of whole
            command lines, the compiler's first such space is searched.
        seed: of all random choices.
        **options: see `aiocg.search.Options`; the budget is 1,000 evaluations if there is none, and of the lanes at
            most 16 have something to do.

    Raises:
        ValueError: when the environment has no reward space, its compiler no options, or `resume` is of another search.
        ServiceError: when the workers cannot do their part.
    """
    return await search_command_lines("hill_climb", env, lambda variation: _Climber(variation, seed), **options)


class _Climber:
    """Proposes changes of the best it knows; of equal ones the latest, so that it moves along a plateau."""

    def __init__(self, variation: Variation, seed: int) -> None:
        self._variation = variation
        self._rng = np.random.default_rng(seed)
        self._starts = list(reversed(variation.starts))
        self._best = variation.starts[0]
        self._reward = FAILED

    def ask(self) -> Choices:
        """Return a start or, when there are no more, a change of the best."""
        return self._starts.pop() if self._starts else self._variation.change(self._best, self._rng)

    def tell(self, choices: Choices, reward: float) -> None:
        """Go on from what is not worse."""
        if reward >= self._reward and reward != FAILED:
            self._best, self._reward = choices, reward
