"""Multi-objective search, such as for size and speed."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.errors import ServiceError
from aiocg.search._driver import LINES, Alphabet, Options, Pace, tune
from aiocg.search._prefix_evaluation import median_of
from aiocg.search.baselines import AS_IT_IS, baselines, beginning
from aiocg.search.budget import Budget
from aiocg.search.lanes import go_to
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome, Proposal
from aiocg.search.vectors import LENGTH, Encoding, Finite, encode, needed
from aiocg.spaces.actions import OptionActions
from aiocg.spaces.rewards import CostReward, RuntimeReward

DEFAULT_BUDGET = Budget(evaluations=1000)
POPULATION = 32
CHILDREN = 16
PACE = Pace(batch=CHILDREN, ahead=1)


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A program that no other one found is better than in one respect and at least as good as in all.

    Attributes:
        actions: what makes it, as in `SearchResult.actions`.
        costs: of it, the less the better.
        baseline: the name of the compiler's own level that it is; empty if it was found.
    """

    actions: tuple[str, ...]
    costs: tuple[float, ...]
    baseline: str = ""


@dataclass(frozen=True, slots=True)
class ParetoResult:
    """What a search for a front has found.

    Attributes:
        costs: the observations that points have costs of.
        points: the front, by the first cost.
        baselines: what the compiler's own levels cost, by name; "O0" is the program as it was.
        search: the evaluations, the time, and the state to resume from.
    """

    costs: tuple[str, ...]
    points: tuple[ParetoPoint, ...]
    baselines: Mapping[str, tuple[float, ...]]
    search: SearchResult


async def pareto(
    env: Env, costs: Sequence[str], *, seed: int = 0, length: int = LENGTH, **options: Unpack[Options]
) -> ParetoResult:
    """Search for programs that trade one cost for another, by NSGA-II of pymoo, such as bytes for time::

        found = await aiocg.search.pareto(env, costs=("ObjectImageSizeBytes", "Runtime"), start="Oz")

    Each list has an action, or none, at each place; where an action is a whole command line, it has a choice for each
    option. The front has those of the compiler's own levels that nothing found is better than. What was measured is
    measured again at the end, since the least of many times is a lucky one. The environment is left at the first point.

    Args:
        env: with an action space in which actions do not depend on the state. Its reward space does not matter.
        costs: two or more observations that a reward space lowers, or reward spaces that lower one.
        seed: of all random choices.
        length: actions of a list, at most, without those of `start`.
        **options: see `aiocg.search.Options`; the budget is 1,000 evaluations if there is none. Nothing is minimized.

    Raises:
        ValueError: when there are less than two costs, no reward space lowers one of them, the actions depend on the
            state, and as `aiocg.search.tune` does.
        ImportError: when pymoo is not installed; `pip install 'aiocg[search]'` does that.
        ServiceError: see `aiocg.search.tune`.
    """
    lowered = dict([_cost_of(env, name) for name in costs])
    if len(lowered) < 2:
        raise ValueError(f"a front is of two costs or more, not of {', '.join(lowered) or 'none'}")
    names, space, before = tuple(lowered), env.action_space, env.reward_space
    made: list[_FrontBreeder] = []

    def tuner(alphabet: Alphabet) -> _FrontBreeder:
        begin = beginning(env, options.get("start", AS_IT_IS))
        made.append(_FrontBreeder(encode(space, alphabet, length), len(names), seed, begin))
        return made[0]

    options["minimize"] = False
    env.reward_space = min(lowered.values(), key=lambda name: not env.reward_spaces[name].deterministic)
    try:
        name, pace = f"pareto {' '.join(names)}", LINES if isinstance(space, OptionActions) else PACE
        found = await tune(env, tuner, name=name, pace=pace, default=DEFAULT_BUDGET, costs=names, **options)
        levels = {name: await _cost_at(env, actions, names) for name, actions in baselines(env).items()}
        points = made[0].points
        if not all(env.reward_spaces[reward].deterministic for reward in lowered.values()):
            points = [ParetoPoint(one.actions, await _cost_at(env, one.actions, names)) for one in points]
        known = [ParetoPoint(baselines(env)[name], cost, name) for name, cost in levels.items()]
        front = front_of([*known, *points])
        await go_to(env, front[0].actions if front else ())
    finally:
        env.reward_space = before
    return ParetoResult(names, tuple(front), levels, found)


def front_of(points: Iterable[ParetoPoint]) -> list[ParetoPoint]:
    """Return the points that no other one is as good as or better than, by cost; of equal ones the first."""
    front: list[ParetoPoint] = []
    for point in sorted(points, key=lambda one: one.costs):  # so that no later one is better than an earlier one
        better = (all(cost <= mine for cost, mine in zip(one.costs, point.costs, strict=True)) for one in front)
        if np.isfinite(point.costs).all() and not any(better):
            front.append(point)
    return front


class _FrontBreeder:
    """Proposes generations of NSGA-II, and remembers the front.

    Attributes:
        points: the best of what it was told of, with the actions before its own.
    """

    def __init__(self, encoding: Encoding, objectives: int, seed: int, before: tuple[str, ...] = ()) -> None:
        self._encoding = encoding
        self._before = before
        breeding = needed("aiocg.search._breeding", "search")
        self._algorithm = breeding.front_algorithm(encoding, objectives, seed, POPULATION, CHILDREN)
        self._finite = [Finite() for _ in range(objectives)]
        self._generation: Any = ()
        self._left: deque[int] = deque()
        self._costs: dict[int, list[float]] = {}
        self.points: list[ParetoPoint] = []

    def ask(self, count: int) -> list[Proposal]:
        """Return more of a generation; nothing while some of the one before are not told, or when there is no other."""
        if not self._left:
            size = len(self._generation)
            if len(self._costs) < size:
                return []
            if size:
                self._generation.set("F", np.array([self._costs[index] for index in range(size)]))
                self._algorithm.tell(infills=self._generation)
            children = self._algorithm.ask()
            self._generation, self._costs = () if children is None else children, {}
            self._left.extend(range(len(self._generation)))
        indices = [self._left.popleft() for _ in range(min(count, len(self._left)))]
        return [Proposal(self._encoding.actions(self._generation[index].X.tolist()), index) for index in indices]

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Take note of the costs, and of the point if it is one of the front."""
        costs = outcome.costs or (np.inf,) * len(self._finite)
        self._costs[proposal.tag] = [finite(cost) for finite, cost in zip(self._finite, costs, strict=True)]
        if not outcome.failed:
            self.points = front_of([*self.points, ParetoPoint((*self._before, *outcome.actions), costs)])


def _cost_of(env: Env, name: str) -> tuple[str, str]:
    """Return the observation that is meant, and a reward space that lowers it.

    Raises:
        ValueError: when there is none.
    """
    rewards = {key: one for key, one in env.reward_spaces.items() if isinstance(one, (CostReward, RuntimeReward))}
    for reward in (name, *rewards):
        if reward in rewards and (reward == name or rewards[reward].observation_spaces == (name,)):
            return rewards[reward].observation_spaces[0], reward
    known = sorted({one.observation_spaces[0] for one in rewards.values()})
    raise ValueError(f"{name!r} is no cost of {env.spec.id}; these are: {', '.join(known)}")


async def _cost_at(env: Env, actions: tuple[str, ...], names: Sequence[str]) -> tuple[float, ...]:
    """Observe the costs after some actions; infinite if these fail."""
    try:
        await go_to(env, actions)
        return tuple([median_of(value) for value in await env.observe(*names)])
    except ServiceError:
        await env.reset()
        return (np.inf,) * len(names)
