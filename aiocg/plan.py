"""What a request observes, and how what comes back becomes what the caller asked for."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from aiocg.errors import UnknownName
from aiocg.rewards import Reward
from aiocg.spaces import ObservationSpace

__all__ = ["Plan", "Plans", "Reading", "Spaces", "check_known"]

Spaces = Sequence[str] | str | None  # one space by name, several, or none


Getter = Callable[[Sequence[Any]], Any]


class Reading:
    """Some observation spaces: what to ask the worker for, and how to get their values from its answer.

    Attributes:
        names: of the spaces.
        observe: what the worker is asked for, without repeats; derived spaces are asked for by their sources.
        prepare: what must be done once before values can be had.
    """

    __slots__ = ("_getters", "names", "observe", "prepare")

    def __init__(self, names: Iterable[str], spaces: Mapping[str, ObservationSpace]) -> None:
        self.names = tuple(names)
        asked: list[str] = []
        prepare: list[Callable[[], object]] = []
        self._getters = [_getter(name, spaces, asked, prepare) for name in self.names]
        self.observe = tuple(asked)
        self.prepare = tuple(dict.fromkeys(prepare))

    def ask_for(self, name: str) -> None:
        """Ask the worker for one more of its observations, which is no value of this reading."""
        if name not in self.observe:
            self.observe += (name,)

    def values(self, observed: Sequence[Any]) -> list[Any]:
        """Return the values in the order of `names`, from the worker's in the order of `observe`."""
        return [get(observed) for get in self._getters]


def _getter(
    name: str, spaces: Mapping[str, ObservationSpace], asked: list[str], prepare: list[Callable[[], object]]
) -> Getter:
    space = spaces.get(name)
    if space is None or space.translate is None:
        if name not in asked:
            asked.append(name if space is None else space.name)  # which is a str, whatever the user's equals it
        return operator.itemgetter(asked.index(name))
    if space.prepare is not None:
        prepare.append(space.prepare)
    translate = space.translate
    getters = [_getter(source, spaces, asked, prepare) for source in space.sources]
    return lambda observed: translate(*[get(observed) for get in getters])


class Plan:
    """What one request observes, and how its observations become what the caller asked for.

    A plan depends only on names, so environments build each once and keep it.

    Attributes:
        observe: what the request asks of the worker, without repeats.
        at_reset: the same for a reset, which needs to know the baselines too.
        rewards: what it is to be rewarded in.
        costs, baselines: what the rewards need to know of the states at both ends, and of the benchmark.
        prepare: what must be done once before values can be had.
        targets_from: the observation that lists what actions can be applied to, empty where that does not matter.
    """

    __slots__ = (
        "_cost_names",
        "_count",
        "_single_observation",
        "_single_reward",
        "_step",
        "at_reset",
        "baselines",
        "costs",
        "observe",
        "prepare",
        "rewards",
        "targets_from",
    )

    def __init__(
        self,
        observations: Spaces,
        rewards: Sequence[Reward],
        spaces: Mapping[str, ObservationSpace] = MappingProxyType({}),
        *,
        single_reward: bool = True,
        targets_from: str = "",
    ) -> None:
        self._single_observation = observations is None or isinstance(observations, str)
        self._single_reward = single_reward
        names = [observations] if isinstance(observations, str) else list(observations or ())
        self.rewards = tuple(rewards)
        self.costs = frozenset(name for reward in rewards for name in reward.observation_spaces)
        self.baselines = frozenset(name for reward in rewards for name in reward.baseline_spaces)
        self._count = len(names)
        self._cost_names = sorted(self.costs)
        self.targets_from = targets_from
        self._step = Reading([*names, *self._cost_names], spaces)
        self.at_reset = Reading([*names, *sorted(self.costs | self.baselines)], spaces)
        if targets_from:
            self._step.ask_for(targets_from)
            self.at_reset.ask_for(targets_from)
        self.observe = self._step.observe
        self.prepare = self.at_reset.prepare

    def read(self, observed: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """Return the observations that the caller asked for (one, a list, or None), and the costs by name."""
        values = self._step.values(observed)
        count = self._count
        if count == 1 and self._single_observation:
            return values[0], dict(zip(self._cost_names, values[1:], strict=True))
        return self._shaped(values[:count]), dict(zip(self._cost_names, values[count:], strict=True))

    def read_reset(self, observed: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """Return the same for what a reset observed, with the baselines among the costs."""
        values = self.at_reset.values(observed)
        names = self.at_reset.names[self._count :]
        return self._shaped(values[: self._count]), dict(zip(names, values[self._count :], strict=True))

    def default_observation(self, spaces: Mapping[str, ObservationSpace]) -> Any:
        """Return the default observations, in the same form."""
        return self._shaped([spaces[name].default for name in self._step.names[: self._count]])

    def _shaped(self, values: list[Any]) -> Any:
        return _shape(values, self._single_observation)

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
        observation_spaces: Mapping[str, ObservationSpace],
        reward_spaces: Mapping[str, Reward],
        targets_from: str = "",
    ) -> Plan:
        """Return the plan for observations and rewards given by name.

        Raises:
            UnknownName: when a name is not that of a space, or a reward needs an observation that there is not.
        """
        for name in _names("observation space", observations):
            check_known("observation space", name, observation_spaces)
        for name in _names("reward space", rewards):
            check_known("reward space", name, reward_spaces)
        found = tuple([reward_spaces[name] for name in _names("reward space", rewards)])
        # a name may come to mean another reward; the plan keeps these alive, so no other has their ids
        key = (_hashable(observations), _hashable(rewards), tuple(map(id, found)), targets_from)
        plan = self._known.get(key)
        if plan is None:
            single = rewards is None or isinstance(rewards, str)
            plan = Plan(observations, found, observation_spaces, single_reward=single, targets_from=targets_from)
            for name in (*plan.at_reset.names, *plan.at_reset.observe):
                check_known("observation space", name, observation_spaces)
            self._known[key] = plan
        return plan


def check_known(kind: str, name: Any, known: Mapping[str, Any]) -> None:
    """Raise UnknownName when a name is not in a mapping, TypeError when it is no name."""
    if not isinstance(name, str):
        raise TypeError(f"each {kind} is given by its name, not as {name!r}")
    if name not in known:
        raise UnknownName(kind, name, known)


def _names(kind: str, spaces: Spaces) -> Sequence[str]:
    if spaces is None:
        return ()
    if isinstance(spaces, str):
        return (spaces,)
    if not isinstance(spaces, Sequence):
        raise TypeError(f"one {kind} is given by its name, several as a list, not {spaces!r}")
    return spaces


def _hashable(spaces: Spaces) -> Any:
    return spaces if spaces is None or isinstance(spaces, str) else tuple(spaces)
