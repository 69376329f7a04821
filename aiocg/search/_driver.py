"""The driver of all searches, and what tuners are given: an alphabet of actions, and levels of proposals."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypedDict, Unpack

import msgspec
import numpy as np

from aiocg.env.env import Env
from aiocg.errors import UnknownName
from aiocg.search._checking import Checker
from aiocg.search._dispatcher import FINAL, Dispatcher, Finals, Memory, Pace
from aiocg.search._prefix_evaluation import Lane
from aiocg.search.baselines import AS_IT_IS, baselines, beginning
from aiocg.search.budget import Budget, checked
from aiocg.search.lanes import go_to, open_lanes
from aiocg.search.result import (
    ProgressCallback,
    Record,
    SearchResult,
    SearchState,
    WatchCallback,
    begin_state,
    reward_space_of,
)
from aiocg.search.tuner import Outcome, Prefixed, Proposal, Tuner
from aiocg.spaces.actions import ActionSpace, TargetedActions
from aiocg.spaces.rewards import CostReward

__all__ = ["MakeTuner", "Options", "Pace", "tune"]


Actions = tuple[str, ...]


class Levels(ABC):
    """Proposes the lists of one level, and makes the next level when all their outcomes are known.

    Args:
        first: the lists of the first level.
    """

    def __init__(self, first: Iterable[Actions]) -> None:
        self._asking = deque(first)
        self._untold = 0

    def ask(self, count: int) -> list[Proposal]:
        """Return lists of the current level that were not returned yet."""
        asked = [Proposal(self._asking.popleft()) for _ in range(min(count, len(self._asking)))]
        self._untold += len(asked)
        return asked

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Learn an outcome; after the last one of a level, go to the next."""
        self._learn(proposal.actions, outcome)
        self._untold -= 1
        if not self._untold and not self._asking:
            self._asking.extend(self._next_level())

    @abstractmethod
    def _learn(self, actions: Actions, outcome: Outcome) -> None:
        """Record an outcome."""

    @abstractmethod
    def _next_level(self) -> Iterable[Actions]:
        """Return the lists of the next level; none if the search has finished."""


class Peeler(Levels):
    """Proposes a list without each of its parts; the parts get smaller until no single action can be left out."""

    def __init__(self, actions: Actions, reward: float) -> None:
        self.actions = actions
        self._reward = reward
        self._size = max(len(actions) // 2, 1)
        self._found: tuple[float, int, Actions] | None = None
        super().__init__(self._without_parts())

    def _learn(self, actions: Actions, outcome: Outcome) -> None:
        found = (outcome.reward, -len(outcome.actions), outcome.actions)
        if outcome.reward >= self._reward and (self._found is None or found > self._found):
            self._found = found

    def _next_level(self) -> list[Actions]:
        """Continue with the best of the lists that are as good, or else with smaller parts."""
        if self._found is not None:
            self._reward, _, self.actions = self._found
            self._found, self._size = None, min(self._size, max(len(self.actions) // 2, 1))
        elif self._size > 1:
            self._size //= 2
        else:
            return []
        return self._without_parts()

    def _without_parts(self) -> list[Actions]:
        starts = range(0, len(self.actions), self._size)
        return [self.actions[:start] + self.actions[start + self._size :] for start in starts]


class Alphabet(Protocol):
    """What actions there are.

    Attributes:
        varies: whether that depends on the state; `Outcome` tells what must be known of it.
    """

    varies: bool

    def texts(self, state: Outcome) -> Sequence[str]:
        """Return the actions worth trying in a state, in a fixed order."""

    def draw(self, rng: np.random.Generator, state: Outcome) -> str:
        """Draw an action for a state."""

    def rank(self, actions: Iterable[str]) -> Any:
        """Return what sorts lists of actions: the same order as that of `texts`."""


class SpaceAlphabet:
    """The actions of an action space."""

    def __init__(self, space: ActionSpace) -> None:
        self._space = space
        self.varies = isinstance(space, TargetedActions)
        self._fixed = () if self.varies else self._texts(space)

    def texts(self, state: Outcome) -> Sequence[str]:
        """Return what the space suggests for the state."""
        return self._texts(self._at(state)) if self.varies else self._fixed

    def draw(self, rng: np.random.Generator, state: Outcome) -> str:
        """Draw any action of the space, with all its parameters."""
        space = self._at(state)
        return space.text(space.draw(rng))

    def rank(self, actions: Iterable[str]) -> Any:
        """Return the places of texts in the order of the space."""
        return tuple(map(self._space.rank, actions))

    def _at(self, state: Outcome) -> ActionSpace:
        space = self._space
        return space.with_targets(state.targets or ()) if isinstance(space, TargetedActions) else space

    @staticmethod
    def _texts(space: ActionSpace) -> tuple[str, ...]:
        return tuple([space.language.text(action) for action in space.encode(space.candidates())])


MakeTuner = Callable[[Alphabet], Tuner]
"""Makes a new tuner for an alphabet of actions."""

MINIMIZING = 0.1  # part of the budget reserved for minimizing
PEELING = Pace(batch=64, ahead=1)
WINDOW = 16  # command lines that may be under way; more lanes than that have nothing to do
LINES = Pace(batch=1, ahead=WINDOW)  # compiles of command lines take very different times


class Options(TypedDict, total=False):
    """Keyword arguments of all searches.

    Attributes:
        budget: when to stop.
        progress: called from time to time.
        resume: the `state` of an earlier result of the same search, with the same seed and other arguments.
        lanes: number of environments that share the work; one per worker if it is not given.
        start: what all lists begin with: "O0" for nothing or, if the compiler has levels, a level such as "Oz"; or
            actions, by their texts.
        minimize: whether to remove actions that the best list does not need. This takes a tenth of the budget, or any
            time if there is no budget. Ignored for rewards that are measured.
        watch: told of each candidate when it was evaluated, in the order of the proposals; returning False ends the
            search soon.
        run: whether programs are run to see that they still do what they did; True if it is not given.
    """

    budget: Budget | None
    progress: ProgressCallback | None
    resume: SearchState | None
    lanes: int | None
    start: str | Sequence[str]
    minimize: bool
    watch: WatchCallback | None
    run: bool


async def tune(
    env: Env,
    tuner: MakeTuner,
    *,
    name: str = "tuner",
    pace: Pace | None = None,
    space: ActionSpace | None = None,
    default: Budget | None = None,
    costs: Sequence[str] = (),
    looks: Sequence[str] = (),
    features: Sequence[str] = (),
    **options: Unpack[Options],
) -> SearchResult:
    """Try a tuner's proposals until the budget is used up or the tuner has finished, and return the best.

    The compiler's own levels are tried first, as many as there is time for, so that the result is never worse than
    those that `SearchResult.baselines` has; `clang -Oz` is always among them. Lists of actions that lead to the same
    state are evaluated and counted once. If rewards are measured, each new best is measured again, because the highest
    of many measurements is too optimistic; and at the end, for which a tenth of the time is kept, the best few are
    measured in turns, and the result is the one with the highest median, which is its reward. If the program can be
    run, each new best is run before it is believed, and lists that break the program have failed; see
    `SearchResult.checks`. A program with a `main` and without runs is run without arguments or input. The environment
    is left at the best state found.

    Args:
        env: an environment with a reward space; it takes part in the work.
        tuner: makes the tuner.
        name: the name of the search in states and results.
        pace: how many proposals the tuner is asked for.
        space: the action space to search; the environment's current one if None.
        default: the budget if the options have none; unlimited if None.
        costs, features: observations that the tuner is told with each outcome: a number each, and all numbers.
        looks: observations that the tuner is told of what it only looks at.
        **options: see `Options`.

    Raises:
        ValueError: if the environment has no reward space, `start` does not exist, or `resume` is of another search.
        UnknownName: for an option that does not exist.
        ServiceError: if the workers fail.
    """
    for option in options.keys() - Options.__annotations__.keys():
        raise UnknownName(f"option of {name}", option, Options.__annotations__)
    space, known = space or env.action_space, baselines(env)
    lines, start = env.action_spaces.language.line is not None, options.get("start", AS_IT_IS)
    prefix = beginning(env, start)
    reward, resume, watch = env.reward_spaces[reward_space_of(env)], options.get("resume"), options.get("watch")
    peels = options.get("minimize", False) and reward.deterministic
    budget = checked(options.get("budget"), default or Budget())
    said = start if isinstance(start, str) else ", ".join(prefix)
    base, alphabet = begin_state(name, env, space, said), SpaceAlphabet(space)
    made = tuner(alphabet)
    if prefix:
        made = Prefixed(made, prefix)
    meter = _main_part(budget, peels, reward.deterministic).start()
    record = Record(base, meter, _rank_lines if lines else alphabet.rank, options.get("progress"), resume, watch)
    if watch is not None:
        made = _Watched(made, record, 0 if resume is None else resume.round)
    memory = Memory(merging=isinstance(reward, CostReward) and reward.deterministic)
    async with open_lanes(env, options.get("lanes")) as crew:
        lanes = [Lane(one, space, costs, looks, features) for one in crew]
        checker = Checker(env, run=options.get("run", True), seconds=budget.seconds)
        finals = None if reward.deterministic else Finals()
        search = Dispatcher(record, made, memory, pace or Pace(), lanes, checker, resume, finals)
        try:
            earned = await search.begin(known)
            levels = meter.elapsed
            await search.run()
            state = search.state()
            record.meter.budget = budget
            if finals is not None:
                record.actions, record.reward = await finals.decide(lanes[0], record.meter, checker.is_right)
            elif peels and record.actions in known.values():  # a level is not minimized: its part is for searching
                await search.run()
                state = search.state()
            elif peels:
                peeler = Peeler(record.actions, record.reward)
                await Dispatcher(record, peeler, memory, PEELING, lanes, checker, None, None).run()
            await checker.explain()
        finally:
            for lane in lanes:
                lane.close()
            await checker.close()
        await go_to(env, record.actions)
    elapsed, checks = state.elapsed if finals is None else record.elapsed, checker.checks()
    state = msgspec.structs.replace(state, actions=record.actions, reward=record.reward, elapsed=elapsed)
    found = record.result(complete=search.exhausted, baselines=known, earned=earned, state=state, checks=checks)
    return replace(found, levels=levels)


class _Watched:
    """A tuner of which somebody watches what it is told, but for what is only repeated to go on from there."""

    def __init__(self, tuner: Tuner, record: Record, repeated: int) -> None:
        self._tuner = tuner
        self._record = record
        self._repeated = repeated
        self.ask = tuner.ask

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Tell the tuner, and whoever watches."""
        self._tuner.tell(proposal, outcome)
        if self._record.round >= self._repeated and not proposal.look:
            self._record.tell(outcome)


def _main_part(budget: Budget, peels: bool, deterministic: bool) -> Budget:
    """Return the part of a budget that is for the tuner's proposals; the rest is for peeling or the finals."""
    if peels:
        return budget.part(1 - MINIMIZING)
    return budget if deterministic else budget.part_of_time(1 - FINAL)


def _rank_lines(actions: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Rank command lines by their number of options."""
    return sum(text.count(" ") for text in actions), actions
