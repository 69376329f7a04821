"""Nevergrad's optimisers over lists of actions, and over whole command lines."""

import functools
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search._driver import Options, Pace
from aiocg.search.budget import Budget
from aiocg.search.result import SearchResult
from aiocg.search.vectors import LENGTH, Encoding, Finite, needed, search_vectors

BUDGET = Budget(evaluations=10_000)  # which is what the optimisers are told to expect
OPTIMIZER = "DiscreteLenglerOnePlusOne"
PACE = Pace()


async def nevergrad(
    env: Env, *, seed: int = 0, optimizer: str = OPTIMIZER, length: int = LENGTH, **options: Unpack[Options]
) -> SearchResult:
    """Let one of Nevergrad's optimisers choose an action, or none, for each place of a list.

    Where an action is a whole command line, it makes a choice for each option.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        seed: of all random choices.
        optimizer: the name of a class in `nevergrad.optimizers.registry`.
        length: actions of a list, at most.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none.

    Raises:
        ValueError: when there is no such optimiser or the actions depend on the state, and as `aiocg.search.tune` does.
        ImportError: when Nevergrad is not installed; `pip install 'aiocg[nevergrad]'` does that.
        ServiceError: see `aiocg.search.tune`.
    """
    tuner = functools.partial(Nevergrad, seed=seed, optimizer=optimizer)
    return await search_vectors(env, tuner, "nevergrad", length, BUDGET, PACE, **options)


class Nevergrad:
    """Asks for an array of integers, which is the form that costs Nevergrad least."""

    def __init__(self, encoding: Encoding, seed: int, optimizer: str = OPTIMIZER) -> None:
        ng = needed("nevergrad", "nevergrad")
        if optimizer not in ng.optimizers.registry:
            raise ValueError(f"Nevergrad has no optimizer {optimizer!r}")
        most = np.array(encoding.sizes) - 1
        array = ng.p.Array(init=np.zeros(len(most)), lower=0, upper=most)
        array = array.set_mutation(sigma=most.astype(float)).set_integer_casting()  # any value may follow any other
        array.random_state.seed(seed)
        workers = PACE.batch * PACE.ahead
        self._optimizer = ng.optimizers.registry[optimizer](array, budget=BUDGET.evaluations, num_workers=workers)
        self._finite = Finite()

    def ask(self) -> tuple[Sequence[int], Any]:
        """Return what the optimiser asks for."""
        one = self._optimizer.ask()
        return one.value.astype(int).tolist(), one

    def tell(self, tag: Any, cost: float) -> None:
        """Tell the optimiser."""
        self._optimizer.tell(tag, self._finite(cost))
