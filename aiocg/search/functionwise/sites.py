"""A base that is being searched: the lanes that are there and what is known of its functions."""

from dataclasses import dataclass

from aiocg.env.env import Env
from aiocg.search.functionwise.bases import Actions
from aiocg.search.functionwise.population import Population, text_of

__all__ = ["Site"]

POLISHED = 1.05  # factor on the cost of what an optimisation level has made, as that improves least afterwards


@dataclass(slots=True)
class Site:
    """A base, opened on every lane.

    Attributes:
        actions: the actions that lead to the base.
        lanes: environments at the base.
        population: its functions and their best passes.
        rest: the program's cost outside of its functions.
    """

    actions: Actions
    lanes: list[Env]
    population: Population
    rest: float
    _turn: int = 0

    @property
    def cost(self) -> float:
        """The cost of the program with the best passes for each function."""
        return self.rest + self.population.cost

    @property
    def promise(self) -> float:
        """The cost by which bases are compared before all have had their time: the lower, the better."""
        polished = self.population.has_tried_core and any("default<" in action for action in self.actions)
        return self.cost * (POLISHED if polished else 1)

    def combined(self) -> Actions:
        """Return the actions that lead to the program with the best passes for each function."""
        best = self.population.best
        removal = ("globaldce",) if self.population.some_dead else ()
        return (*self.actions, *((text_of(best),) if best else ()), *removal)

    def next_lane(self) -> Env:
        """Return the lanes in turn."""
        self._turn += 1
        return self.lanes[self._turn % len(self.lanes)]

    async def close(self) -> None:
        """Close the lanes."""
        for lane in self.lanes:
            await lane.close()
