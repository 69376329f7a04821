"""A genetic algorithm over whole command lines, which is pymoo's with operators for options."""

from collections import deque
from typing import Any

from aiocg.env import Env
from aiocg.search.budget import Budget
from aiocg.search.command_lines import WINDOW, search_command_lines
from aiocg.search.result import ProgressCallback, SearchResult, SearchState
from aiocg.search.variation import Choices, Variation

__all__ = ["genetic"]

POPULATION = 50
SPARING = 1e-9  # of a reward, what an option must bring to be worth giving


async def genetic(
    env: Env,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    population: int = POPULATION,
    progress: ProgressCallback | None = None,
    resume: SearchState | None = None,
    lanes: int | None = None,
) -> SearchResult:
    """Breed command lines: cross two good ones, option by option, change a few options, and let the worst go.

    It begins with no option at all, with each optimisation level alone, and with random command lines. There are no
    generations: each command line takes part as soon as it is its turn, so no worker waits for the others. One that
    does not compile is worth nothing, and counts as one that was evaluated.

    Args:
        env: of a compiler with options, such as `gcc-v0`, with a reward space. If its action space is none of whole
            command lines, the compiler's first such space is searched.
        budget: when to stop; 1,000 evaluations if None.
        seed: of all random choices.
        population: command lines that are kept; more of them take longer and find more.
        progress: called now and then.
        resume: the `state` of an earlier result, of a search with the same seed, population and version of pymoo.
        lanes: environments that share the work, one per worker if None; at most 16 have something to do.

    Raises:
        ValueError: when the environment has no reward space, its compiler no options, the population is too small, or
            `resume` is of another search.
        ImportError: when pymoo is not installed; `pip install 'aiocg[search]'` does that.
        ServiceError: when the workers cannot do their part.
    """
    if population <= WINDOW:
        raise ValueError(f"a population is more than {WINDOW} command lines, not {population}")
    return await search_command_lines(
        "genetic",
        env,
        lambda variation, seed: _Breeder(variation, seed, population),
        budget=budget,
        seed=seed,
        progress=progress,
        resume=resume,
        lanes=lanes,
    )


class _Breeder:
    """Pymoo's genetic algorithm in steady state: one child at a time, from whoever is in the population by then."""

    def __init__(self, variation: Variation, seed: int, population: int) -> None:
        self._pymoo = _import_pymoo()
        self._algorithm = self._pymoo.algorithm(variation, seed, population)
        self._starts = deque(_choices(one) for one in self._algorithm.ask())

    def ask(self) -> Choices:
        """Return a member of the first population or, when there are no more, a child."""
        return self._starts.popleft() if self._starts else _choices(self._algorithm.ask()[0])

    def tell(self, choices: Choices, reward: float) -> None:
        """Let it live if it is better than the worst; of equally good ones the one that takes fewer options is."""
        given = sum(choice >= 0 for choice in choices)
        cost = -reward + SPARING * max(abs(reward), 1.0) * given
        self._algorithm.tell(infills=self._pymoo.member(choices, cost))


def _choices(individual: Any) -> Choices:
    return tuple(individual.X.tolist())


def _import_pymoo() -> Any:
    try:
        from aiocg.search import evolution
    except ImportError as error:
        raise ImportError(
            "the genetic search needs pymoo: pip install 'aiocg[search]'", name=error.name, path=error.path
        ) from error
    return evolution
