"""Simulated annealing over lists of actions, several chains side by side."""

import math
from collections import deque
from typing import Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search.alphabet import Alphabet
from aiocg.search.budget import Budget
from aiocg.search.driver import Options, Pace, tune
from aiocg.search.evolve import Changer
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome, Proposal

__all__ = ["Annealer", "anneal"]

DEFAULT_BUDGET = Budget(evaluations=10_000)
CHAINS = 16
PACE = Pace(batch=CHAINS // 2, ahead=2)
COOLING = 0.97  # of the temperature, with each step of a chain
COLD = 0.01  # of the first temperature, where a chain goes back to the best and is heated again


async def anneal(env: Env, *, seed: int = 0, **options: Unpack[Options]) -> SearchResult:
    """Change lists at random, and go on from one that is worse the less likely the worse it is and the later it is.

    How much worse counts as much is learned: the first temperature is the geometric mean of what they lose.

    Args:
        env: with a reward space.
        seed: of all random choices.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`.
    """
    return await tune(
        env, lambda alphabet: Annealer(alphabet, seed), name="anneal", pace=PACE, default=DEFAULT_BUDGET, **options
    )


class _Chain:
    """A chain: where it is, and how warm."""

    def __init__(self, state: Outcome) -> None:
        self.state = state
        self.warmth = 1.0


class Annealer:
    """Proposes one change at a time of each chain."""

    def __init__(self, alphabet: Alphabet, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._changer = Changer(alphabet, self._rng)
        self._ready: deque[_Chain] = deque()
        self._best: Outcome | None = None
        self._asked = False
        self._losses, self._lost = 0, 0.0  # how many changes have lost something, and the sum of its logarithms

    def ask(self, count: int) -> list[Proposal]:
        """Return the empty list first, and then a change of each chain that waits for none."""
        if not self._asked:
            self._asked = True
            return [Proposal(())]
        chains = [self._ready.popleft() for _ in range(min(count, len(self._ready)))]
        return [Proposal(self._change(chain.state), chain) for chain in chains]

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Let the chain go to the new list or stay."""
        chain = proposal.tag
        if chain is None:
            self._best = outcome
            self._ready.extend(_Chain(outcome) for _ in range(CHAINS if not outcome.failed else 0))
            return
        self._changer.learn(proposal, outcome)
        loss = chain.state.reward - outcome.reward
        if 0 < loss < math.inf:
            self._losses, self._lost = self._losses + 1, self._lost + math.log(loss)
        if self._accepts(loss, chain.warmth):
            chain.state = outcome
        self.consider(outcome)
        chain.warmth *= COOLING
        if chain.warmth < COLD:
            chain.state, chain.warmth = self._best, 1.0
        self._ready.append(chain)

    def consider(self, outcome: Outcome) -> None:
        """Let chains go back to this when they are heated again, if it is the best, whoever proposed it."""
        if self._best is not None and outcome.reward > self._best.reward:
            self._best = outcome

    def _accepts(self, loss: float, warmth: float) -> bool:
        if loss <= 0 or loss == math.inf:
            return loss <= 0
        temperature = warmth * math.exp(self._lost / self._losses)
        return bool(self._rng.random() < math.exp(-loss / temperature))

    def _change(self, state: Outcome) -> tuple[str, ...]:
        assert self._best is not None
        return self._changer.change(state.actions, self._best.actions, state)
