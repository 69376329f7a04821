"""What an environment knows of the episode it is in: a small value that forks and snapshots copy."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.plan import Plan

__all__ = ["Episode"]


@dataclasses.dataclass(slots=True)
class Episode:
    """One episode, from reset to now, as far as replies are in.

    Attributes:
        benchmark: the program.
        costs: cost observations of the present state, by name.
        baselines: baseline observations of the benchmark, by name.
        expected_costs, expected_baselines: names of what `costs` and `baselines` will hold once everything that was
            sent is answered.
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
        """Begin with what was observed for the rewards at the reset; not with observations, which may be large."""
        names = frozenset(values)
        return cls(benchmark, dict(values), dict(values), names, names)

    def copy(self) -> "Episode":
        """Return an independent copy; what is still in flight is not in it."""
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
        """Return what must be observed before a plan's rewards can be computed."""
        if plan.costs <= self.expected_costs and plan.baselines <= self.expected_baselines:
            return ()
        return tuple(sorted((plan.costs - self.expected_costs) | (plan.baselines - self.expected_baselines)))

    def expect(self, plan: Plan) -> None:
        """Take note that what a plan's rewards need has been asked for."""
        self.expected_costs |= plan.costs
        self.expected_baselines |= plan.baselines

    def learn(self, values: Mapping[str, Any]) -> None:
        """Take over what was observed of the present state and of the benchmark."""
        self.costs |= values
        self.baselines |= values

    def not_learned(self, names: Sequence[str], error: Exception) -> None:
        """Take note that something could not be observed: it may be asked for again."""
        self.expected_costs -= set(names)
        self.expected_baselines -= set(names)
        self.errors |= dict.fromkeys(names, error)

    def lose_costs(self, error: Exception) -> None:
        """Take note that nothing is known of the state that a step has led to: it may be asked for again."""
        self.errors |= dict.fromkeys(self.expected_costs, error)
        self.costs, self.expected_costs = {}, frozenset()

    def rewards(self, plan: Plan, after: Mapping[str, Any]) -> list[float]:
        """Return what going from the present state to one with the costs `after` is worth."""
        return self._rewards(plan, self.costs, after)

    def _rewards(self, plan: Plan, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[float]:
        try:
            return [reward.reward(before, after, self.baselines) for reward in plan.rewards]
        except KeyError as error:
            raise self.errors.get(error.args[0], error) from None

    def advance(self, plan: Plan, costs: dict[str, Any], reward_space: str | None) -> Any:
        """Go to the state that a step has led to and return its rewards, adding the default one to the return."""
        before, self.costs = self.costs, costs
        values = self._rewards(plan, before, self.costs)
        self._account(plan, values, reward_space)
        return plan.reward(values)

    def fail(self, plan: Plan, reward_space: str | None) -> Any:
        """End with an error and return the rewards for that."""
        self.terminated = True
        values = [reward.reward_on_error(self.reward) for reward in plan.rewards]
        self._account(plan, values, reward_space)
        return plan.reward(values)

    def _account(self, plan: Plan, values: list[float], reward_space: str | None) -> None:
        for reward, value in zip(plan.rewards, values, strict=True):
            if reward.name == reward_space:
                self.reward += value
                return
