"""Searches for good action sequences, on any environment with a reward space, and for good command lines.

Each is an async function that takes an environment, made but not necessarily reset, and returns a `SearchResult`::

    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/qsort")
    best = await aiocg.search.functionwise(env)

`functionwise` optimises each function of a program by itself: for size with LLVM it is the best that there is, and
`racing` is for running time. `decide` chooses which calls LLVM inlines, and `advice` says what that is in the source.
`greedy`, `beam` and `random` look for lists of actions; `screening`, `hill_climb`, `genetic` and, in an action space of
that kind, `random` for a choice for all options of a compiler at once.
`nevergrad` and `opentuner` have optimisers of other libraries choose either. `pareto`
looks for programs that trade one cost for another.

All take a `Budget`, a progress callback and a state to resume from, and can be cancelled at any time.
Without a time limit the result of all but `racing` depends on nothing but the arguments: not on the number of workers,
nor on what becomes of them.
"""

from aiocg.search._driver import Alphabet, Options, Pace, tune
from aiocg.search._evolution import evolve, portfolio
from aiocg.search._functionwise import decide, functionwise
from aiocg.search._levelwise import beam, greedy
from aiocg.search._mcts import mcts
from aiocg.search._policy import coreset, policy
from aiocg.search._racing import racing
from aiocg.search._random import random
from aiocg.search._schedule import schedule
from aiocg.search.advice import Advice, advice
from aiocg.search.budget import Budget
from aiocg.search.command_lines import genetic, hill_climb, screening
from aiocg.search.fronts import ParetoPoint, ParetoResult, pareto
from aiocg.search.metrics import compare
from aiocg.search.priors import policy_prior
from aiocg.search.result import Checks, Progress, SearchResult, SearchState
from aiocg.search.tuner import Outcome, Proposal, Tuner
from aiocg.search.vectors import nevergrad, opentuner

__all__ = [
    "Advice",
    "Alphabet",
    "Budget",
    "Checks",
    "Options",
    "Outcome",
    "Pace",
    "ParetoPoint",
    "ParetoResult",
    "Progress",
    "Proposal",
    "SearchResult",
    "SearchState",
    "Tuner",
    "advice",
    "beam",
    "compare",
    "coreset",
    "decide",
    "evolve",
    "functionwise",
    "genetic",
    "greedy",
    "hill_climb",
    "mcts",
    "nevergrad",
    "opentuner",
    "pareto",
    "policy",
    "policy_prior",
    "portfolio",
    "racing",
    "random",
    "schedule",
    "screening",
    "tune",
]
