"""Evolutionary searches over lists of actions: good ones are changed a little, or crossed."""

import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search._driver import Alphabet, Options, tune
from aiocg.search.baselines import AS_IT_IS, baselines
from aiocg.search.budget import Budget
from aiocg.search.result import SearchResult
from aiocg.search.tuner import FAILED, Outcome, Proposal, Tuner

DEFAULT_BUDGET = Budget(evaluations=10_000)
ELITES = 12  # lists that children are made of
DRAWN = 16  # lists that are drawn at random before there are children
LENGTH = 8  # actions of these, at most
LONGEST = 60  # actions of a list
INSERT, DELETE, REPLACE, MOVE = 0.42, 0.18, 0.15, 0.08  # how often a child is made so; the others are crossed
BROOD = 4  # children of one parent in a row, which share what they begin with
AGAIN = 0.3  # how often a child is changed once more
LATE = 2  # the higher, the more often lists are changed near their ends
TRIES = 8  # at a child that was not there before


async def evolve(env: Env, *, seed: int = 0, **options: Unpack[Options]) -> SearchResult:
    """Insert, delete, replace or move actions in good lists, or cross two of them, and keep what is better.

    Actions without effect are dropped from a list as soon as that is known. Of lists that lead to the same state the
    shorter is kept, so that those that children are made of differ.

    Args:
        env: with a reward space.
        seed: of all random choices.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`.
    """
    return await tune(env, lambda alphabet: Evolver(alphabet, seed), name="evolve", default=DEFAULT_BUDGET, **options)


class Evolver:
    """Proposes children of the best lists that it knows."""

    def __init__(self, alphabet: Alphabet, seed: int, starts: Sequence[tuple[str, ...]] = ((),)) -> None:
        """Make one that begins with the lists `starts`."""
        self._rng = np.random.default_rng(seed)
        self._alphabet = alphabet
        self._used: Counter[str] = Counter()
        self._mattered: Counter[str] = Counter()  # those that had an effect are drawn more often
        self._starts = tuple(starts)
        self._elites: list[Outcome] = []  # best first
        self._tried: set[tuple[str, ...]] = set()
        self._drawn = 0
        self._mother: Outcome | None = None

    def ask(self, count: int) -> list[Proposal]:
        """Return the starts first, then random continuations of them, then children."""
        if not self._tried:
            self._tried.update(self._starts)
            return [Proposal(start) for start in self._starts]
        return [Proposal(self._child()) for _ in range(count)] if self._elites else []

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Learn which actions matter, and keep the list if it is good."""
        self._used.update(proposal.actions)
        self._mattered.update(outcome.actions)
        if not outcome.failed:
            self.consider(outcome)

    def consider(self, outcome: Outcome) -> None:
        """Keep a list that is better than the worst of the elites, whoever proposed it."""
        for index, elite in enumerate(self._elites):
            if elite.state == outcome.state:
                if len(outcome.actions) >= len(elite.actions):
                    return
                del self._elites[index]
                break
        self._elites.append(outcome)
        self._elites.sort(key=lambda one: (-one.reward, len(one.actions)))
        del self._elites[ELITES:]

    def _child(self) -> tuple[str, ...]:
        """Make a list that was not tried, if there is one within a few tries."""
        child: tuple[str, ...] = ()
        for _ in range(TRIES):
            child = self._draw() if self._drawn < DRAWN else self._bred()
            if child not in self._tried:
                break
        self._drawn += 1
        self._tried.add(child)
        return child

    def _draw(self) -> tuple[str, ...]:
        length = int(self._rng.integers(1, LENGTH + 1))
        start = self._starts[self._drawn % len(self._starts)]
        return (*start, *[self._action(self._elites[0]) for _ in range(length)])

    def _bred(self) -> tuple[str, ...]:
        if self._drawn % BROOD == 0 or self._mother is None:
            self._mother = self._parent()
        parent, other = self._mother, self._parent()
        child = self._change(parent.actions, other.actions, parent)
        while self._rng.random() < AGAIN:
            child = self._change(child, other.actions, parent)
        return child

    def _parent(self) -> Outcome:
        """Return the better of two."""
        return self._elites[int(min(self._rng.integers(len(self._elites), size=2)))]

    def _action(self, state: Outcome) -> str:
        """Draw an action for a state."""
        for _ in range(TRIES):
            text = self._alphabet.draw(self._rng, state)
            if self._rng.random() * (self._used[text] + 1) <= self._mattered[text] + 1:
                break
        return text

    def _change(self, actions: tuple[str, ...], other: tuple[str, ...], state: Outcome) -> tuple[str, ...]:
        """Return a list with one change: up to three actions inserted, one deleted, replaced or moved, or crossed.

        Args:
            actions: the list.
            other: the list to cross it with.
            state: says what can be inserted.
        """
        rng, kind = self._rng, self._rng.random()
        place = self._place(len(actions) + 1)
        if kind < INSERT or not actions:
            new = [self._action(state) for _ in range(int(rng.integers(1, 4)))]
            return (*actions[:place], *new, *actions[place:])[:LONGEST]
        index = self._place(len(actions))
        rest = (*actions[:index], *actions[index + 1 :])
        if kind < INSERT + DELETE:
            return rest
        if kind < INSERT + DELETE + REPLACE:
            return (*actions[:index], self._action(state), *actions[index + 1 :])
        if kind < INSERT + DELETE + REPLACE + MOVE:
            place = self._place(len(rest) + 1)
            return (*rest[:place], actions[index], *rest[place:])
        begin, end = sorted(rng.integers(len(other) + 1, size=2).tolist())
        return (*actions[:place], *other[begin:end], *actions[place:])[:LONGEST]

    def _place(self, count: int) -> int:
        """Draw one of so many places, the last ones more often: what is before need not be done again."""
        return count - 1 - int(count * self._rng.random() ** LATE)


WINDOW = 500  # outcomes by which searches are judged
EXPLORATION = 0.01  # the weight of what was used seldom


async def portfolio(env: Env, *, seed: int = 0, **options: Unpack[Options]) -> SearchResult:
    """Share the budget among evolutions from several starts: nothing and, where the compiler has levels, -Oz.

    Each batch goes to the evolution that has found new bests most often lately, weighed against how seldom it was used:
    a bandit by the area under the curve, as in OpenTuner (Ansel et al., PACT 2014). Each goes on from what the other
    finds. -Oz is tried with and without attributes.

    Args:
        env: with a reward space.
        seed: of all random choices.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`.
    """
    known = baselines(env) if options.get("start", AS_IT_IS) == AS_IT_IS else {}
    smallest = [known[name] for name in ("Oz", "OzMinsize") if name in known]

    def make(alphabet: Alphabet) -> Tuner:
        arms: list[Tuner] = [Evolver(alphabet, seed)]
        if smallest:
            arms.append(Evolver(alphabet, seed, smallest))
        return Portfolio(arms)

    return await tune(env, make, name="portfolio", default=DEFAULT_BUDGET, **options)


class Portfolio:
    """A tuner of tuners.

    Args:
        arms: the tuners; the order decides between those that are equally good.
    """

    def __init__(self, arms: Sequence[Tuner]) -> None:
        self._arms = tuple(arms)
        self._history: deque[tuple[int, bool]] = deque(maxlen=WINDOW)
        self._untold = [0] * len(self._arms)
        self._best = FAILED

    def ask(self, count: int) -> list[Proposal]:
        """Ask the best of the tuners that do not wait for outcomes."""
        scores = self._scores()
        for index in sorted(range(len(self._arms)), key=lambda index: -scores[index]):
            asked = [Proposal(one.actions, (index, one)) for one in self._arms[index].ask(count)]
            if asked:
                self._untold[index] += len(asked)
                return asked
        return []

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Tell the tuner whose proposal it was and, of a new best, those that go on from what others find."""
        index, inner = proposal.tag
        self._untold[index] -= 1
        news = outcome.reward > self._best
        self._history.append((index, news))
        self._arms[index].tell(inner, outcome)
        if news:
            self._best = outcome.reward
            for arm in self._arms:
                if arm is not self._arms[index] and isinstance(arm, Evolver):
                    arm.consider(outcome)

    def _scores(self) -> list[float]:
        """Return how promising each tuner is: the area under the curve of its new bests, the latest counting most."""
        uses, areas = [0] * len(self._arms), [0] * len(self._arms)
        for index, news in self._history:
            uses[index] += 1
            areas[index] += uses[index] * news
        total = math.log2(max(len(self._history), 2))
        scores = []
        for used, area, untold in zip(uses, areas, self._untold, strict=True):
            judged = 2 * area / (used * (used + 1)) if used else 0.0
            tried = used + untold
            scores.append(judged + EXPLORATION * math.sqrt(2 * total / tried) if tried else math.inf)
        return scores
