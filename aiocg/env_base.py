"""What an environment is set to, and where it stands; what it does is in `env`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat

from aiocg.episode import Episode
from aiocg.errors import InvalidAction, ResetNeeded
from aiocg.plan import Plan, Plans, Spaces
from aiocg.session import Session
from aiocg.spaces import ActionSpace, DiscreteActions, ObservationSpace, TargetedActions
from aiocg.spaces.actions import ActionSpaceLike, ActionSpaces, is_name, list_of_texts
from aiocg.state import CompilerEnvState
from aiocg.transport.messages import Observed, Welcome

if TYPE_CHECKING:
    from aiocg.datasets.benchmark import Benchmark
    from aiocg.registry import EnvironmentSpec
    from aiocg.rewards import Reward
    from aiocg.runtime import Runtime

__all__ = ["EnvBase"]

STEP_TIMEOUT = 60.0  # seconds of execution for a step, or for one candidate of an expand


class EnvBase:
    """The settings of an environment and the state of its episode.

    Attributes:
        spec: what it was made from.
        compiler_version: name and version of its compiler.
        action_spaces: all action spaces of the compiler, by name.
        observation_spaces: all that can be observed, by name.
        reward_spaces: all rewards, by name; more can be added.
    """

    def __init__(
        self,
        runtime: "Runtime",
        spec: "EnvironmentSpec",
        welcome: Welcome,
        session: Session,
        benchmark: "Benchmark",
        spaces: tuple[ActionSpaces, dict[str, ObservationSpace]],
        reward_spaces: dict[str, "Reward"],
    ) -> None:
        self.spec = spec
        self.compiler_version = welcome.compiler_version
        self.action_spaces, self.observation_spaces = spaces
        self.reward_spaces = reward_spaces
        self._timeout = STEP_TIMEOUT
        self._runtime = runtime
        self._welcome = welcome
        self._session = session
        self._benchmark = benchmark
        self._episode: Episode | None = None
        self._plans = Plans()
        self._observation_space: str | None = None
        self._reward_space: str | None = None
        self._default_plan = Plan(None, ())
        self._action_space = self.action_spaces.choose(None)

    # -------------------------------------------------------------------------------------- settings

    @property
    def benchmark(self) -> "Benchmark":
        """The program of the present episode or, before the first, of the next."""
        return self._episode.benchmark if self._episode is not None else self._benchmark

    @property
    def action_space(self) -> ActionSpace:
        """The actions that `step` takes, and the form it takes them in.

        It can be set at any time, to the name of one of `action_spaces` or to a space: all of them are selections of
        one language, so what was done so far stays what it is.
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
            space = space.with_targets(None)  # of the present state they are not known, even if of another one
        self._action_space = space
        self._default_plan = self._plan(self._observation_space, self._reward_space)

    async def choose_actions(self, choice: ActionSpaceLike | None, extra: Sequence[str] = ()) -> None:
        """Set the action space as `Runtime.make` does, which may ask the compiler whether it knows given texts.

        Raises:
            UnknownName, InvalidAction: when there is no such space, or the compiler does not know a text.
        """
        given: list[str] = []
        if choice is not None and not isinstance(choice, (str, ActionSpace)):
            choice = given = list_of_texts(choice)
        space = self.action_spaces.choose(choice)
        extra = list_of_texts(extra)
        if extra:
            if not isinstance(space, DiscreteActions):
                raise InvalidAction(f"extra actions go to a discrete action space, and {space.name} is {space.kind}")
            space = space.extended(extra)
        await self.check_actions([*given, *extra])
        self.action_space = space

    async def check_actions(self, texts: Sequence[str]) -> None:
        """Ask the compiler whether texts are actions, without doing anything.

        Raises:
            UnknownName: for a name that it does not know; the error suggests others.
            InvalidAction: for any other text that is no action, with what the compiler says of it.
        """
        language = self.action_spaces.language
        unsure = [text for text in dict.fromkeys(language.encode_all(texts)) if isinstance(text, str)]
        for text, error in zip(unsure, await self._session.worker.check(unsure), strict=True):
            if error is not None:
                raise (language.unknown(text, str(error)) if is_name(text) else error) from error

    @property
    def observation_space(self) -> str | None:
        """Name of the default observation space, None for no observation; can be set at any time."""
        return self._observation_space

    @observation_space.setter
    def observation_space(self, name: str | None) -> None:
        _check_one("observation space", name)
        self._default_plan = self._plan(name, self._reward_space)
        self._observation_space = name if name is None else str.__str__(name)  # it may be NumPy's

    @property
    def reward_space(self) -> str | None:
        """Name of the default reward space, None for no reward; setting it restarts `episode_reward`."""
        return self._reward_space

    @reward_space.setter
    def reward_space(self, name: str | None) -> None:
        _check_one("reward space", name)
        self._default_plan = self._plan(self._observation_space, name)
        self._reward_space = name if name is None else str.__str__(name)
        if self._episode is not None:
            self._episode.reward = 0.0

    @property
    def timeout(self) -> float:
        """Default deadline of a step, in seconds of execution."""
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._timeout = _positive(seconds)

    def _deadline(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else _positive(timeout)

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters that were sent and taken, by key; they outlast resets, and forks have them too."""
        return self._session.parameters

    def _plan(self, observations: Spaces, rewards: Spaces, targets_from: str | None = None) -> Plan:
        """Return the plan for some spaces, which observes the targets of the action space unless told otherwise."""
        source = self._action_space.targets_from if targets_from is None else targets_from
        return self._plans.find(observations, rewards, self.observation_spaces, self.reward_spaces, source)

    # ---------------------------------------------------------------------------------- where it stands

    @property
    def in_episode(self) -> bool:
        """Has the environment been reset, and not ended since?"""
        return self._episode is not None and not self._episode.terminated

    @property
    def episode_reward(self) -> float | None:
        """Sum of the rewards since the reset, None without a reward space."""
        return self._episode.reward if self._episode is not None and self._reward_space is not None else None

    def carry_reward(self, reward: float) -> None:
        """Begin the sum of the rewards at what the actions so far had earned when they were first taken.

        Raises:
            ResetNeeded: when there is no episode.
        """
        if self._episode is None:
            raise ResetNeeded("reset the environment first")
        self._episode.reward = reward

    @property
    def actions(self) -> list[Any]:
        """The actions since the reset, as far as they have been executed, in the form of the action space.

        In a discrete space that is indices. What the action space does not have is a text.
        """
        trajectory = self._session.trajectory
        return self._action_space.decode_all(trajectory.actions()) if trajectory is not None else []

    @property
    def action_texts(self) -> tuple[str, ...]:
        """The actions since the reset as texts, whatever the action space."""
        trajectory = self._session.trajectory
        text = self.action_spaces.language.text
        return tuple(text(action) for action in trajectory.actions()) if trajectory is not None else ()

    @property
    def state_hash(self) -> int:
        """A 64-bit hash of the present state; equal states have equal hashes."""
        trajectory = self._session.trajectory
        if trajectory is None:
            raise ResetNeeded("reset the environment first")
        return trajectory.state

    @property
    def state(self) -> CompilerEnvState:
        """The present state as a value, for `Runtime.replay` and for files."""
        return CompilerEnvState(
            environment=self.spec.id,
            benchmark=str(self.benchmark.uri),
            actions=self.action_texts,
            reward_space=self._reward_space,
            reward=self.episode_reward,
            walltime=self._episode.walltime if self._episode is not None else 0.0,
        )

    def commandline(self) -> str:
        """Return the actions since the reset as a command line for the compiler's own tool, `opt` for LLVM.

        Raises:
            NotExpressible: when there is no such tool, or it cannot do one of the actions.
        """
        return self.action_spaces.language.write(self.action_texts)

    def learn_targets(self, episode: Episode | None, source: str, observed: Sequence[str], reply: Observed) -> bool:
        """Take over what can be targeted in the state that a reply tells of; return whether that is new.

        Args:
            episode: that the request belongs to.
            source: the observation that lists the targets.
            observed: names of the observations in the reply.
            reply: the answer to the request.
        """
        space = self._action_space
        if episode is not self._episode or not isinstance(space, TargetedActions) or space.targets_from != source:
            return False  # there is another episode by now, or another space
        targets = tuple(reply.observations[observed.index(source)])
        if targets == space.targets:
            return False
        self._action_space = space.with_targets(targets)
        return True

    def __repr__(self) -> str:
        return f"<Env {self.spec.id} {self.benchmark.uri} {len(self.action_texts)} actions>"


def _positive(seconds: float) -> float:
    if type(seconds) is not float and isinstance(seconds, SupportsFloat):
        seconds = float(seconds)
    if not isinstance(seconds, float) or not seconds > 0:
        raise ValueError(f"a timeout is a positive number of seconds, not {seconds!r}")
    return seconds


def _check_one(kind: str, name: object) -> None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"the default {kind} is one name, or None, not {name!r}; step() takes a list of several")
