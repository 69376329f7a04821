"""Shared parts of searches over whole command lines."""

from collections import deque
from collections.abc import Callable
from typing import Protocol, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search.budget import Budget
from aiocg.search.driver import Options, Pace, tune
from aiocg.search.result import SearchResult
from aiocg.search.tuner import FAILED, Outcome, Proposal
from aiocg.search.variation import Choices, Variation
from aiocg.spaces.actions.command_line import ChoiceLine
from aiocg.spaces.actions.options import OptionActions

__all__ = ["WINDOW", "Proposer", "hill_climb", "option_space", "search_command_lines"]

DEFAULT_BUDGET = Budget(evaluations=1000)
WINDOW = 16  # command lines that may be under way; more lanes than that have nothing to do


class Proposer(Protocol):
    """Decides what to try, and learns what it was worth: all that distinguishes one such search from another."""

    def ask(self) -> Choices:
        """Return the next choices to try; it may be called `WINDOW` times before the first `tell`."""

    def tell(self, choices: Choices, reward: float) -> None:
        """Take note of what choices are worth, in the order in which they were asked for; `FAILED` if nothing."""


def option_space(env: Env) -> OptionActions:
    """Return the action space of an environment in which an action is a whole command line.

    That is its present one or, where this is another, the compiler's first.

    Raises:
        ValueError: when the compiler has none.
    """
    for space in (env.action_space, *(env.action_spaces[name] for name in env.action_spaces)):
        if isinstance(space, OptionActions):
            return space
    raise ValueError(
        f"{env.spec.id} has no options to choose, as gcc-v0 has: it is searched by `greedy`, `beam` or `random`"
    )


async def search_command_lines(
    name: str,
    env: Env,
    proposer: Callable[[Variation], Proposer],
    *,
    informed: bool = True,
    **options: Unpack[Options],
) -> SearchResult:
    """Try the command lines that a proposer proposes, one at a time, since some take a hundred times as long as others.

    Args:
        name: of the search.
        env: with a reward space, of a compiler with options.
        proposer: makes the proposer from what there is to choose.
        informed: whether `Variation.heads` come first. The proposer is not told of them: searches that go on from there
            find more at first, and less in the end.
        **options: see `aiocg.search.Options`; the budget is 1,000 evaluations if there is none.

    Raises:
        ValueError: when there is nothing to choose, and as `aiocg.search.tune` does.
        ServiceError: when the workers cannot do their part.
    """
    space = option_space(env)
    return await tune(
        env,
        lambda _: _Lines(proposer, Variation(space.options), space.line, informed=informed),
        name=name,
        pace=Pace(batch=1, ahead=WINDOW),
        space=space,
        default=DEFAULT_BUDGET,
        **options,
    )


class _Lines:
    """A tuner that writes choices as command lines: the heads, and then what a proposer proposes."""

    def __init__(
        self, proposer: Callable[[Variation], Proposer], variation: Variation, line: ChoiceLine, *, informed: bool
    ) -> None:
        self._proposer = proposer(variation)
        self._heads = deque(variation.heads if informed else ())
        self._line = line

    def ask(self, count: int) -> list[Proposal]:
        """Return the next command lines to try."""
        return [self._next() for _ in range(count)]

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Tell the proposer what the choices were worth, if they are its own."""
        if proposal.tag is not None:
            self._proposer.tell(proposal.tag, outcome.reward)

    def _next(self) -> Proposal:
        if self._heads:
            return Proposal((self._line.write(self._heads.popleft()),))
        choices = self._proposer.ask()
        return Proposal((self._line.write(choices),), choices)


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
