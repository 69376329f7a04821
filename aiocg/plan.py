"""What a request observes, and how what comes back becomes what the caller asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

from aiocg.errors import UnknownName
from aiocg.rewards import Reward

__all__ = ["Plan", "Plans", "Spaces", "check_known"]

Spaces = Sequence[str] | str | None  # one space by name, several, or none


class Plan:
    """What one request observes, and how its observations become what the caller asked for.

    A plan depends only on names, so environments build each once and keep it.

    Attributes:
        observe: what the request asks of the worker, without repeats.
        rewards: what it is to be rewarded in.
        costs, baselines: what the rewards need to know of the states at both ends, and of the benchmark.
    """

    __slots__ = (
        "_cost_picks",
        "_picks",
        "_single_observation",
        "_single_reward",
        "baselines",
        "costs",
        "observe",
        "rewards",
    )

    def __init__(self, observations: Spaces, rewards: Sequence[Reward], *, single_reward: bool = True) -> None:
        self._single_observation = observations is None or isinstance(observations, str)
        self._single_reward = single_reward
        names = [observations] if isinstance(observations, str) else list(observations or ())
        self.rewards = tuple(rewards)
        self.costs = frozenset(name for reward in rewards for name in reward.observation_spaces)
        self.baselines = frozenset(name for reward in rewards for name in reward.baseline_spaces)
        self.observe = tuple(dict.fromkeys([*names, *sorted(self.costs)]))
        self._picks = [self.observe.index(name) for name in names]
        self._cost_picks = [(name, self.observe.index(name)) for name in self.costs]

    def observation(self, observed: Sequence[Any]) -> Any:
        """Return the observations that the caller asked for: one, a list, or None."""
        return _shape([observed[i] for i in self._picks], self._single_observation)

    def default_observation(self, defaults: Mapping[str, Any]) -> Any:
        """Return the default observations, in the same form."""
        return _shape([defaults[self.observe[i]] for i in self._picks], self._single_observation)

    def cost_values(self, observed: Sequence[Any]) -> dict[str, Any]:
        """Return the cost observations by name."""
        return {name: observed[i] for name, i in self._cost_picks}

    def reward(self, values: list[float]) -> Any:
        """Return the rewards in the form that the caller asked for: one, a list, or None."""
        return _shape(values, self._single_reward)


def _shape(values: list[Any], single: bool) -> Any:
    if not single:
        return values
    return values[0] if values else None


class Plans:
    """The plans that were made so far, by what was asked for."""

    def __init__(self) -> None:
        self._known: dict[Any, Plan] = {}

    def find(
        self,
        observations: Spaces,
        rewards: Spaces,
        observation_spaces: Mapping[str, Any],
        reward_spaces: Mapping[str, Reward],
    ) -> Plan:
        """Return the plan for observations and rewards given by name.

        Raises:
            UnknownName: when a name is not that of a space, or a reward needs an observation that there is not.
        """
        for name in _names(rewards):
            check_known("reward space", name, reward_spaces)
        found = tuple([reward_spaces[name] for name in _names(rewards)])
        key = (_hashable(observations), _hashable(rewards), found)  # a name may come to mean another reward
        plan = self._known.get(key)
        if plan is None:
            plan = Plan(observations, found, single_reward=rewards is None or isinstance(rewards, str))
            for name in (*plan.observe, *plan.baselines):
                check_known("observation space", name, observation_spaces)
            self._known[key] = plan
        return plan


def check_known(kind: str, name: Any, known: Mapping[str, Any]) -> None:
    """Raise UnknownName when a name is not in a mapping."""
    if name not in known:
        raise UnknownName(kind, str(name), known)


def _names(spaces: Spaces) -> Sequence[str]:
    if spaces is None:
        return ()
    return (spaces,) if isinstance(spaces, str) else spaces


def _hashable(spaces: Spaces) -> Any:
    return spaces if spaces is None or isinstance(spaces, str) else tuple(spaces)
