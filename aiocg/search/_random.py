"""Random search: random walks, each given up when it has not improved for a while, or random command lines."""

import functools
from collections import deque
from typing import Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search._driver import Alphabet, Options, Pace, tune
from aiocg.search.budget import Budget
from aiocg.search.command_lines import search_command_lines
from aiocg.search.result import SearchResult
from aiocg.search.tuner import FAILED, Outcome, Proposal
from aiocg.search.variation import Choices, Variation
from aiocg.spaces.actions import OptionActions

DEFAULT_BUDGET = Budget(evaluations=10_000)
STRIDE = 8  # steps of a walk that are asked for together, at most; fewer after one that failed
WALKS = 8  # that are under way at once
PACE = Pace(batch=2 * STRIDE, ahead=WALKS // 2)


async def random(env: Env, *, seed: int = 0, patience: int | None = None, **options: Unpack[Options]) -> SearchResult:
    """Walk at random, remembering the best state seen; start again after `patience` steps without a new best.

    Where an action is a whole command line, as in the action space `choices` of `gcc-v0`, there is nowhere to walk:
    command lines are drawn, each independent of the others, with one of the optimisation levels and from one other
    option to all of them. One that does not compile counts as one that was evaluated.

    Args:
        env: with a reward space.
        seed: of all random choices.
        patience: steps without improvement on the walk's own best before it is given up; the number of actions if None.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none, of command lines
            1,000.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`.
    """
    if isinstance(env.action_space, OptionActions):
        drawer = functools.partial(_Drawer, seed=seed)
        return await search_command_lines("random", env, drawer, informed=False, **options)
    walks = functools.partial(RandomWalks, seed=seed, patience=patience)
    return await tune(env, walks, name="random", pace=PACE, default=DEFAULT_BUDGET, **options)


class _Drawer:
    """Proposes random command lines."""

    def __init__(self, variation: Variation, seed: int) -> None:
        self._variation = variation
        self._rng = np.random.default_rng(seed)

    def ask(self) -> Choices:
        """Return another one."""
        return self._variation.draw(self._rng)

    def tell(self, choices: Choices, reward: float) -> None:
        """Learn nothing."""


class _Walk:
    """A walk: where it is, and how long ago it was at its best."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.state = Outcome(0.0)
        self.best = FAILED
        self.idle = 0
        self.untold = 0
        self.stride = 1


class RandomWalks:
    """Proposes the states on several random walks, a few steps of each at a time."""

    def __init__(self, alphabet: Alphabet, seed: int, patience: int | None) -> None:
        self._alphabet = alphabet
        self._seed = seed
        self._patience = patience
        self._begun = 0
        self._ready: deque[_Walk] = deque()
        self._open = 0
        self._start: Outcome | None = None

    def ask(self, count: int) -> list[Proposal]:
        """Return the next steps of walks that are known to be going on, and of new ones."""
        if self._start is None:
            self._start = Outcome(FAILED)
            return [Proposal(())]
        asked: list[Proposal] = []
        while not self._start.failed and len(asked) < count and (walk := self._next()) is not None:
            asked += self._steps(walk, count - len(asked))
        return asked

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Take a walk on, or give it up."""
        walk = proposal.tag
        if walk is None:
            self._start = outcome
            self._patience = self._patience or max(len(self._alphabet.texts(outcome)), 1)
            return
        walk.untold -= 1
        walk.idle = 0 if outcome.reward > walk.best else walk.idle + 1
        walk.best = max(walk.best, outcome.reward)
        walk.stride = 1 if outcome.failed else min(walk.stride + 1, STRIDE)
        if not outcome.failed:
            walk.state = outcome  # and after a failure it goes on from where it was before
        if not walk.untold:
            if walk.idle >= (self._patience or 1):
                self._open -= 1
            else:
                self._ready.append(walk)

    def _next(self) -> _Walk | None:
        if self._ready:
            return self._ready.popleft()
        if self._open == WALKS:
            return None
        self._open += 1
        walk = _Walk(np.random.default_rng([self._seed, self._begun]))
        self._begun += 1
        assert self._start is not None
        walk.state, walk.best = self._start, self._start.reward
        return walk

    def _steps(self, walk: _Walk, most: int) -> list[Proposal]:
        steps = 1 if self._alphabet.varies else min(walk.stride, most, (self._patience or 1) - walk.idle)
        actions, asked = walk.state.actions, []
        for _ in range(steps):
            actions = (*actions, self._alphabet.draw(walk.rng, walk.state))
            asked.append(Proposal(actions, walk))
        walk.untold = steps
        return asked
