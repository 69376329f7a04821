"""Several evolutions at once: whichever finds more gets more of the budget."""

import math
from collections import deque
from collections.abc import Sequence
from typing import Unpack

from aiocg.env.env import Env
from aiocg.search.alphabet import Alphabet
from aiocg.search.baselines import AS_IT_IS, baselines
from aiocg.search.budget import Budget
from aiocg.search.driver import Options, tune
from aiocg.search.evolve import Evolver
from aiocg.search.result import SearchResult
from aiocg.search.tuner import FAILED, Outcome, Proposal, Tuner

__all__ = ["Portfolio", "portfolio"]

DEFAULT_BUDGET = Budget(evaluations=10_000)
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
