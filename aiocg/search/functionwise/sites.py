"""A base under search: its lanes and the costs of its functions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiocg.env.env import Env
from aiocg.errors import AiocgError
from aiocg.search.functionwise.bases import Actions
from aiocg.search.functionwise.population import Passes, Population, text_of
from aiocg.search.lanes import each, spread

__all__ = ["Chunk", "Costs", "Site", "costs_of", "go_on"]

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


Costs = tuple[Mapping[str, float], int]
"""The cost of each function after a proposal, and the hash of the program, 0 if some passes failed."""

TIMEOUT, TIMEOUT_PER_FUNCTION = 2.0, 0.01  # seconds for one proposal; some passes make code explode


@dataclass(slots=True)
class Chunk:
    """Proposals that are being evaluated."""

    proposals: list[dict[str, Passes]]
    costs: asyncio.Task[list[Costs]]


async def costs_of(
    lane: Env, names: Sequence[str], observation: str, proposals: Sequence[Mapping[str, Passes]]
) -> list[Costs]:
    """Return the cost of each function after each proposal, without functions whose passes fail.

    Args:
        lane: at the state to start from; it stays there.
        names: the names of all functions, in the order of the observation.
        observation: the observation space of function costs.
        proposals: the passes for each function, by name.
    """
    results = await lane.expand_texts(
        [(text_of(proposal),) for proposal in proposals],
        observation_spaces=[observation],
        reward_spaces=[],
        timeout=TIMEOUT + TIMEOUT_PER_FUNCTION * len(names),
    )
    costs: list[Costs] = []
    for proposal, result in zip(proposals, results, strict=True):
        if result.error is None:
            costs.append((dict(zip(names, map(float, result.observation[0]), strict=True)), result.state))
        elif len(proposal) > 1:  # one of the halves may be valid
            items = list(proposal.items())
            halves = [dict(items[: len(items) // 2]), dict(items[len(items) // 2 :])]
            parts = await costs_of(lane, names, observation, halves)
            known = zip(halves, (part for part, _ in parts), strict=True)
            costs.append(({name: part[name] for half, part in known for name in half if name in part}, 0))
        else:
            costs.append(({}, 0))
    return costs


async def go_on(lanes: Sequence[Env], actions: Actions) -> list[Env]:
    """Apply actions to lanes, and return those that are at the same program then.

    Lanes on which an action fails, and those whose program differs from the first one's because a pass is not
    deterministic, are closed.
    """
    succeed = await spread(each(lanes, lambda lane: _succeeds(lane, actions)))
    programs = [lane.state_hash if succeeds else None for lane, succeeds in zip(lanes, succeed, strict=True)]
    first = next((program for program in programs if program is not None), None)
    left = []
    for lane, program in zip(lanes, programs, strict=True):
        if program is None or program != first:
            await lane.close()
        else:
            left.append(lane)
    return left


async def _succeeds(lane: Env, actions: Actions) -> bool:
    try:
        return not actions or not (await lane.step_texts(actions, observation_spaces=[]))[2]
    except AiocgError:
        return False
