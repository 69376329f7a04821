"""The current episode: a small value that forks and snapshots copy."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.env.plan import Plan
from aiocg.errors import EnvClosed, ResetNeeded
from aiocg.fleet.session import Session


@dataclasses.dataclass(slots=True)
class Episode:
    """One episode, from its reset to the last reply received.

    Attributes:
        benchmark: the program.
        costs: observations of the current state that rewards need, by name.
        baselines: observations of the benchmark that rewards need, by name.
        expected_costs, expected_baselines: the keys that `costs` and `baselines` will have when all requests are
            answered.
        reward: sum of the rewards in the default reward space.
        terminated: the episode has ended with an error.
        errors: why costs or baselines could not be observed, by name.
        started: time of the reset, in seconds of the monotonic clock.
    """

    benchmark: Benchmark
    costs: dict[str, Any]
    baselines: dict[str, Any]
    expected_costs: frozenset[str]
    expected_baselines: frozenset[str]
    reward: float = 0.0
    terminated: bool = False
    errors: dict[str, Exception] = dataclasses.field(default_factory=dict)
    started: float = dataclasses.field(default_factory=time.monotonic)

    @classmethod
    def start(cls, benchmark: Benchmark, values: Mapping[str, Any]) -> "Episode":
        """Begin with the costs and baselines observed at the reset, without the observations, which may be large."""
        names = frozenset(values)
        return cls(benchmark, dict(values), dict(values), names, names)

    def copy(self) -> "Episode":
        """Return an independent copy, without what requests in flight will observe."""
        known = frozenset(self.costs)
        return dataclasses.replace(
            self,
            costs=dict(self.costs),
            baselines=dict(self.baselines),
            expected_costs=known,
            expected_baselines=frozenset(self.baselines),
        )

    @property
    def walltime(self) -> float:
        """Seconds since the reset."""
        return time.monotonic() - self.started

    def missing(self, plan: Plan) -> tuple[str, ...]:
        """Return the names to observe before a plan's rewards can be computed."""
        return tuple(sorted((plan.costs - self.expected_costs) | (plan.baselines - self.expected_baselines)))

    def expect(self, plan: Plan) -> None:
        """Record that what a plan's rewards need has been requested."""
        self.expected_costs |= plan.costs
        self.expected_baselines |= plan.baselines

    def learn(self, values: Mapping[str, Any]) -> None:
        """Record observations of the current state and of the benchmark."""
        self.costs |= values
        self.baselines |= values

    def not_learned(self, names: Sequence[str], error: Exception) -> None:
        """Record that observations failed; they may be requested again."""
        self.expected_costs -= set(names)
        self.expected_baselines -= set(names)
        self.errors |= dict.fromkeys(names, error)

    def lose_costs(self, error: Exception) -> None:
        """Record that the costs of the state after a step could not be computed; they may be requested again."""
        self.errors |= dict.fromkeys(self.expected_costs, error)
        self.costs, self.expected_costs = {}, frozenset()

    def rewards(self, plan: Plan, after: Mapping[str, Any]) -> list[float]:
        """Return the rewards for going from the current state to one with the costs `after`."""
        try:
            return [reward.reward(self.costs, after, self.baselines) for reward in plan.rewards]
        except KeyError as error:
            raise self.errors.get(error.args[0], error) from None

    def advance(self, plan: Plan, costs: dict[str, Any], reward_space: str | None) -> Any:
        """Move to the state after a step and return its rewards; the default one is added to `reward`."""
        try:
            values = self.rewards(plan, costs)
        finally:
            self.costs = costs
        return self._add(plan, values, reward_space)

    def fail(self, plan: Plan, reward_space: str | None) -> Any:
        """End the episode with an error and return the rewards for that."""
        self.terminated = True
        return self._add(plan, [reward.reward_on_error(self.reward) for reward in plan.rewards], reward_space)

    def _add(self, plan: Plan, values: list[float], reward_space: str | None) -> Any:
        if reward_space in plan.reward_names:
            self.reward += values[plan.reward_names.index(reward_space)]
        return plan.reward(values)


# ------------------------------------------- Remembered states: forks of a session that keep a state on the worker


class Snapshot:
    """A state that `Env.snapshot` remembers, kept on the worker until the snapshot is dropped or closed."""

    def __init__(self, session: Session, episode: Episode) -> None:
        self.session = session
        self.episode = episode

    @property
    def closed(self) -> bool:
        """Was the snapshot closed?"""
        return self.session.closed

    def check(self) -> None:
        """Check that the state can still be restored.

        Raises:
            EnvClosed: if the snapshot was closed.
            ResetNeeded: if the worker died and the state could not be rebuilt.
        """
        if self.session.closed:
            raise EnvClosed("this snapshot was closed")
        if self.session.error is not None:
            raise ResetNeeded(f"this snapshot could not be kept: {self.session.error}")

    def close(self) -> None:
        """Free the state on the worker."""
        self.session.close()


async def fork_into(child: Session, session: Session, episode: Episode) -> Episode:
    """Give a new session the state of another, and return a copy of that one's episode; seldom waits."""
    if session.fork_ahead(child):
        return episode.copy()
    try:
        copy: Episode = await session.fork(child, lambda reply: episode.copy())
    except BaseException:
        child.close()  # an error keeps it alive, and so its memory on the worker
        raise
    return copy
