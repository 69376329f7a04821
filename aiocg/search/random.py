"""Random search: random walks, each given up when it has not improved for a while, or random command lines."""

from collections import deque

import numpy as np

from aiocg.env import Env
from aiocg.search.budget import Budget
from aiocg.search.command_lines import search_command_lines
from aiocg.search.lanes import each, open_lanes, possible_actions, spread
from aiocg.search.result import ProgressCallback, Record, SearchResult, SearchState
from aiocg.search.variation import Choices, Variation
from aiocg.spaces.actions.options import OptionActions

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

    Where an action is a whole command line, as in the action space `choices` of `gcc-v0`, there is nowhere to walk:
    command lines are drawn, each independent of the others, with one of the optimisation levels and from one other
    option to all of them. One that does not compile counts as one that was evaluated.

    Args:
        env: with a reward space.
        budget: when to stop; 10,000 evaluations if None, of command lines 1,000.
        seed: of all random choices.
        patience: steps without improvement on the walk's own best before it is given up; the number of actions if None.
        progress: called now and then.
        resume: the `state` of an earlier result; the episodes are counted on, and the one that was cut short is
            walked again from its start.
        lanes: environments that share the work, one per worker if None; of those that draw command lines, at most 16
            have something to do.

    Raises:
        ValueError: when the environment has no reward space, or `resume` is of another search.
        ServiceError: when the workers cannot do their part.
    """
    if isinstance(env.action_space, OptionActions):
        return await search_command_lines(
            "random", env, _Drawer, budget=budget, seed=seed, progress=progress, resume=resume, lanes=lanes
        )
    meter = (budget or DEFAULT_BUDGET).start()
    record = Record("random", env, meter, progress, resume)
    async with open_lanes(env, lanes) as crew:
        steps = patience or max(len(possible_actions(env)), 1)
        search = _RandomSearch(record, seed, steps, resume.repeated if resume is not None else 0)
        await spread(each(crew, search.walk_on))
    return record.result(complete=False, repeated=search.settle())


class _Drawer:
    """Proposes random command lines."""

    def __init__(self, variation: Variation, seed: int) -> None:
        self._variation = variation
        self._rng = np.random.default_rng(seed)

    def ask(self) -> Choices:
        """Return another one."""
        return self._variation.draw(self._rng)

    def tell(self, choices: Choices, reward: float) -> None:
        """Learn nothing."""


class _Walk:
    """One episode.

    Attributes:
        number: chooses its random stream.
        repeated: evaluations that an earlier search has paid for.
        evaluations: how many it has used; what is repeated counts up to 0 first.
        finished: it came to its own end.
        bests: what it found, as (evaluations used, actions, return), not offered yet.
    """

    def __init__(self, number: int, repeated: int) -> None:
        self.number = number
        self.repeated = repeated
        self.evaluations = -repeated
        self.finished = False
        self.bests: deque[tuple[int, tuple[str, ...], float]] = deque()


class _RandomSearch:
    """Hands out walks to the lanes.

    The result is that of one walk after the other on one lane: a limit on evaluations ends the walk that reaches it
    when all walks before it are counted, and what lanes have done beyond that is not looked at.
    """

    def __init__(self, record: Record, seed: int, patience: int, repeated: int) -> None:
        self._record = record
        self._seed = seed
        self._patience = patience
        self._repeated = repeated
        self._next = record.round
        self._settled = 0  # evaluations of the walks that are finished, as far as there is no unfinished one before
        self._open: deque[_Walk] = deque()  # those behind, in order

    async def walk_on(self, lane: Env) -> None:
        """Walk one episode after the other until the budget is used up."""
        while self._goes_on(None):
            walk = _Walk(self._next, self._repeated)
            self._repeated = 0
            self._next += 1
            self._open.append(walk)
            await self._walk(lane, walk)

    def _goes_on(self, walk: _Walk | None) -> bool:
        """Is there budget for another evaluation of a walk, or, if None, for another walk?"""
        meter = self._record.meter
        limit = meter.evaluation_limit
        return not meter.out_of_time and (limit is None or self._used(walk) < limit)

    def _used(self, last: _Walk | None = None) -> int:
        """Return the evaluations of all walks up to and including one."""
        used = self._settled
        for walk in self._open:
            used += walk.evaluations
            if walk is last:
                break
        return used

    async def _walk(self, lane: Env, walk: _Walk) -> None:
        rng = np.random.default_rng([self._seed, walk.number])
        await lane.reset()
        actions: tuple[str, ...] = ()
        total = best = 0.0
        idle = 0
        while idle < self._patience:
            if not self._goes_on(walk):
                return
            action = lane.action_space.text(lane.action_space.draw(rng))
            _, reward, terminated, _, info = await lane.step_texts([action], observation_spaces=[])
            walk.evaluations += 1
            if terminated:
                break
            idle += 1
            if not info["action_had_no_effect"]:
                actions, total = (*actions, action), total + reward
                if total > best:
                    best, idle = total, 0
                    walk.bests.append((walk.evaluations, actions, total))
            self.settle()
            self._record.report()
        walk.finished = True
        self.settle()

    def settle(self) -> int:
        """Take over what is certain to be part of the result; return the evaluations of the walk that is under way."""
        record, limit = self._record, self._record.meter.evaluation_limit
        used = self._used()
        record.meter.evaluations = used if limit is None else min(used, limit)
        while self._open:
            walk = self._open[0]
            counted = walk.evaluations if limit is None else min(walk.evaluations, limit - self._settled)
            _offer(record, walk, counted)
            if not walk.finished or counted < walk.evaluations:
                for other in self._open if limit is None else ():
                    _offer(record, other, other.evaluations)
                return counted + walk.repeated
            self._settled += walk.evaluations
            record.round += 1
            self._open.popleft()
        return self._repeated


def _offer(record: Record, walk: _Walk, last: int) -> None:
    while walk.bests and walk.bests[0][0] <= last:
        _, actions, total = walk.bests.popleft()
        record.offer(actions, total)
