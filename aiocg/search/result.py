"""Progress, results and resumable state of a search."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from aiocg.env.env import Env
from aiocg.pictures import stairs
from aiocg.search.baselines import AS_IT_IS, start_of
from aiocg.search.budget import Meter
from aiocg.search.timing import Timing
from aiocg.search.tuner import Outcome
from aiocg.spaces.actions import ActionSpace
from aiocg.states.behaviour import Behaviour


class SearchState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a search stands: enough to go on from there, and plain enough for JSON.

    A search goes on by being done again with the outcomes that are known, which takes no compiler. So what it is
    resumed with, such as the seed, must be the same.

    Attributes:
        algorithm: name of the search, such as "greedy".
        environment, benchmark, reward_space, action_space, start: what is searched.
        actions, reward: the best found, texts of actions and the return that they earn.
        round: number of proposals whose outcomes the search has been told.
        outcomes: what was earned, in the order in which it was proposed; None for what failed.
        states: 64-bit hashes of the states that these came to; 0 for what failed.
        effects: for each action of these, "1" if it changed the state and "0" if not.
        targets: what actions can be applied to in these states; empty where the action space has no targets.
        costs: of these states, where a search asks for any.
        checksum: of what was proposed.
        evaluations: number of states evaluated.
        elapsed: seconds spent.
    """

    algorithm: str
    environment: str
    benchmark: str
    reward_space: str
    action_space: str
    start: str = AS_IT_IS
    actions: tuple[str, ...] = ()
    reward: float = 0.0
    round: int = 0
    outcomes: tuple[float | None, ...] = ()
    states: tuple[int, ...] = ()
    effects: tuple[str, ...] = ()
    targets: tuple[tuple[str, ...], ...] = ()
    costs: tuple[tuple[float, ...], ...] = ()
    checksum: int = 0
    evaluations: int = 0
    elapsed: float = 0.0

    def to_json(self) -> str:
        """Return the state as one JSON object."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "SearchState":
        """Read what `to_json` wrote.

        Raises:
            msgspec.DecodeError: when the text is not such a state.
        """
        return msgspec.json.decode(text, type=cls)


@dataclass(frozen=True, slots=True)
class Progress:
    """A search under way.

    Attributes:
        actions, reward: the best found so far.
        round: number of proposals whose outcomes the search has been told.
        evaluations: number of states evaluated.
        elapsed: seconds spent.
        note: what else there is to say of the best.
    """

    actions: tuple[str, ...]
    reward: float
    round: int
    evaluations: int
    elapsed: float
    note: str = ""


ProgressCallback = Callable[[Progress], None]

WatchCallback = Callable[[Outcome], bool | None]
"""Is told of each candidate that a search has evaluated; the search ends soon if it returns False."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What a search did to find out whether programs still do what they should.

    Attributes:
        behaviour: of what was found: `SAME` if each new best was run and did what the reference does.
        reason: what was seen, or why nothing was.
        runs: number of programs that were run.
        wrong: how many of these did something else, and were not believed.
        seconds: what that took, all in all.
        undefined: signs that the behaviour of the program is undefined, so that optimising may change it: warnings of
            the compiler, and what a sanitizer finds.
        broken: the first list of actions that made the program do something else.
        unwatched: why no sanitizer could look for undefined behaviour then; "" if one could.
    """

    behaviour: Behaviour = Behaviour.NOT_RUN
    reason: str = "programs were not run"
    runs: int = 0
    wrong: int = 0
    seconds: float = 0.0
    undefined: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    unwatched: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can say it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        actions: texts of the best action list; empty if nothing is better than the program as it was. Apply them with
            `env.step_texts`: those of a baseline, such as `default<Oz>`, need not be in the action space.
        reward: the return that it earns.
        evaluations: number of states evaluated, without those of the baselines.
        elapsed: seconds spent.
        complete: False if the budget ended the search.
        state: to resume from.
        baselines: what the compiler's own levels earn, by name; "O0" is the program as it was.
        start: the baseline that the list begins with, "O0" if it begins with none.
        improved: False if the list is nothing but that baseline, since nothing better was found.
        timing: how long the program runs, of searches that measure that.
        checks: whether what was found was run, and what that took.
        levels: seconds until the search could begin, since it had something to compare with.
    """

    actions: tuple[str, ...]
    reward: float
    evaluations: int
    elapsed: float
    complete: bool
    state: SearchState
    baselines: Mapping[str, float] = field(default_factory=dict)
    start: str = AS_IT_IS
    improved: bool = True
    timing: Timing | None = None
    checks: Checks = field(default_factory=Checks)
    levels: float = 0.0

    def svg(self, course: Sequence[tuple[int, float]] = ()) -> str:
        """Draw the highest reward of what was tried after so many evaluations, beside the compiler's levels, as SVG.

        Args:
            course: evaluations and rewards as `progress` was told them, for searches whose state does not have them.
        """
        tried = [(number, one) for number, one in enumerate(self.state.outcomes, 1) if one is not None]
        points = [(0, 0.0)]
        for number, reward in tried or [*course, (self.evaluations, self.reward)]:
            if reward > points[-1][1]:
                points.append((number, reward))
        points.append((max(self.evaluations, points[-1][0]), points[-1][1]))
        levels = {name: earned for name, earned in self.baselines.items() if name != AS_IT_IS}
        about = f"{self.state.algorithm} search, {self.state.benchmark.removeprefix('benchmark://')}"
        up = f"{about}: {self.state.reward_space}"
        return stairs({about: points}, levels, across="evaluations", up=up, title=about)

    def _repr_svg_(self) -> str:
        return self.svg()


def begin_state(name: str, env: Env, space: ActionSpace | None = None, start: str = AS_IT_IS) -> SearchState:
    """Return the state of a search that has not begun: what is searched, and in which action space.

    Raises:
        ValueError: when the environment has no reward space.
    """
    return SearchState(
        algorithm=name,
        environment=env.spec.id,
        benchmark=str(env.benchmark.uri),
        reward_space=reward_space_of(env),
        action_space=(space or env.action_space).name,
        start=start,
    )


@dataclass(slots=True, eq=False)
class Record:
    """Keeps the best of a search and tells of progress.

    Args:
        _base: what is searched, and how.
        meter: of the budget.
        _rank: sorts lists of actions that are equally good and long.
        _progress, _before, _watch: `progress`, `resume` and `watch` of the search.

    Raises:
        ValueError: when `_before` is of another search.
    """

    _base: SearchState
    meter: Meter
    _rank: Callable[[tuple[str, ...]], Any]
    _progress: ProgressCallback | None
    _before: SearchState | None
    _watch: WatchCallback | None = None
    actions: tuple[str, ...] = field(default=(), init=False)
    reward: float = field(default=0.0, init=False)
    round: int = field(default=0, init=False)
    note: str = field(default="", init=False)
    _last_report: float = field(default=0.0, init=False)
    _last_best: tuple[str, ...] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self._before is not None:
            _check_resumable(self._base, self._before)
            self.actions, self.reward = self._before.actions, self._before.reward

    def key(self, actions: tuple[str, ...], reward: float) -> tuple[float, int, Any]:
        """Return what action lists are ordered by, the best first: more reward, then fewer actions, then order."""
        return -reward, len(actions), self._rank(actions)

    def would_take(self, actions: tuple[str, ...], reward: float) -> bool:
        """Return whether an action list is better than the best."""
        if reward < self.reward or actions == self.actions:
            return False
        return self.key(actions, reward) <= self.key(self.actions, self.reward)

    def offer(self, actions: tuple[str, ...], reward: float) -> None:
        """Take over an action list if it is better than the best."""
        if self.would_take(actions, reward):
            self.actions, self.reward = actions, reward

    def tell(self, outcome: Outcome) -> None:
        """Tell who watches the search of an outcome, and end the search if that is the wish."""
        if self._watch is not None and self._watch(outcome) is False:
            self.meter.stopped = True

    def report(self) -> None:
        """Tell of progress: of each new best, and else at most twenty times a second."""
        now = time.monotonic()
        if self._progress is not None and (now - self._last_report >= 0.05 or self.actions != self._last_best):
            self._last_report, self._last_best = now, self.actions
            self._progress(Progress(self.actions, self.reward, self.round, self.evaluations, self.elapsed, self.note))

    @property
    def evaluations(self) -> int:
        """Number of states evaluated, before and after resuming."""
        return self.meter.evaluations + (self._before.evaluations if self._before is not None else 0)

    @property
    def elapsed(self) -> float:
        """Seconds spent, before and after resuming."""
        return self.meter.elapsed + (self._before.elapsed if self._before is not None else 0.0)

    def result(
        self,
        *,
        complete: bool,
        baselines: Mapping[str, tuple[str, ...]],
        earned: Mapping[str, float],
        state: SearchState | None = None,
        checks: Checks | None = None,
    ) -> SearchResult:
        """Return what was found.

        Args:
            complete: False if the budget ended the search.
            baselines: what no search may do worse than, by name.
            earned: what these earn.
            state: to resume from; without it only the best is known there.
            checks: of what was found.
        """
        return SearchResult(
            self.actions,
            self.reward,
            self.evaluations,
            self.elapsed,
            complete,
            state or self.state(),
            baselines=earned,
            start=start_of(self.actions, baselines),
            improved=self.actions not in baselines.values(),
            checks=checks or Checks(),
        )

    def state(self, **known: Any) -> SearchState:
        """Return where the search stands, with what else is known of it."""
        return msgspec.structs.replace(
            self._base,
            actions=self.actions,
            reward=self.reward,
            round=self.round,
            evaluations=self.evaluations,
            elapsed=self.elapsed,
            **known,
        )


def reward_space_of(env: Env) -> str:
    """Return the reward space that a search maximises.

    Raises:
        ValueError: when the environment has none.
    """
    if env.reward_space is None:
        raise ValueError(
            f"a search needs a reward space: make the environment with one of {', '.join(env.reward_spaces)}"
        )
    return env.reward_space


def _check_resumable(base: SearchState, resume: SearchState) -> None:
    for name in ("algorithm", "environment", "benchmark", "reward_space", "action_space", "start"):
        here, there = getattr(base, name), getattr(resume, name)
        if here != there:
            raise ValueError(f"the state to resume from is of another search: its {name} is {there!r}, not {here!r}")
