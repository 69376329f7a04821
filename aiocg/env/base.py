"""The session, episode and state behind an environment."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat

from aiocg.datasets.errors import DatasetError
from aiocg.env.episode import Episode
from aiocg.env.plan import Plan, Plans, Spaces, check_known
from aiocg.env.preparation import BenchmarkLike
from aiocg.errors import AiocgError, EnvClosed, InvalidAction, ResetNeeded, Unsettled
from aiocg.fleet import session
from aiocg.fleet.session import Session
from aiocg.spaces import ActionSpace, DiscreteActions, ObservationSpace, TargetedActions
from aiocg.spaces.actions import ActionSpaceLike, ActionSpaces, is_name, list_of_texts
from aiocg.spaces.rewards import Reward, rewards_of_observations
from aiocg.states.state import CompilerEnvState, LegacyState
from aiocg.transport.messages import Observed, Welcome

if TYPE_CHECKING:
    from aiocg.datasets.benchmark import Benchmark
    from aiocg.datasets.source_tree import SourceTree
    from aiocg.registry import EnvironmentSpec
    from aiocg.spaces.rewards import Reward
    from aiocg.states.result import ValidationResult
    from aiocg.transitions import TransitionLog


STEP_TIMEOUT = 60.0  # seconds of execution for a step, or for one candidate of an expand


class EnvSettings:
    """The settings of an environment.

    Attributes:
        action_spaces: all action spaces of the compiler, by name.
        observation_spaces: all observation spaces, by name.
        reward_spaces: all rewards, by name.
    """

    def __init__(
        self,
        spaces: tuple[ActionSpaces, dict[str, ObservationSpace]],
        reward_spaces: dict[str, Reward],
        finished: str = "",
    ) -> None:
        self.action_spaces, self.observation_spaces = spaces
        self.reward_spaces = reward_spaces
        self._timeout = STEP_TIMEOUT
        self._plans = Plans(finished)
        self._observation_space: str | None = None
        self._reward_space: str | None = None
        self._default_plan = Plan(None, (), finished=finished)
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
        self._plans = Plans(self._plans.finished)
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


class Owner(Protocol):
    """What an environment needs from the runtime that made it."""

    @property
    def log(self) -> "TransitionLog | None":
        """Where transitions are logged."""

    @property
    def worker_count(self) -> int:
        """Number of worker processes per compiler."""

    def check_open(self) -> None:
        """Raise RuntimeClosed if it was closed."""

    def new_session(self, spec: "EnvironmentSpec") -> Session:
        """Return a session on the least busy worker of an environment's compiler."""

    async def find_benchmark(self, target: BenchmarkLike) -> "Benchmark":
        """Return the benchmark of a URI or path."""

    async def make(self, id: str, **choices: Any) -> Any:
        """Make another environment."""

    async def validate(
        self, env: Any, state: CompilerEnvState | LegacyState | None = None, **options: Any
    ) -> "ValidationResult":
        """Validate a state of an environment."""


class EnvBase(EnvSettings):
    """An environment's session on a worker, and the episode in progress.

    Attributes:
        spec: what the environment was made from.
        compiler_version: name and version of its compiler.
        log: where its transitions are logged, None for nowhere.
    """

    def __init__(
        self,
        runtime: Owner,
        spec: "EnvironmentSpec",
        welcome: Welcome,
        session: Session,
        benchmark: "Benchmark",
        spaces: tuple[ActionSpaces, dict[str, ObservationSpace]],
        reward_spaces: dict[str, "Reward"],
    ) -> None:
        super().__init__(spaces, reward_spaces, spec.finished)
        self.spec = spec
        self.compiler_version = welcome.compiler_version
        self.log = runtime.log
        self._runtime = runtime
        self._welcome = welcome
        self._session = session
        self._benchmark = benchmark
        self._episode: Episode | None = None

    @property
    def runtime(self) -> Owner:
        """The runtime that made it."""
        return self._runtime

    @property
    def benchmark(self) -> "Benchmark":
        """The program of the current episode or, before the first, of the next."""
        return self._episode.benchmark if self._episode is not None else self._benchmark

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters that were sent and accepted, by key; they outlast resets, and forks inherit them."""
        return self._session.parameters

    async def choose_actions(self, choice: ActionSpaceLike | None, extra: Sequence[str] = ()) -> None:
        """Set the action space as `Runtime.make` does; the compiler may be asked whether it knows given texts.

        Raises:
            UnknownName, InvalidAction: if there is no such space, or the compiler does not know a text.
        """
        self.check_open()
        given: list[str] = []
        if choice is not None and not isinstance(choice, (str, ActionSpace)):
            choice = given = list_of_texts(choice)
        space = self.action_spaces.choose(choice)
        extra = list_of_texts(extra)
        if extra:
            if not isinstance(space, DiscreteActions):
                raise InvalidAction(f"extra actions need a discrete action space, and {space.name} is {space.kind}")
            space = space.extended(extra)
        await self.check_actions([*given, *extra])
        self.action_space = space

    async def check_actions(self, texts: Sequence[str]) -> None:
        """Ask the compiler whether texts are actions, without applying them.

        Raises:
            UnknownName: for a name that the compiler does not know; the error suggests others.
            InvalidAction: for any other text that is no action, with the compiler's message.
        """
        self.check_open()
        language = self.action_spaces.language
        unsure = [text for text in dict.fromkeys(language.encode_all(texts)) if isinstance(text, str)]
        for text, error in zip(unsure, await session.check(self._session.worker, unsure), strict=True):
            if error is not None:
                raise (language.unknown(text, str(error)) if is_name(text) else error) from error

    def check_open(self) -> None:
        """Check that the environment can still be used.

        Raises:
            EnvClosed: if it was closed.
            RuntimeClosed: if its runtime was closed.
        """
        if self._session.closed:
            raise EnvClosed("this environment was closed")
        self._runtime.check_open()

    @property
    def in_episode(self) -> bool:
        """Has the environment been reset, and has the episode not ended?"""
        return self._episode is not None and not self._episode.terminated

    def _running_episode(self) -> Episode:
        self.check_open()
        if self._episode is None:
            raise ResetNeeded("call reset() before the first step")
        if self._episode.terminated:
            raise ResetNeeded("the episode has ended; call reset() to start another")
        return self._episode

    @property
    def episode_reward(self) -> float | None:
        """Sum of the rewards since the reset, None without a reward space."""
        return self._episode.reward if self._episode is not None and self._reward_space is not None else None

    def carry_reward(self, reward: float) -> None:
        """Start the sum of the rewards from what the actions so far earned when they were first applied.

        Raises:
            ResetNeeded: if there is no episode.
        """
        if self._episode is None:
            raise ResetNeeded("reset the environment first")
        self._episode.reward = reward

    def _restart_reward(self) -> None:
        if self._episode is not None:
            self._episode.reward = 0.0

    @property
    def actions(self) -> list[Any]:
        """The actions executed since the reset, in the form of the action space: indices in a discrete one.

        An action that the action space does not contain is given as text.
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
        """A 64-bit hash of the current state; equal states have equal hashes."""
        trajectory = self._session.trajectory
        if trajectory is None:
            raise ResetNeeded("reset the environment first")
        return trajectory.state

    @property
    def state(self) -> CompilerEnvState:
        """The current state as a value, for `Runtime.replay` and for files.

        Raises:
            Unsettled: after a cancelled step, until it is known whether the step was executed.
        """
        if self._session.is_unsettled:
            raise Unsettled("a cancelled step may still be carried out: await env.settled() before reading env.state")
        return CompilerEnvState(
            environment=self.spec.id,
            benchmark=str(self.benchmark.uri),
            actions=self.action_texts,
            reward_space=self._reward_space,
            reward=self.episode_reward,
            walltime=self._episode.walltime if self._episode is not None else 0.0,
        )

    async def settled(self) -> None:
        """Wait until it is known whether cancelled requests were executed; `state` can be read afterwards."""
        if self._session.last is not None:
            with contextlib.suppress(AiocgError):  # there may be no state
                await self._session.step((), (), self._timeout, lambda reply: None)

    def commandline(self, *, exact: bool = False) -> str:
        """Return the actions since the reset as a command line for the compiler's own tool, `opt` for LLVM.

        GCC's names the program's files, where they are on this machine, and makes the same bytes in the working folder.

        Args:
            exact: for LLVM, return one of `python -m aiocg.llvm opt`, which makes the same bytes and can do all
                actions; LLVM's `opt` nearly always leads to the same program, and has no passes on single functions.

        Raises:
            NotExpressible: if there is no such tool, or it cannot apply one of the actions.
        """
        tree: SourceTree | None = None
        if self.spec.takes_sources:
            with contextlib.suppress(DatasetError):  # sources that are gone by now are not named
                tree = self.benchmark.source_tree
        return self.action_spaces.language.write(self.action_texts, exact=exact, tree=tree)

    async def _find_targets(self, *, again: bool = False) -> None:
        """Observe the targets of a targeted action space, if they are unknown or, with `again`, may have changed."""
        episode, source = self._episode, self._action_space.targets_from
        if source and episode is not None and (again or self._action_space.targets is None):
            await self._session.step(
                (), (source,), self._deadline(None), lambda reply: self.learn_targets(episode, source, (source,), reply)
            )

    def learn_targets(self, episode: Episode | None, source: str, observed: Sequence[str], reply: Observed) -> bool:
        """Update the action space with the targets in a reply; return whether they are new.

        Args:
            episode: the episode of the request.
            source: the observation that lists the targets.
            observed: names of the observations in the reply.
            reply: the reply to the request.
        """
        space = self._action_space
        if episode is not self._episode or not isinstance(space, TargetedActions) or space.targets_from != source:
            return False  # the episode or the action space has changed since
        targets = tuple(reply.observations[observed.index(source)])
        if targets == space.targets:
            return False
        self._action_space = space.with_targets(targets)
        return True

    async def validate(self, state: CompilerEnvState | LegacyState | None = None, **options: Any) -> "ValidationResult":
        """Validate a state, the current one if None, without touching the environment: see `aiocg.validation`."""
        return await self._runtime.validate(self, state, **options)

    async def close(self) -> None:
        """Free the environment's state on its worker; idempotent."""
        self._session.close()

    def __repr__(self) -> str:
        return f"<Env {self.spec.id} {self.benchmark.uri} {len(self.action_texts)} actions>"
