"""Searches by optimisers of other libraries: each minimises a function of some integers, which stand for actions."""

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Unpack

from aiocg.env.env import Env
from aiocg.search.alphabet import Alphabet
from aiocg.search.budget import Budget
from aiocg.search.command_lines import WINDOW
from aiocg.search.driver import Options, Pace, tune
from aiocg.search.encoding import Encoding, encode
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome, Proposal
from aiocg.spaces.actions.options import OptionActions

__all__ = ["LENGTH", "LINES", "Finite", "Minimizer", "Vectors", "needed", "search_vectors"]

LENGTH = 40  # actions of a list, at most
LINES = Pace(batch=1, ahead=WINDOW)  # compiles of command lines take very different times


class Minimizer(Protocol):
    """An optimiser, which must depend on nothing but its arguments and what it is told, in the order of the calls."""

    def ask(self) -> tuple[Sequence[int], Any] | None:
        """Return a vector to try, and what it is to be told by; None to wait for outcomes."""

    def tell(self, tag: Any, cost: float) -> None:
        """Take note of what a vector costs; infinity if its actions fail. At the end of a search some are not told."""


class Vectors:
    """A tuner that proposes what the vectors of a minimizer stand for."""

    def __init__(self, encoding: Encoding, minimizer: Minimizer) -> None:
        self._encoding = encoding
        self._minimizer = minimizer

    def ask(self, count: int) -> list[Proposal]:
        """Return as many as the minimizer asks for."""
        asked: list[Proposal] = []
        while len(asked) < count and (one := self._minimizer.ask()) is not None:
            asked.append(Proposal(self._encoding.actions(one[0]), one[1]))
        return asked

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Tell the minimizer the cost."""
        self._minimizer.tell(proposal.tag, -outcome.reward)


class Finite:
    """Puts a cost that is more than any other in place of an infinite one, for optimisers that compute with costs."""

    def __init__(self) -> None:
        self._worst = 0.0

    def __call__(self, cost: float) -> float:
        """Return the cost, or what takes its place."""
        if cost == math.inf:
            return self._worst + 1.0
        self._worst = max(self._worst, cost)
        return cost


async def search_vectors(
    env: Env,
    minimizer: Callable[[Encoding], Minimizer],
    *,
    name: str,
    length: int,
    evaluations: int,
    pace: Pace | None = None,
    **options: Unpack[Options],
) -> SearchResult:
    """Let a minimizer choose an action, or none, for each place of a list; or each option of a whole command line.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        minimizer: makes the minimizer for an encoding.
        name: of the search.
        length: actions of a list, at most.
        evaluations: the budget if there is none.
        pace: how the minimizer is asked for lists.
        **options: see `aiocg.search.Options`.

    Raises:
        ValueError: when the actions depend on the state, and as `aiocg.search.tune` does.
        ServiceError: see `aiocg.search.tune`.
    """
    space = env.action_space

    def tuner(alphabet: Alphabet) -> Vectors:
        encoding = encode(space, alphabet, length)
        return Vectors(encoding, minimizer(encoding))

    pace = LINES if isinstance(space, OptionActions) else pace
    return await tune(env, tuner, name=name, pace=pace, default=Budget(evaluations=evaluations), **options)


def needed(module: str, extra: str) -> Any:
    """Import a module of a library that is installed on request.

    Raises:
        ImportError: when it is not installed, with how to do that.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"this search needs {error.name or extra}: pip install 'aiocg[{extra}]'"
        raise ImportError(message, name=error.name, path=error.path) from error
