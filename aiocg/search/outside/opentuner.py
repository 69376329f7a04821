"""OpenTuner's bandit over techniques, for lists of actions and for whole command lines."""

import contextlib
import functools
import random
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search._driver import Options, Pace
from aiocg.search.budget import Budget
from aiocg.search.result import SearchResult
from aiocg.search.vectors import LENGTH, Encoding, needed, search_vectors

BUDGET = Budget(evaluations=1000)
PACE = Pace(batch=8, ahead=2)
STARTS = 20  # vectors that are drawn before the techniques begin
PATIENCE = 200  # times without anything new, after which it has nothing more to propose


async def opentuner(env: Env, *, seed: int = 0, length: int = LENGTH, **options: Unpack[Options]) -> SearchResult:
    """Let OpenTuner choose an action, or none, for each place of a list: its bandit gives turns to four techniques.

    Where an action is a whole command line, it makes a choice for each option. OpenTuner's database is in memory, and
    nothing is left of it.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        seed: of all random choices.
        length: actions of a list, at most.
        **options: see `aiocg.search.Options`; the budget is 1,000 evaluations if there is none.

    Raises:
        ValueError: when the actions depend on the state, and as `aiocg.search.tune` does.
        ImportError: when OpenTuner is not installed; `pip install 'aiocg[opentuner]'` does that.
        ServiceError: see `aiocg.search.tune`.
    """
    tuner = functools.partial(OpenTuner, seed=seed)
    return await search_vectors(env, tuner, "opentuner", length, BUDGET, PACE, **options)


class OpenTuner:
    """Asks a tuning run for desired results.

    OpenTuner draws from the generators that Python and NumPy share among all. Each call here has them to itself, and
    puts them back.
    """

    def __init__(self, encoding: Encoding, seed: int) -> None:
        bandit = needed("aiocg.search.outside._bandit", "opentuner")
        rng = np.random.default_rng(seed)
        starts = [encoding.draw(rng) for _ in range(STARTS)]
        self._states = random.Random(seed).getstate(), np.random.RandomState(seed).get_state()
        with self._generators():
            self._run = bandit.Run(encoding.sizes, starts)
        self._open = 0

    def ask(self) -> tuple[Sequence[int], Any] | None:
        """Return what the run desires next; it may have to wait, or have nothing new any more."""
        with self._generators():
            for _ in range(1 if self._open else PATIENCE):
                found: tuple[list[int], Any] | None = self._run.ask()
                if found is not None:
                    self._open += 1
                    return found
        return None

    def tell(self, tag: Any, cost: float) -> None:
        """Report a result, of what fails an error."""
        self._open -= 1
        with self._generators():
            self._run.tell(tag, cost)

    @contextlib.contextmanager
    def _generators(self) -> Iterator[None]:
        others = random.getstate(), np.random.get_state()
        random.setstate(self._states[0])
        np.random.set_state(self._states[1])
        try:
            yield
        finally:
            self._states = random.getstate(), np.random.get_state()
            random.setstate(others[0])
            np.random.set_state(others[1])
