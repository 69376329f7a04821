"""Settings of an environment: its spaces, their plans, and its timeout."""

from collections.abc import Mapping
from typing import SupportsFloat

from aiocg.env.plan import Plan, Plans, Spaces, check_known
from aiocg.spaces import ActionSpace, ObservationSpace, TargetedActions
from aiocg.spaces.actions import ActionSpaces
from aiocg.spaces.rewards import Reward, rewards_of_observations

__all__ = ["STEP_TIMEOUT", "EnvSettings"]

STEP_TIMEOUT = 60.0  # seconds of execution for a step, or for one candidate of an expand


class EnvSettings:
    """The settings of an environment.

    Attributes:
        action_spaces: all action spaces of the compiler, by name.
        observation_spaces: all observation spaces, by name.
        reward_spaces: all rewards, by name.
    """

    def __init__(
        self, spaces: tuple[ActionSpaces, dict[str, ObservationSpace]], reward_spaces: dict[str, Reward]
    ) -> None:
        self.action_spaces, self.observation_spaces = spaces
        self.reward_spaces = reward_spaces
        self._timeout = STEP_TIMEOUT
        self._plans = Plans()
        self._observation_space: str | None = None
        self._reward_space: str | None = None
        self._default_plan = Plan(None, ())
        self._action_space = self.action_spaces.choose(None)

    def _copy_choices(self, other: "EnvSettings") -> None:
        """Take over what another environment with the same spaces is set to."""
        self._timeout = other._timeout
        self._plans = other._plans
        self._observation_space, self._reward_space = other._observation_space, other._reward_space
        self._default_plan = other._default_plan
        self._action_space = other._action_space.unseeded()

    @property
    def action_space(self) -> ActionSpace:
        """The actions that `step` takes, and their form; set it to a name in `action_spaces` or to a space.

        It can be set at any time: all action spaces select from one language, so past actions keep their meaning.
        """
        return self._action_space

    @action_space.setter
    def action_space(self, choice: str | ActionSpace) -> None:
        if not isinstance(choice, (str, ActionSpace)):
            raise TypeError(
                f"an action space is set by name or as a space, not {choice!r}: "
                'a list of texts is checked by the compiler, in make() or by reset(options={"action_space": ...})'
            )
        space = self.action_spaces.choose(choice) if isinstance(choice, str) else choice
        self.action_spaces.check(space)
        if isinstance(space, TargetedActions):
            space = space.with_targets(None)  # the targets it has may be those of another state
        self._action_space = space
        self._default_plan = self._plan(self._observation_space, self._reward_space)

    @property
    def observation_space(self) -> str | None:
        """Name of the default observation space, None for no observation; can be set at any time."""
        return self._observation_space

    @observation_space.setter
    def observation_space(self, name: str | None) -> None:
        _check_one("observation space", name)
        self._default_plan = self._plan(name, self._reward_space)
        self._observation_space = name if name is None else str.__str__(name)  # a plain str, if it was NumPy's

    @property
    def reward_space(self) -> str | None:
        """Name of the default reward space, None for no reward; setting it restarts `episode_reward`."""
        return self._reward_space

    @reward_space.setter
    def reward_space(self, name: str | None) -> None:
        _check_one("reward space", name)
        self._default_plan = self._plan(self._observation_space, name)
        self._reward_space = name if name is None else str.__str__(name)
        self._restart_reward()

    def _restart_reward(self) -> None:
        """Count `episode_reward` from zero; there is no episode yet."""

    @property
    def timeout(self) -> float:
        """Default deadline of a step, in seconds of execution."""
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._timeout = _positive(seconds)

    def add_observation_space(self, space: ObservationSpace) -> None:
        """Add an observation of your own, derived from others, to this environment and its future forks.

        Raises:
            TypeError: if it is no observation space.
            ValueError: if it has no sources or no `translate`, or is derived from itself.
            UnknownName: if a source does not exist.
        """
        if not isinstance(space, ObservationSpace):
            raise TypeError(f"an observation space of your own is an aiocg.spaces.ObservationSpace, not {space!r}")
        if not space.sources or space.translate is None:
            raise ValueError(f"the observation space {space.name!r} needs sources and a translate function")
        for name in space.sources:
            check_known("observation space", name, self.observation_spaces)
            if space.name in _sources(name, self.observation_spaces):
                raise ValueError(f"the observation space {space.name!r} would be derived from itself")
        self.observation_spaces = {**self.observation_spaces, space.name: space}  # others share the old dictionary
        self.reward_spaces |= rewards_of_observations({space.name: space}, self.reward_spaces)
        self._plans = Plans()
        self._default_plan = self._plan(self._observation_space, self._reward_space)

    def add_reward_space(self, reward: Reward) -> None:
        """Add a reward of your own to this environment and its future forks; it replaces one of the same name.

        Raises:
            TypeError: if it is no reward.
            UnknownName: if an observation that it needs does not exist.
        """
        if not isinstance(reward, Reward):
            raise TypeError(f"a reward of your own is an aiocg.spaces.rewards.Reward, not {reward!r}")
        for name in reward.needs:
            check_known("observation space", name, self.observation_spaces)
        self.reward_spaces[reward.name] = reward
        self._default_plan = self._plan(self._observation_space, self._reward_space)

    def _deadline(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else _positive(timeout)

    def _chosen_plan(self, observations: Spaces, rewards: Spaces, targets_from: str | None = None) -> Plan:
        """Return the plan for the arguments of a call, where None means the default."""
        if observations is None and rewards is None and targets_from is None:
            return self._default_plan
        return self._plan(
            self._observation_space if observations is None else observations,
            self._reward_space if rewards is None else rewards,
            targets_from,
        )

    def _plan(self, observations: Spaces, rewards: Spaces, targets_from: str | None = None) -> Plan:
        """Return the plan for some spaces; by default it also observes the targets of the action space."""
        source = self._action_space.targets_from if targets_from is None else targets_from
        return self._plans.find(observations, rewards, self.observation_spaces, self.reward_spaces, source)


def _positive(seconds: float) -> float:
    if type(seconds) is not float and isinstance(seconds, SupportsFloat):
        seconds = float(seconds)
    if not isinstance(seconds, float) or not seconds > 0:
        raise ValueError(f"a timeout is a positive number of seconds, not {seconds!r}")
    return seconds


def _check_one(kind: str, name: object) -> None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"the default {kind} is one name, or None, not {name!r}; step() takes a list of several")


def _sources(name: str, spaces: Mapping[str, ObservationSpace]) -> set[str]:
    """Return an observation space and everything it is derived from."""
    return {name}.union(*(_sources(source, spaces) for source in spaces[name].sources))
