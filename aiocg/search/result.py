"""What a search reports while it runs, returns at its end, and needs to go on later."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from aiocg.env import Env
from aiocg.search.budget import Meter

__all__ = ["Progress", "ProgressCallback", "Record", "SearchResult", "SearchState", "reward_space_of"]


class SearchState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a search stands: enough to go on from there, and plain enough for JSON.

    Attributes:
        algorithm: "random", "greedy", "beam", "hill_climb", "genetic" or "screening".
        environment, benchmark, reward_space, action_space: what is searched.
        actions, reward: the best found, texts of actions and the return that they earn.
        frontier: the action lists that the search would extend next.
        frontier_rewards: the returns that they earn, where the search needs them.
        seen: 64-bit hashes of the states that need no second visit.
        round: number of steps, levels, episodes or command lines that are done.
        repeated: evaluations that a resumed search does again without counting them again.
        outcomes: what whole command lines earn, in the order in which the search proposes them; None for those that
            failed.
        evaluations: number of states evaluated.
        elapsed: seconds spent.
    """

    algorithm: str
    environment: str
    benchmark: str
    reward_space: str
    action_space: str
    actions: tuple[str, ...] = ()
    reward: float = 0.0
    frontier: tuple[tuple[str, ...], ...] = ()
    frontier_rewards: tuple[float, ...] = ()
    seen: tuple[int, ...] = ()
    round: int = 0
    repeated: int = 0
    outcomes: tuple[float | None, ...] = ()
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
        round: number of steps, levels, episodes or command lines that are done.
        evaluations: number of states evaluated.
        elapsed: seconds spent.
    """

    actions: tuple[str, ...]
    reward: float
    round: int
    evaluations: int
    elapsed: float


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        actions: texts of the best action list; empty if nothing is better than the program as it was.
        reward: the return that it earns.
        evaluations: number of states evaluated.
        elapsed: seconds spent.
        complete: False if the budget ended the search.
        state: to resume from.
    """

    actions: tuple[str, ...]
    reward: float
    evaluations: int
    elapsed: float
    complete: bool
    state: SearchState


class Record:
    """Keeps the best of a search and tells of progress."""

    def __init__(
        self,
        algorithm: str,
        env: Env,
        meter: Meter,
        progress: ProgressCallback | None,
        resume: SearchState | None,
        *,
        action_space: str = "",
    ) -> None:
        """Begin a record.

        Args:
            algorithm, env, meter, progress, resume: of the search.
            action_space: that is searched, if not the environment's present one.
        """
        reward_space = reward_space_of(env)
        self._base = SearchState(
            algorithm=algorithm,
            environment=env.spec.id,
            benchmark=str(env.benchmark.uri),
            reward_space=reward_space,
            action_space=action_space or env.action_space.name,
        )
        if resume is not None:
            _check_resumable(self._base, resume)
        self.meter = meter
        self._progress = progress
        self._before = resume
        self._last_report = 0.0
        self._last_best: tuple[str, ...] | None = None
        self._env = env
        self.actions: tuple[str, ...] = resume.actions if resume is not None else ()
        self.reward = resume.reward if resume is not None else 0.0
        self.round = resume.round if resume is not None else 0

    def rank(self, actions: Iterable[str]) -> tuple[Any, ...]:
        """Return where an action list comes in the order of the action space."""
        return tuple(map(self._env.action_space.rank, actions))

    def offer(self, actions: tuple[str, ...], reward: float) -> bool:
        """Take over an action list if it is better than the best: more reward, then fewer actions, then order."""
        better = (reward, -len(actions)) > (self.reward, -len(self.actions)) or (
            reward == self.reward and len(actions) == len(self.actions) and self.rank(actions) < self.rank(self.actions)
        )
        if better:
            self.actions, self.reward = actions, reward
        return better

    def report(self) -> None:
        """Tell of progress: of each new best, and else at most twenty times a second."""
        now = time.monotonic()
        if self._progress is not None and (now - self._last_report >= 0.05 or self.actions != self._last_best):
            self._last_report, self._last_best = now, self.actions
            self._progress(Progress(self.actions, self.reward, self.round, self.evaluations, self.elapsed))

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
        frontier: tuple[tuple[str, ...], ...] = (),
        frontier_rewards: tuple[float, ...] = (),
        seen: tuple[int, ...] = (),
        repeated: int = 0,
        outcomes: tuple[float | None, ...] = (),
    ) -> SearchResult:
        """Return what was found."""
        state = msgspec.structs.replace(
            self._base,
            actions=self.actions,
            reward=self.reward,
            frontier=frontier,
            frontier_rewards=frontier_rewards,
            seen=seen,
            repeated=repeated,
            outcomes=outcomes,
            round=self.round,
            evaluations=self.evaluations,
            elapsed=self.elapsed,
        )
        return SearchResult(self.actions, self.reward, self.evaluations, self.elapsed, complete, state)


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
    for name in ("algorithm", "environment", "benchmark", "reward_space", "action_space"):
        here, there = getattr(base, name), getattr(resume, name)
        if here != there:
            raise ValueError(f"the state to resume from is of another search: its {name} is {there!r}, not {here!r}")
