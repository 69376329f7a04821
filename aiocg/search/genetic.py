"""A genetic algorithm over whole command lines, which is pymoo's with operators for options."""

from collections import deque
from typing import Any, Unpack

from aiocg.env.env import Env
from aiocg.search.command_lines import WINDOW, search_command_lines
from aiocg.search.driver import Options
from aiocg.search.result import SearchResult
from aiocg.search.variation import Choices, Variation
from aiocg.search.vectors import needed

__all__ = ["genetic"]

POPULATION = 50
SPARING = 1e-9  # of a reward, what an option must bring to be worth giving


async def genetic(env: Env, *, seed: int = 0, population: int = POPULATION, **options: Unpack[Options]) -> SearchResult:
    """Breed command lines: cross two good ones, option by option, change a few options, and let the worst go.

    A few lines of options that are known to help are evaluated first. The population begins with no option at all, with
    each optimisation level alone, and with random command lines. There are no generations: each command line takes part
    as soon as it is its turn, so no worker waits for the others. One that does not compile is worth nothing, and counts
    as one that was evaluated.

    Args:
        env: of a compiler with options, such as `gcc-v0`, with a reward space. If its action space is none of whole
            command lines, the compiler's first such space is searched.
        seed: of all random choices.
        population: command lines that are kept; more of them take longer and find more.
        **options: see `aiocg.search.Options`; the budget is 1,000 evaluations if there is none, and of the lanes at
            most 16 have something to do. A search is resumed with the same population and version of pymoo.

    Raises:
        ValueError: when the environment has no reward space, its compiler no options, the population is too small, or
            `resume` is of another search.
        ImportError: when pymoo is not installed; `pip install 'aiocg[search]'` does that.
        ServiceError: when the workers cannot do their part.
    """
    if population <= WINDOW:
        raise ValueError(f"a population is more than {WINDOW} command lines, not {population}")
    return await search_command_lines(
        "genetic", env, lambda variation: _Breeder(variation, seed, population), **options
    )


class _Breeder:
    """Pymoo's genetic algorithm in steady state: one child at a time, from whoever is in the population by then."""

    def __init__(self, variation: Variation, seed: int, population: int) -> None:
        self._pymoo = needed("aiocg.search.breeding", "search")
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
