"""Hill climbing over whole command lines that learns which options do harm, and so tries many at once."""

from collections import deque
from typing import Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search.command_lines import search_command_lines
from aiocg.search.driver import Options
from aiocg.search.result import SearchResult
from aiocg.search.tuner import FAILED
from aiocg.search.variation import Choices, Variation
from aiocg.transport.options import UNSET

__all__ = ["screening"]

PRIOR = 0.1  # how likely an option does harm of which nothing is known
UNHARMED = 0.5  # how likely none of the options of one change does harm
FEW = 1 / 3  # how often a change is as in hill climbing, of few options and whatever is known of them
DRIFT = 100  # options that a line may give for nothing
LEAST = 0.33  # how often a number is the least there is, which is often what switches something off


async def screening(env: Env, *, seed: int = 0, **options: Unpack[Options]) -> SearchResult:
    """Change as many options of the best command line at once as probably do no harm; keep what is not worse.

    Most options do nothing for a program, so several are tested by one evaluation, as in the group tests of Dorfman
    (The detection of defective members of large populations, 1943): it tells most when it comes out well every other
    time. What does well clears all options that were changed, what does not is blamed on them, most on those that have
    done harm before. Options that are probably harmless are drawn first. One change in three is as in `hill_climb`: an
    option that did harm once may do good in another place.

    A few lines of options that are known to help are evaluated first. It begins with no option at all, and with each
    optimisation level alone, and then tries each option that is known to help for itself. Of lines that are worth the
    same the latest is kept, so that it moves along plateaus, but a long one only if it has no more options than the one
    before: options that do nothing for the size can make compiles slow. `aiocg.validation.minimize.minimize_line` drops
    them. A command line that does not compile is worth nothing, and counts as one that was evaluated.

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
    return await search_command_lines("screening", env, lambda variation: Screener(variation, seed), **options)


class Screener:
    """Proposes changes of the best it knows, and estimates for each option how likely changing it does harm."""

    def __init__(self, variation: Variation, seed: int) -> None:
        self._variation = variation
        self._rng = np.random.default_rng(seed)
        self._starts = deque(variation.starts)
        self._known = deque(variation.known)
        self._merged: deque[Choices] = deque()
        self._parents: deque[tuple[Choices, float]] = deque()  # of what was asked for and not told yet
        self._best = variation.starts[0]
        self._reward = FAILED
        self._changed = np.zeros(len(self._best))  # how often each option was, and how much of the harm it is blamed
        self._blamed = np.zeros(len(self._best))

    def ask(self) -> Choices:
        """Return a start, two changes that were good each on its own, or another change of the best."""
        self._parents.append((self._best, self._reward))
        if self._starts:
            return self._starts.popleft()
        if self._merged:
            return self._merged.popleft()
        if self._known:
            index, choice = self._known.popleft()
            return (*self._best[:index], UNSET if self._best[index] == choice else choice, *self._best[index + 1 :])
        return self._variation.change(self._best, self._rng) if self._rng.random() < FEW else self._change()

    def tell(self, choices: Choices, reward: float) -> None:
        """Learn from how it compares with its parent, and go on from what is not worse than the best."""
        parent, before = self._parents.popleft()
        touched = [index for index, choice in enumerate(choices) if choice != parent[index]]
        if before != FAILED:
            self._learn(touched, reward < before)
            if reward > before and self._best != parent:  # the best has become another one meanwhile
                merged = np.array(self._best)
                merged[touched] = np.array(choices)[touched]
                self._merged.append(tuple(merged.tolist()))
        if reward == FAILED or reward < self._reward:
            return
        if reward > self._reward or _given(choices) <= max(_given(self._best), DRIFT):
            self._best, self._reward = choices, reward

    def _harm(self) -> np.ndarray:
        """Return how likely changing each option does harm, as float64, shape (options,)."""
        return (self._blamed + PRIOR) / (self._changed + 1)

    def _learn(self, touched: list[int], harmed: bool) -> None:
        harm = self._harm()[touched]
        self._changed[touched] += 1
        if harmed:
            self._blamed[touched] += harm / harm.sum()

    def _change(self) -> Choices:
        """Change as many options of the best as leave an even chance that none does harm."""
        harm = self._harm()
        weights = self._variation.shares * (1 - harm) ** 2
        order = self._rng.choice(len(harm), size=len(harm), replace=False, p=weights / weights.sum())
        count = 1 + np.count_nonzero(np.cumprod(1 - harm[order]) >= UNHARMED)
        changed = list(self._best)
        for index in order[:count]:
            changed[index] = self._variation.redraw(index, changed[index], self._rng, least=LEAST)
        return tuple(changed)


def _given(choices: Choices) -> int:
    """Return how many options are given."""
    return sum(choice != UNSET for choice in choices)
