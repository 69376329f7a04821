"""Searches over whole command lines: hill climbing, also one that learns which options do harm, and breeding."""

import functools
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search._driver import LINES, WINDOW, Options, tune
from aiocg.search.budget import Budget
from aiocg.search.result import SearchResult
from aiocg.search.tuner import FAILED, Outcome, Proposal
from aiocg.search.variation import Choices, Variation
from aiocg.search.vectors import needed
from aiocg.spaces.actions import ChoiceLine, OptionActions
from aiocg.transport.options import UNSET

DEFAULT_BUDGET = Budget(evaluations=1000)


class _Proposer(Protocol):
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
    proposer: Callable[[Variation], _Proposer],
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
    tuner = _Lines(proposer, Variation(space.options), space.line, informed=informed)
    return await tune(env, lambda _: tuner, name=name, pace=LINES, space=space, default=DEFAULT_BUDGET, **options)


class _Lines:
    """A tuner that writes choices as command lines: the heads, and then what a proposer proposes."""

    def __init__(
        self, proposer: Callable[[Variation], _Proposer], variation: Variation, line: ChoiceLine, *, informed: bool
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


POPULATION = 50
SPARING = 1e-9  # of a reward, what an option must bring to be worth giving


async def genetic(env: Env, *, seed: int = 0, population: int = POPULATION, **options: Unpack[Options]) -> SearchResult:
    """Breed command lines: cross two good ones, option by option, change a few options, and let the worst go.

    A few lines of options that are known to help are evaluated first. The population begins with no option at all, with
    each optimisation level alone, and with random command lines. There are no generations: each command line takes part
    as soon as it is its turn, so no worker waits for the others. One that does not compile is worth nothing, and counts
    as one that was evaluated.

    Args:
        env: of a compiler with options, such as `gcc-v0`, with a reward space. If its action space is none of whole
            command lines, the compiler's first such space is searched.
        seed: of all random choices.
        population: command lines that are kept; more of them take longer and find more.
        **options: see `aiocg.search.Options`; the budget is 1,000 evaluations if there is none, and of the lanes at
            most 16 have something to do. A search is resumed with the same population and version of pymoo.

    Raises:
        ValueError: when the environment has no reward space, its compiler no options, the population is too small, or
            `resume` is of another search.
        ImportError: when pymoo is not installed; `pip install 'aiocg[search]'` does that.
        ServiceError: when the workers cannot do their part.
    """
    if population <= WINDOW:
        raise ValueError(f"a population is more than {WINDOW} command lines, not {population}")
    breeder = functools.partial(_Breeder, seed=seed, population=population)
    return await search_command_lines("genetic", env, breeder, **options)


class _Breeder:
    """Pymoo's genetic algorithm in steady state: one child at a time, from whoever is in the population by then."""

    def __init__(self, variation: Variation, seed: int, population: int) -> None:
        self._pymoo = needed("aiocg.search._breeding", "search")
        self._algorithm = self._pymoo.algorithm(variation, seed, population)
        self._starts = deque(_choices(one) for one in self._algorithm.ask())

    def ask(self) -> Choices:
        """Return a member of the first population or, when there are no more, a child."""
        return self._starts.popleft() if self._starts else _choices(self._algorithm.ask()[0])

    def tell(self, choices: Choices, reward: float) -> None:
        """Let it live if it is better than the worst; of equally good ones the one that takes fewer options is."""
        given = sum(choice >= 0 for choice in choices)
        cost = -reward + SPARING * max(abs(reward), 1.0) * given
        self._algorithm.tell(infills=self._pymoo.member(choices, cost))


def _choices(individual: Any) -> Choices:
    return tuple(individual.X.tolist())
