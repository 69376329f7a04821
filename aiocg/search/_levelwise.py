"""Searches level by level: greedy, which goes on from the best single action, and beam search, from the best few."""

import functools
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.policies import Policy
from aiocg.search._driver import Alphabet, Levels, Options, Pace, tune
from aiocg.search.priors import Path, Prior, prior_for
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome

PACE = Pace(batch=48, ahead=4)  # all actions of a step are independent of one another


async def greedy(env: Env, **options: Unpack[Options]) -> SearchResult:
    """Take the action with the largest reward, and repeat until no action has a positive reward.

    All actions of a step are evaluated with `expand`, shared among the workers. Ties go to the action that comes first.

    Args:
        env: an environment with a reward space.
        **options: see `aiocg.search.Options`; there is no limit if there is no budget.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`.
    """
    return await tune(env, Greedy, name="greedy", pace=PACE, **options)


class Greedy(Levels):
    """Proposes every action after the best list so far, and continues with the best of the results."""

    def __init__(self, alphabet: Alphabet) -> None:
        super().__init__([()])
        self._alphabet = alphabet
        self._reward = -float("inf")
        self._best: tuple[tuple[str, ...], Outcome] | None = None

    def _learn(self, actions: tuple[str, ...], outcome: Outcome) -> None:
        if outcome.reward > self._reward:
            self._reward, self._best = outcome.reward, (actions, outcome)

    def _next_level(self) -> list[tuple[str, ...]]:
        if self._best is None:
            return []
        (actions, state), self._best = self._best, None
        return [(*actions, text) for text in self._alphabet.texts(state)]


TRIES = 16  # actions that a state is extended by where a prior says which


async def beam(
    env: Env,
    *,
    width: int = 8,
    depth: int = 20,
    prior: Prior | Policy | Path | None = None,
    tries: int = TRIES,
    **options: Unpack[Options],
) -> SearchResult:
    """Extend the `width` best states by every action, and repeat with the best of the resulting states.

    Each state is extended once, even if it is reached again on the same level or a later one; states are identified by
    the hash of the program.

    Args:
        env: an environment with a reward space.
        width: states kept per level.
        depth: levels.
        prior: a prior, a policy, the file of one, or the name of a policy that comes along: states are extended by the
            actions that it finds most promising, and by others where none of these leads to a new state.
        tries: how many actions that is.
        **options: see `aiocg.search.Options`; there is no limit if there is no budget.

    Raises:
        ValueError: if `width`, `depth` or `tries` is not positive, the prior cannot be used, and as
            `aiocg.search.tune` does.
        ServiceError: if the workers fail.
    """
    if width < 1 or depth < 1 or tries < 1:
        raise ValueError(f"width, depth and tries must be at least 1, not {width}, {depth} and {tries}")
    known = None if prior is None else await prior_for(env, prior)
    make = functools.partial(Beam, width=width, depth=depth, prior=known, tries=tries)
    features = () if known is None else known.observations
    return await tune(env, make, name="beam", pace=PACE, features=features, **options)


class Beam(Levels):
    """Proposes every action after each list of the frontier; the best new states are the next frontier.

    With a prior it proposes the `tries` most promising actions only, the most promising first, and where none of these
    leads to a new state, the next ones.
    """

    def __init__(
        self, alphabet: Alphabet, width: int, depth: int, prior: Prior | None = None, tries: int = TRIES
    ) -> None:
        super().__init__([()])
        self._alphabet = alphabet
        self._width = width
        self._left = depth
        self._prior = prior
        self._tries = tries
        self._tried = 0  # actions of the frontier's states
        self._frontier: list[tuple[tuple[str, ...], Outcome]] = []
        self._seen: set[int] = set()
        self._children: dict[int, tuple[float, Any, tuple[str, ...], Outcome]] = {}  # by state; they sort best first

    def _learn(self, actions: tuple[str, ...], outcome: Outcome) -> None:
        if not outcome.failed and outcome.state not in self._seen:
            child = (-outcome.reward, self._alphabet.rank(actions), actions, outcome)
            known = self._children.get(outcome.state)
            if known is None or child[:2] < known[:2]:
                self._children[outcome.state] = child

    def _next_level(self) -> list[tuple[str, ...]]:
        if self._children or self._prior is None:
            if not self._left:
                return []
            self._left -= 1
            self._seen.update(self._children)
            best = sorted(self._children.values(), key=lambda child: child[:2])[: self._width]
            self._frontier, self._tried = [child[2:] for child in best], 0
            self._children.clear()
        else:
            self._tried += self._tries
        return [(*actions, text) for actions, state in self._frontier for text in self._texts(state)]

    def _texts(self, state: Outcome) -> Sequence[str]:
        texts = self._alphabet.texts(state)
        if self._prior is None:
            return texts
        order = np.argsort(-self._prior.weights(state, texts), kind="stable")
        return [texts[index] for index in order[self._tried : self._tried + self._tries]]
