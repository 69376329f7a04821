"""The covariance matrix adaptation of pycma over lists of actions, and over whole command lines."""

from collections import deque
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search.driver import Options, Pace
from aiocg.search.encoding import Encoding
from aiocg.search.result import SearchResult
from aiocg.search.vectors import LENGTH, Finite, needed, search_vectors

__all__ = ["CmaEs", "cma"]

EVALUATIONS = 10_000
GENERATION = 16
PACE = Pace(batch=GENERATION, ahead=1)
SPREAD = 0.3  # the first standard deviation, as a part of the range of an element
SPARSE_SPREAD = 0.1  # of a sparse vector: of a hundred elements, about one is not 0 at first
LEAST = 0.2  # the least standard deviation, in steps from one value of an element to the next


async def cma(env: Env, *, seed: int = 0, length: int = LENGTH, **options: Unpack[Options]) -> SearchResult:
    """Let CMA-ES choose an action, or none, for each place of a list, by rounding real numbers.

    Where an action is a whole command line, it makes a choice for each option. The numbers that stand for actions have
    no order of their own, which is what this search lives by; it is here to be compared with.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        seed: of all random choices.
        length: actions of a list, at most.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none, and of the lanes at
            most 16 have something to do.

    Raises:
        ValueError: when the actions depend on the state, and as `aiocg.search.tune` does.
        ImportError: when pycma is not installed; `pip install 'aiocg[cma]'` does that.
        ServiceError: see `aiocg.search.tune`.
    """
    return await search_vectors(
        env,
        lambda encoding: CmaEs(encoding, seed),
        name="cma",
        length=length,
        evaluations=EVALUATIONS,
        pace=PACE,
        **options,
    )


class CmaEs:
    """Asks for a generation when all of the one before are told, in whatever order."""

    def __init__(self, encoding: Encoding, seed: int) -> None:
        pycma = needed("cma", "cma")
        self._sizes = np.array(encoding.sizes)
        self._sparse = encoding.sparse
        rng = np.random.default_rng(seed)
        self._strategy = pycma.CMAEvolutionStrategy(
            np.full(len(self._sizes), 0.25 if self._sparse else 0.5),
            SPARSE_SPREAD if self._sparse else SPREAD,
            {
                "bounds": [0, 1],
                "popsize": GENERATION,
                "minstd": LEAST / self._sizes,
                "CMA_diagonal": True,
                "randn": lambda *shape: rng.standard_normal(shape),
                "seed": np.nan,  # NumPy's own generator is left alone
                "verbose": -10,  # nor are files written or read
                "verb_log": 0,
            },
        )
        self._left: deque[int] = deque()
        self._points: list[Any] = []
        self._costs: dict[int, float] = {}
        self._finite = Finite()

    def ask(self) -> tuple[Sequence[int], Any] | None:
        """Return the next of a generation."""
        if not self._left:
            if len(self._costs) < len(self._points):
                return None
            if self._points:
                self._strategy.tell(self._points, [self._costs[index] for index in range(len(self._points))])
            self._points, self._costs = self._strategy.ask(), {}
            self._left.extend(range(len(self._points)))
        index = self._left.popleft()
        return self._rounded(self._points[index]), index

    def tell(self, tag: Any, cost: float) -> None:
        """Take note of the cost."""
        self._costs[tag] = self._finite(cost)

    def _rounded(self, point: Any) -> list[int]:
        """Return integers for numbers from 0 to 1, of which the lower half is 0 where most are to be 0."""
        if self._sparse:
            found = np.where(point < 0.5, 0, 1 + (2 * point - 1) * (self._sizes - 1))
        else:
            found = point * self._sizes
        return np.minimum(found.astype(int), self._sizes - 1).tolist()  # type: ignore[no-any-return]
