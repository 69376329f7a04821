"""Observation plans: the request to the worker, and decoding of its reply."""

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypedDict

from aiocg.errors import UnknownName
from aiocg.spaces import ObservationSpace
from aiocg.spaces.rewards import Reward

Spaces = Sequence[str] | str | None  # one space by name, several, or none


class StepSettings(TypedDict, total=False):
    """What can be asked of a step, as for `CompilerEnv.step`.

    Attributes:
        observation_spaces, reward_spaces: what to observe and to reward in place of the defaults; a list gives a list.
        timeout: seconds that the compiler may take.
    """

    observation_spaces: Spaces
    reward_spaces: Spaces
    timeout: float | None


_Getter = Callable[[Sequence[Any]], Any]


class Reading:
    """Some observation spaces: what to ask the worker for, and how to get their values from its reply.

    Attributes:
        names: names of the spaces.
        getters: for each space, a function from the worker's reply to its value.
        observe: names that the worker is asked for, without repeats; derived spaces are replaced by their sources.
        prepare: functions to run once before values can be computed.
    """

    def __init__(self, names: Iterable[str], spaces: Mapping[str, ObservationSpace]) -> None:
        self.names = tuple(names)
        asked: list[str] = []
        prepare: list[Callable[[], object]] = []
        self.getters = [_getter(name, spaces, asked, prepare) for name in self.names]
        self.observe = tuple(asked)
        self.prepare = tuple(dict.fromkeys(prepare))

    def ask_for(self, name: str) -> None:
        """Ask the worker for one more observation, which is not among the values."""
        if name not in self.observe:
            self.observe += (name,)

    def values(self, observed: Sequence[Any]) -> list[Any]:
        """Return the values in the order of `names`, from the worker's values in the order of `observe`."""
        return [get(observed) for get in self.getters]

    def select(self, observed: Sequence[Any], names: Collection[str]) -> dict[str, Any]:
        """Return the values of those spaces that are in `names`, by name."""
        return {name: get(observed) for name, get in zip(self.names, self.getters, strict=True) if name in names}


def _getter(
    name: str, spaces: Mapping[str, ObservationSpace], asked: list[str], prepare: list[Callable[[], object]]
) -> _Getter:
    space = spaces.get(name)
    if space is None or space.translate is None:
        if name not in asked:
            asked.append(name if space is None else space.name)  # a plain str, even if `name` is a subclass
        return operator.itemgetter(asked.index(name))
    if space.prepare is not None:
        prepare.append(space.prepare)
    translate = space.translate
    getters = [_getter(source, spaces, asked, prepare) for source in space.sources]
    return lambda observed: translate(*[get(observed) for get in getters])


class Plan:
    """What one request observes, and how its reply becomes the observations and rewards that the caller asked for.

    A plan depends only on names, so environments build each plan once and keep it.

    Attributes:
        observe: names that a step asks the worker for, without repeats.
        at_step, at_reset: the readings for a step, and for a reset, which includes the baselines.
        rewards, reward_names: the rewards to compute.
        costs: names of the observations that the rewards need of the states before and after a step.
        baselines: names of the observations that the rewards need of the benchmark.
        prepare: functions to run once before values can be computed.
        targets_from: the observation that lists the targets of actions, empty if there are none.
        finished: the observation that is not 0 once the episode is over, empty if there is none.
    """

    def __init__(
        self,
        observations: Spaces,
        rewards: Sequence[Reward],
        spaces: Mapping[str, ObservationSpace] = MappingProxyType({}),
        *,
        single_reward: bool = True,
        targets_from: str = "",
        finished: str = "",
    ) -> None:
        self._single_observation = observations is None or isinstance(observations, str)
        self._single_reward = single_reward
        names = [observations] if isinstance(observations, str) else list(observations or ())
        self.rewards = tuple(rewards)
        self.reward_names = tuple([reward.name for reward in rewards])
        self.costs = frozenset(name for reward in rewards for name in reward.observation_spaces)
        self.baselines = frozenset(name for reward in rewards for name in reward.baseline_spaces)
        self._count = len(names)
        self._cost_names = sorted(self.costs)
        self._logged: list[tuple[str, _Getter]] | None = None
        self.targets_from = targets_from
        self.finished = finished
        self.at_step = Reading([*names, *self._cost_names], spaces)
        self.at_reset = Reading([*names, *sorted(self.costs | self.baselines)], spaces)
        for name in filter(None, (targets_from, finished)):
            self.at_step.ask_for(name)
            self.at_reset.ask_for(name)
        self.observe = self.at_step.observe
        self.prepare = self.at_reset.prepare

    def read(self, observed: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """Return the observations that the caller asked for (one, a list, or None), and the costs by name."""
        values, count = [get(observed) for get in self.at_step.getters], self._count
        costs = dict(zip(self._cost_names, values[count:], strict=True))
        return values[0] if count and self._single_observation else self._shaped(values[:count]), costs

    def is_finished(self, observed: Sequence[Any]) -> bool:
        """Return whether the episode is over, from the reply to a step."""
        return bool(self.finished and observed[self.observe.index(self.finished)])

    def logged(self, names: Collection[str]) -> list[tuple[str, _Getter]]:
        """Return which of `names`, always the same, and costs a step's reply has, and how to read each."""
        if self._logged is None:
            spaces = zip(self.at_step.names, self.at_step.getters, strict=True)
            self._logged = [(name, get) for name, get in spaces if name in self.costs or name in names]
        return self._logged

    def read_reset(self, observed: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """Return the same from the reply to a reset, with the baselines among the costs."""
        values = self.at_reset.values(observed)
        names = self.at_reset.names[self._count :]
        return self._shaped(values[: self._count]), dict(zip(names, values[self._count :], strict=True))

    def default_observation(self, spaces: Mapping[str, ObservationSpace]) -> Any:
        """Return the default values of the observations, in the form that the caller asked for."""
        return self._shaped([spaces[name].default for name in self.at_step.names[: self._count]])

    def _shaped(self, values: list[Any]) -> Any:
        return values if not self._single_observation else values[0] if values else None

    def reward(self, values: list[float]) -> Any:
        """Return the rewards in the form that the caller asked for: one, a list, or None."""
        return values if not self._single_reward else values[0] if values else None

    def rewards_by_name(self, reward: Any) -> dict[str, float]:
        """Return rewards in the form that the caller asked for, by the names of their spaces."""
        values = [reward] if self._single_reward else reward
        return dict(zip(self.reward_names, values, strict=False))  # without rewards, the one is None


class Plans:
    """The plans made so far, by the names they are for.

    Attributes:
        finished: as for `Plan`, of all of them.
    """

    def __init__(self, finished: str) -> None:
        self.finished = finished
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
            UnknownName: if a space, or an observation that a reward needs, does not exist.
        """
        for name in _names("observation space", observations):
            check_known("observation space", name, observation_spaces)
        for name in _names("reward space", rewards):
            check_known("reward space", name, reward_spaces)
        found = tuple([reward_spaces[name] for name in _names("reward space", rewards)])
        # A name may later mean another reward, so the key has ids; the plan keeps the rewards alive, and ids unique.
        key = (_hashable(observations), _hashable(rewards), tuple(map(id, found)), targets_from)
        plan = self._known.get(key)
        if plan is None:
            single = rewards is None or isinstance(rewards, str)
            plan = Plan(
                observations,
                found,
                observation_spaces,
                single_reward=single,
                targets_from=targets_from,
                finished=self.finished,
            )
            for name in (*plan.at_reset.names, *plan.at_reset.observe):
                check_known("observation space", name, observation_spaces)
            self._known[key] = plan
        return plan


def check_known(kind: str, name: Any, known: Mapping[str, Any]) -> None:
    """Raise UnknownName if a name is not in a mapping, TypeError if it is not a string."""
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
