"""Pymoo's genetic algorithms over command lines and lists of actions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pymoo.algorithms.moo.nsga2 import NSGA2  # type: ignore[import-untyped]
from pymoo.algorithms.soo.nonconvex.ga import GA  # type: ignore[import-untyped]
from pymoo.core.mutation import Mutation  # type: ignore[import-untyped]
from pymoo.core.population import Population  # type: ignore[import-untyped]
from pymoo.core.problem import Problem  # type: ignore[import-untyped]
from pymoo.core.termination import NoTermination  # type: ignore[import-untyped]
from pymoo.operators.crossover.ux import UX  # type: ignore[import-untyped]

from aiocg.search.variation import Choices, Variation
from aiocg.search.vectors import Encoding

CROSSED = 0.9  # share of the children that have two parents


def algorithm(variation: Variation, seed: int, population: int) -> Any:
    """Return a genetic algorithm whose `ask` returns the first population, and one child after the other thereafter."""
    rng = np.random.default_rng([seed, population])
    drawn = [variation.draw(rng) for _ in range(population - len(variation.starts))]
    return _set_up(GA, [*variation.starts, *drawn][:population], variation, 1, 1, seed)


def front_algorithm(encoding: Encoding, objectives: int, seed: int, population: int, children: int) -> Any:
    """Return NSGA-II, whose `ask` returns the first population, with the vector of zeros, and children thereafter."""
    rng = np.random.default_rng([seed, population])
    first = [(0,) * len(encoding.sizes), *(encoding.draw(rng) for _ in range(population - 1))]
    return _set_up(NSGA2, first, encoding, objectives, children, seed)


def _set_up(
    kind: Any, first: Sequence[Choices], variation: Variation | Encoding, objectives: int, children: int, seed: int
) -> Any:
    sampling = Population.new("X", np.array(first, dtype=np.int64))
    how = {"sampling": sampling, "crossover": UX(prob=CROSSED), "mutation": _Change(variation), "output": None}
    made = kind(pop_size=len(first), n_offsprings=children, **how)
    made.setup(Problem(n_var=len(first[0]), n_obj=objectives), termination=NoTermination(), seed=seed)
    return made


def member(choices: Choices, cost: float) -> Any:
    """Return choices that were evaluated, as `tell` takes them."""
    one = Population.new("X", np.array([choices], dtype=np.int64))
    one.set("F", np.array([[cost]]))
    return one


class _Change(Mutation):  # type: ignore[misc]
    """Changes a few options of each command line."""

    def __init__(self, variation: Variation | Encoding) -> None:
        super().__init__()
        self._variation = variation

    def _do(self, problem: Any, X: Any, *args: Any, random_state: Any = None, **kwargs: Any) -> Any:
        rows: Sequence[Any] = [self._variation.change(row.tolist(), random_state) for row in X]
        return np.array(rows, dtype=np.int64)
