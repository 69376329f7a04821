"""The searches that can be watched, and which of them a session has."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiocg import search
from aiocg.search.result import SearchResult
from aiocg.spaces.rewards import CostReward
from aiocg.web.costs import TIME
from aiocg.web.session import ExplorerSession

__all__ = ["Watchable", "watchable"]

SEED = 0
PASSES = ("greedy", "beam", "random", "evolve", "mcts", "portfolio", "policy", "functionwise")
OPTIONS = ("screening", "hill_climb", "genetic", "random")  # of whole command lines
LIBRARIES = ("nevergrad", "opentuner")  # each needs its library
SCHEDULES = ("schedule",)
WITHOUT_SEED = ("greedy", "beam")
SIZES = ("IrInstructionCount", "ObjectImageSizeMinsizeBytes")  # whose functions `functionwise` knows
SPEED = "flops"


@dataclass(frozen=True, slots=True)
class Watchable:
    """A search, as a session has it.

    Attributes:
        search: it.
        reward: the reward space that it maximises.
        anywhere: whether it can begin at any state.
        measured: whether costs are measured; outcomes have them then.
        timed: whether these are running times, and not the costs that the session's nodes have.
    """

    search: Callable[..., Awaitable[SearchResult]]
    reward: str
    anywhere: bool = True
    measured: bool = False
    timed: bool = False

    async def run(self, env: Any, **options: Any) -> SearchResult:
        """Run it."""
        seed = {} if self.search.__name__ in WITHOUT_SEED else {"seed": SEED}
        return await self.search(env, **seed, **options)


def watchable(session: ExplorerSession) -> dict[str, Watchable]:
    """Return the searches that a session can run, the simplest first; none where there is nothing to be searched."""
    env, cost = session.env, session.costs[0]
    lines = env.action_spaces.language.line is not None
    if "templates" in env.observation_spaces and SPEED in env.reward_spaces:
        return {name: Watchable(getattr(search, name), SPEED, anywhere=False, measured=True) for name in SCHEDULES}
    if not isinstance(env.reward_spaces.get(cost), CostReward) or not env.action_space.names:
        return {}
    names = (*(OPTIONS if lines else PASSES), *LIBRARIES)
    known = {name: Watchable(getattr(search, name), cost, anywhere=not lines) for name in names}
    if not lines:
        known["functionwise"] = Watchable(search.functionwise, cost, anywhere=False)
        if cost not in SIZES:
            del known["functionwise"]
        if env.spec.worker != "llvm":
            del known["policy"]
        elif env.benchmark.program is not None and env.benchmark.program.runs:
            known["racing"] = Watchable(search.racing, TIME, anywhere=False, measured=True, timed=True)
    return known
