"""Searches for good action sequences, on any environment with a reward space, and for good command lines.

Each is an async function that takes an environment, made but not necessarily reset, and returns a `SearchResult`::

    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/qsort")
    best = await aiocg.search.greedy(env)

`greedy`, `beam` and `random` look for lists of actions; `screening`, `hill_climb`, `genetic` and, in an action space of
that kind, `random` for a choice for all options of a compiler at once.

All take a `Budget`, a progress callback and a state to resume from, and can be cancelled at any time. Without a time
limit the result depends on nothing but the arguments: not on the number of workers, nor on what becomes of them.
"""

from aiocg.search.beam import beam
from aiocg.search.budget import Budget
from aiocg.search.comparison import compare
from aiocg.search.genetic import genetic
from aiocg.search.greedy import greedy
from aiocg.search.hill_climb import hill_climb
from aiocg.search.random import random
from aiocg.search.result import Progress, SearchResult, SearchState
from aiocg.search.screening import screening

__all__ = [
    "Budget",
    "Progress",
    "SearchResult",
    "SearchState",
    "beam",
    "compare",
    "genetic",
    "greedy",
    "hill_climb",
    "random",
    "screening",
]
