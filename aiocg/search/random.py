"""Random search: random walks, each given up when it has not improved for a while."""

import numpy as np

from aiocg.env import Env
from aiocg.search.budget import Budget
from aiocg.search.lanes import each, open_lanes, spread
from aiocg.search.result import ProgressCallback, Record, SearchResult, SearchState

__all__ = ["random"]

DEFAULT_BUDGET = Budget(evaluations=10_000)


async def random(
    env: Env,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    patience: int | None = None,
    progress: ProgressCallback | None = None,
    resume: SearchState | None = None,
    lanes: int | None = None,
) -> SearchResult:
    """Walk at random, remembering the best state seen; start again after `patience` steps without a new best.

    Episodes are numbered, each with its own random stream, so that the same seed and number of evaluations give the
    same result however many workers share the work. The environment is left wherever its last walk ended.

    Args:
        env: with a reward space.
        budget: when to stop; 10,000 evaluations if None.
        seed: of all random choices.
        patience: steps without improvement on the walk's own best before it is given up; the number of actions if None.
        progress: called now and then.
        resume: the `state` of an earlier result; the episodes are counted on.
        lanes: environments that share the work, one per worker if None.

    Raises:
        ValueError: when the environment has no reward space, or `resume` is of another search.
        ServiceError: when the workers cannot do their part.
    """
    meter = (budget or DEFAULT_BUDGET).start()
    record = Record("random", env, meter, progress, resume)
    search = _RandomSearch(record, seed, patience or len(record.names))
    async with open_lanes(env, lanes) as crew:
        await spread(each(crew, search.walk_on))
    return record.result(complete=False)


class _RandomSearch:
    """Hands out episodes to the lanes. An episode may use what is left of the budget when it starts."""

    def __init__(self, record: Record, seed: int, patience: int) -> None:
        self._record = record
        self._seed = seed
        self._patience = patience

    async def walk_on(self, lane: Env) -> None:
        """Walk one episode after the other until the budget is used up."""
        while not self._record.meter.exhausted:
            number = self._record.round
            self._record.round += 1
            await self._walk(lane, np.random.default_rng([self._seed, number]))

    async def _walk(self, lane: Env, rng: np.random.Generator) -> None:
        record = self._record
        await lane.reset()
        actions: tuple[int, ...] = ()
        total = best = 0.0
        idle = 0
        while idle < self._patience and not record.meter.exhausted:
            action = int(rng.integers(len(record.names)))
            record.meter.evaluations += 1
            _, reward, terminated, _, info = await lane.step(action, observation_spaces=[])
            if terminated:
                return
            idle += 1
            if info["action_had_no_effect"]:
                continue
            actions, total = (*actions, action), total + reward
            if total > best:
                best, idle = total, 0
                record.offer(actions, total)
            record.report()
