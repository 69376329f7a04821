"""The asynchronous environment: one program, its state on a worker, and the episode that is under way."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat

from aiocg.candidate import Candidate
from aiocg.episode import Episode
from aiocg.errors import (
    EnvClosed,
    ResetNeeded,
    failure,
)
from aiocg.plan import Plan, Plans, Reading, Spaces, check_known
from aiocg.preparation import prepare, run_once
from aiocg.session import Session
from aiocg.snapshot import Snapshot
from aiocg.spaces import ActionSpace, ObservationSpace
from aiocg.state import CompilerEnvState
from aiocg.step import StepRequest, StepResult
from aiocg.transport.messages import Expanded, Observed, Welcome

if TYPE_CHECKING:
    from aiocg.datasets.benchmark import Benchmark
    from aiocg.registry import EnvironmentSpec
    from aiocg.rewards import Reward
    from aiocg.runtime import BenchmarkLike, Runtime

__all__ = ["Env", "StepResult"]

STEP_TIMEOUT = 60.0  # seconds of execution for a step, or for one candidate of an expand
RESET_TIMEOUT = 300.0  # seconds of execution for a reset, which may compute baselines


class Env:
    """A compiler environment, made by `Runtime.make`.

    Requests of one environment are executed in the order they are made, whether they are awaited or not. Cancelling an
    await leaves the environment usable: what was sent still takes effect.

    Attributes:
        spec: what it was made from.
        action_space: its actions; `names` and `descriptions` have an entry for each.
        observation_spaces: all that can be observed, by name.
        reward_spaces: all rewards, by name; more can be added.
        timeout: default deadline of a step, in seconds of execution.
    """

    def __init__(
        self,
        runtime: "Runtime",
        spec: "EnvironmentSpec",
        welcome: Welcome,
        session: Session,
        benchmark: "Benchmark",
        spaces: tuple[ActionSpace, dict[str, ObservationSpace]],
        reward_spaces: dict[str, "Reward"],
    ) -> None:
        self.spec = spec
        self.compiler_version = welcome.compiler_version
        self.action_space, self.observation_spaces = spaces[0].unseeded(), spaces[1]
        self.reward_spaces = reward_spaces
        self.timeout = STEP_TIMEOUT
        self._runtime = runtime
        self._welcome = welcome
        self._session = session
        self._benchmark = benchmark
        self._episode: Episode | None = None
        self._plans = Plans()
        self._observation_space: str | None = None
        self._reward_space: str | None = None
        self._default_plan = Plan(None, ())

    # ------------------------------------------------------------------------------------ properties

    @property
    def benchmark(self) -> "Benchmark":
        """The program of the present episode or, before the first, of the next."""
        return self._episode.benchmark if self._episode is not None else self._benchmark

    @property
    def observation_space(self) -> str | None:
        """Name of the default observation space, None for no observation; can be set at any time."""
        return self._observation_space

    @observation_space.setter
    def observation_space(self, name: str | None) -> None:
        self._default_plan = self._plan(name, self._reward_space)
        self._observation_space = name

    @property
    def reward_space(self) -> str | None:
        """Name of the default reward space, None for no reward; setting it restarts `episode_reward`."""
        return self._reward_space

    @reward_space.setter
    def reward_space(self, name: str | None) -> None:
        self._default_plan = self._plan(self._observation_space, name)
        self._reward_space = name
        if self._episode is not None:
            self._episode.reward = 0.0

    @property
    def in_episode(self) -> bool:
        """Has the environment been reset, and not ended since?"""
        return self._episode is not None and not self._episode.terminated

    @property
    def episode_reward(self) -> float | None:
        """Sum of the rewards since the reset, None without a reward space."""
        return self._episode.reward if self._episode is not None and self._reward_space is not None else None

    @property
    def actions(self) -> list[int]:
        """Indices of the actions since the reset, as far as they have been executed."""
        trajectory = self._session.trajectory
        return trajectory.actions() if trajectory is not None else []

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
            actions=tuple(self.action_space.names[action] for action in self.actions),
            reward_space=self._reward_space,
            reward=self.episode_reward,
            walltime=self._episode.walltime if self._episode is not None else 0.0,
        )

    # ----------------------------------------------------------------------------------------- reset

    async def reset(
        self,
        *,
        benchmark: "BenchmarkLike | None" = None,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        timeout: float = RESET_TIMEOUT,
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            benchmark: the program, if another than before: a URI, a path, or a `Benchmark`.
            seed: seeds the sampling of actions.
            options: Gymnasium's way to say the same: `{"benchmark": ...}`.
            timeout: seconds that the compiler may take.

        Returns:
            The observation (None without an observation space) and an info dictionary.

        Raises:
            DatasetError: when the benchmark does not exist or the compiler does not accept it; the environment can
                be reset to another.
            ServiceError: when there is no worker to be had, or it dies over this benchmark.
        """
        if seed is not None:
            self.action_space.seed(seed)
        deadline = self._deadline(timeout)
        chosen = benchmark if benchmark is not None else (options or {}).get("benchmark")
        target = self._runtime.benchmark(chosen) if chosen is not None else self._benchmark
        await prepare(target)
        await run_once(self._default_plan.prepare)
        if self._session.closed:
            raise EnvClosed("this environment was closed")
        if self._session.error is not None or self._session.pending:
            self._replace_session()  # what is in flight goes on in the old one, and cannot fail this reset
        plan = self._default_plan

        def finish(reply: Observed) -> tuple[Any, dict[str, Any]]:
            observation, values = plan.read_reset(reply.observations)
            self._benchmark = target
            self._episode = Episode.start(target, values)
            return observation, {"benchmark": str(target.uri), "state": reply.state}

        result: tuple[Any, dict[str, Any]] = await self._session.open(target, plan.at_reset.observe, deadline, finish)
        return result

    def _replace_session(self) -> None:
        session = self._runtime.new_session(self.spec)
        self._session.close()
        self._session = session
        self._episode = None  # should the reset fail, there is no way back to it

    # ------------------------------------------------------------------------------------------ step

    async def step(
        self,
        action: Any,
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> StepResult:
        """Apply an action, or several in one round trip.

        Args:
            action: an index, a name, or a list of either. An empty list only observes.
            observation_spaces: what to observe in place of the default; a list gives a list.
            reward_spaces: what to reward in place of the default; a list gives a list.
            timeout: seconds that the compiler may take, `self.timeout` if None.

        Returns:
            Observation, reward, terminated, truncated, and info. `terminated` is True when the action failed or the
            compiler died over it; `info["error_type"]` and `info["error_details"]` then say how, and the environment
            must be reset. `info["action_had_no_effect"]` is True exactly when the program is the same as before.

        Raises:
            UnknownName, InvalidAction: for a bad argument; nothing was done.
            ResetNeeded: when there is no episode.
        """
        if observation_spaces is not None or reward_spaces is not None:
            await run_once(self._plan(observation_spaces, reward_spaces).prepare)
        return await self.submit(
            action, observation_spaces=observation_spaces, reward_spaces=reward_spaces, timeout=timeout
        )

    def submit(
        self,
        action: Any,
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> "asyncio.Future[StepResult]":
        """Send a step without waiting for it; steps of one environment are executed in the order submitted.

        Takes and raises what `step` does, and TooManyPending when submitting far ahead of the worker. The future's
        result is what `step` returns; after a step that ends the episode, those behind it raise ResetNeeded.
        """
        indices = self.action_space.indices(action)
        if observation_spaces is None and reward_spaces is None:
            plan = self._default_plan
        else:
            plan = self._plan(
                self._observation_space if observation_spaces is None else observation_spaces,
                self._reward_space if reward_spaces is None else reward_spaces,
            )
        episode = self._running_episode()
        deadline = self._deadline(timeout)
        self._observe_missing(plan, episode, deadline)
        episode.expected_costs = plan.costs
        step = StepRequest(self, plan, episode, self._session, indices, deadline)
        self._session.send(step)
        return step.future

    def _running_episode(self) -> Episode:
        if self._session.closed:
            raise EnvClosed("this environment was closed")
        if self._episode is None:
            raise ResetNeeded("call reset() before the first step")
        if self._episode.terminated:
            raise ResetNeeded("the episode has ended; call reset() to start another")
        return self._episode

    def _observe_missing(self, plan: Plan, episode: Episode, timeout: float) -> None:
        """Ask for what the rewards need to know of the state before the step, where nothing sent so far tells it."""
        names = episode.missing(plan)
        if names:
            reading = Reading(names, self.observation_spaces)
            request = self._session.step(
                (),
                reading.observe,
                timeout,
                lambda reply: episode.learn(dict(zip(names, reading.values(reply.observations), strict=True))),
                lambda error: episode.not_learned(names, error),
            )
            request.add_done_callback(_retrieve)

    # --------------------------------------------------------------------------------------- observe

    async def observe(self, *names: str, timeout: float | None = None) -> Any:
        """Compute observations of the present state.

        Args:
            names: of observation spaces.
            timeout: seconds that the compiler may take.

        Returns:
            The observation, or a list of them when there are several names.

        Raises:
            UnknownName: for a name that is not an observation space.
            ServiceError: when an observation cannot be computed.
        """
        for name in names:
            check_known("observation space", name, self.observation_spaces)
        if self._session.closed:
            raise EnvClosed("this environment was closed")
        if self._episode is None:
            raise ResetNeeded("call reset() before observing")
        deadline = self._deadline(timeout)
        reading = Reading(names, self.observation_spaces)
        await run_once(reading.prepare)
        values = await self._session.step(
            (), reading.observe, deadline, lambda reply: reading.values(reply.observations)
        )
        return values[0] if len(names) == 1 else values

    def add_observation_space(self, space: ObservationSpace) -> None:
        """Add an observation of your own, derived from others, to this environment and its future forks.

        Raises:
            ValueError: when it has no sources or no `translate`.
            UnknownName: when a source does not exist.
        """
        if not space.sources or space.translate is None:
            raise ValueError(f"the observation space {space.name!r} needs sources and a translate function")
        for name in space.sources:
            check_known("observation space", name, self.observation_spaces)
        self.observation_spaces = {**self.observation_spaces, space.name: space}  # the old one is shared
        self._plans = Plans()

    async def send_parameter(self, key: str, value: str, *, timeout: float | None = None) -> str:
        """Send an out-of-band parameter to the compiler session and return its answer.

        Raises:
            ParameterFailed: when the compiler does not know the key or take the value.
        """
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"the key and the value of a parameter are text, not {key!r} and {value!r}")
        return await self._session.parameter(key, value, self._deadline(timeout))

    # -------------------------------------------------------------------------- fork, snapshot, expand

    async def fork(self) -> "Env":
        """Return an independent environment at the same state; costs the same whatever the size of the program."""
        if self._session.closed:
            raise EnvClosed("this environment was closed")
        child = Env(
            self._runtime,
            self.spec,
            self._welcome,
            Session(self._session.worker),
            self._benchmark,
            (self.action_space, self.observation_spaces),
            dict(self.reward_spaces),
        )
        child.timeout = self.timeout
        child._plans = self._plans
        child._observation_space, child._reward_space = self._observation_space, self._reward_space
        child._default_plan = self._default_plan
        if self._episode is not None:
            child._episode = await self._fork_into(child._session)
        return child

    async def sibling(self) -> "Env":
        """Return a new environment with the same program, spaces and timeout, on the worker that is least busy.

        Unlike a fork it has no state: reset it first. Searches use siblings to share their work among the workers.
        """
        other = await self._runtime.make(self.spec.id, benchmark=self.benchmark)
        other.reward_spaces |= self.reward_spaces
        other.observation_space, other.reward_space = self._observation_space, self._reward_space
        other.timeout = self.timeout
        return other

    @property
    def worker_count(self) -> int:
        """Number of workers that siblings are spread over."""
        return self._runtime.worker_count

    async def snapshot(self) -> Snapshot:
        """Remember the present state; costs the same whatever the size of the program."""
        self._running_episode()
        session = Session(self._session.worker)
        return Snapshot(session, await self._fork_into(session))

    def _fork_into(self, session: Session) -> "Awaitable[Episode]":
        episode = self._episode
        assert episode is not None
        return self._session.fork(session, lambda reply: episode.copy())

    async def restore(self, snapshot: Snapshot) -> None:
        """Go back to a state that was remembered, here or in a fork; also after an episode has ended.

        Raises:
            EnvClosed: when the snapshot or this environment was closed.
            ResetNeeded: when the worker died and the state could not be rebuilt.
        """
        if self._session.closed:
            raise EnvClosed("this environment was closed")
        source = snapshot.session
        if source.closed:
            raise EnvClosed("this snapshot was closed")
        if source.error is not None:
            raise ResetNeeded(f"this snapshot could not be kept: {source.error}")
        if source.worker is not self._session.worker or self._session.error is not None:
            self._session.close()
            self._session = Session(source.worker)

        def finish(reply: Any) -> None:
            self._episode = snapshot.episode.copy()

        await source.fork(self._session, finish)

    async def expand(
        self,
        candidates: Iterable[Any],
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> list[Candidate]:
        """Evaluate many candidates from the present state, in one message, without changing it.

        Args:
            candidates: each an action or a list of actions, by index or name.
            observation_spaces, reward_spaces: as for `step`.
            timeout: seconds that the compiler may take for each candidate.

        Returns:
            One result per candidate, in order. A candidate that fails, or over which the compiler dies, has an
            `error`; the others are not touched by it.
        """
        plan = self._plan(
            self._observation_space if observation_spaces is None else observation_spaces,
            self._reward_space if reward_spaces is None else reward_spaces,
        )
        indices = [self.action_space.indices(candidate) for candidate in candidates]
        episode = self._running_episode()
        deadline = self._deadline(timeout)
        self._observe_missing(plan, episode, deadline)

        def finish(reply: Expanded, crashes: Mapping[int, Exception]) -> list[Candidate]:
            return [
                self._candidate(plan, episode, actions, result, crashes.get(i))
                for i, (actions, result) in enumerate(zip(indices, reply.candidates, strict=True))
            ]

        results: list[Candidate] = await self._session.expand(indices, plan.observe, deadline, finish)
        return results

    def _candidate(
        self, plan: Plan, episode: Episode, actions: tuple[int, ...], result: Any, crash: Exception | None
    ) -> Candidate:
        if result is None:
            return Candidate(actions, error=crash)
        if result.code:
            return Candidate(actions, error=failure(result.code, result.message))
        observation, costs = plan.read(result.observations)
        reward = plan.reward(episode.rewards(plan, costs))
        return Candidate(actions, observation, reward, result.state, True not in result.effects)

    # ----------------------------------------------------------------------------------------- close

    async def close(self) -> None:
        """Free the environment's state on its worker; idempotent."""
        self._session.close()

    async def __aenter__(self) -> "Env":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # --------------------------------------------------------------------------------------- helpers

    def _deadline(self, timeout: float | None) -> float:
        seconds = self.timeout if timeout is None else timeout
        if type(seconds) is not float and isinstance(seconds, SupportsFloat):
            seconds = float(seconds)
        if not isinstance(seconds, float) or not seconds > 0:
            raise ValueError(f"a timeout is a positive number of seconds, not {seconds!r}")
        return seconds

    def _plan(self, observations: Spaces, rewards: Spaces) -> Plan:
        return self._plans.find(observations, rewards, self.observation_spaces, self.reward_spaces)

    def __repr__(self) -> str:
        return f"<Env {self.spec.id} {self.benchmark.uri} {len(self.actions)} actions>"


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """Mark the error of an internal request as seen; the step behind it fails with its own."""
    if not future.cancelled():
        future.exception()
