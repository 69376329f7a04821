"""What an environment knows of the episode it is in: a small value that forks and snapshots copy."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.rewards import Reward

__all__ = ["Episode", "Plan"]


@dataclasses.dataclass(slots=True)
class Episode:
    """One episode, from reset to now, as far as replies are in.

    Attributes:
        benchmark: the program.
        reward: sum of the rewards in the default reward space.
        terminated: the episode has ended with an error.
        values: cost observations of the present state, by name.
        baselines: baseline observations of the benchmark, by name.
        started: time of the reset, in seconds of the monotonic clock.
        awaited: names of the observations that `values` and `baselines` will hold once what is sent is answered.
    """

    benchmark: Benchmark
    reward: float = 0.0
    terminated: bool = False
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    baselines: dict[str, Any] = dataclasses.field(default_factory=dict)
    started: float = dataclasses.field(default_factory=time.monotonic)
    awaited: set[str] = dataclasses.field(default_factory=set)

    def copy(self) -> "Episode":
        """Return an independent copy."""
        return dataclasses.replace(
            self, values=dict(self.values), baselines=dict(self.baselines), awaited=set(self.awaited)
        )

    @property
    def walltime(self) -> float:
        """Seconds since the reset."""
        return time.monotonic() - self.started


class Plan:
    """What one request observes, and how its observations become what the caller asked for.

    A plan depends only on names, so environments build each once and keep it.

    Attributes:
        observe: what the request asks of the worker, without repeats.
        costs, baselines: which of it the rewards need.
    """

    __slots__ = ("_picks", "_single_observation", "_single_reward", "baselines", "costs", "observe", "rewards")

    def __init__(
        self, observations: Sequence[str] | str | None, rewards: Sequence[Reward] | Reward | None
    ) -> None:
        self._single_observation = observations is None or isinstance(observations, str)
        self._single_reward = rewards is None or isinstance(rewards, Reward)
        names: list[str] = _as_list(observations)
        self.rewards: list[Reward] = _as_list(rewards)
        self.costs = tuple(dict.fromkeys(name for r in self.rewards for name in r.observation_spaces))
        self.baselines = tuple(dict.fromkeys(name for r in self.rewards for name in r.baseline_spaces))
        self.observe = tuple(dict.fromkeys([*names, *self.costs]))
        self._picks = [self.observe.index(name) for name in names]

    def observation(self, observed: Sequence[Any]) -> Any:
        """Return the observations that the caller asked for: one, a list, or None."""
        picked = [observed[i] for i in self._picks]
        return _shape(picked, self._single_observation)

    def cost_values(self, observed: Sequence[Any]) -> dict[str, Any]:
        """Return the cost observations by name."""
        return {name: observed[self.observe.index(name)] for name in self.costs}

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> Any:
        """Return the rewards that the caller asked for: one, a list, or None."""
        return _shape([r.reward(before, after, baseline) for r in self.rewards], self._single_reward)

    def reward_on_error(self, episode_reward: float) -> Any:
        """Return the rewards of a failed step, in the same form."""
        return _shape([r.reward_on_error(episode_reward) for r in self.rewards], self._single_reward)

    def default_observation(self, defaults: Mapping[str, Any]) -> Any:
        """Return the default observations, in the same form."""
        return _shape([defaults[self.observe[i]] for i in self._picks], self._single_observation)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, str | Reward) else list(value)


def _shape(values: list[Any], single: bool) -> Any:
    if not single:
        return values
    return values[0] if values else None
