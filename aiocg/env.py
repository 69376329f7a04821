"""The asynchronous environment: one program, its state on a worker, and the episode that is under way."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiocg.candidate import Candidate
from aiocg.env_base import EnvBase
from aiocg.episode import Episode
from aiocg.errors import EnvClosed, InvalidAction, ResetNeeded
from aiocg.plan import Plan, Plans, Reading, Spaces, check_known
from aiocg.preparation import carrying_runs, prepare, run_once
from aiocg.requests import Receiver, ReceiverT
from aiocg.rewards import Reward, rewards_of_observations
from aiocg.session import Session
from aiocg.snapshot import Snapshot
from aiocg.spaces import ObservationSpace
from aiocg.state import CompilerEnvState, LegacyState
from aiocg.step import StepRequest, StepResult
from aiocg.transport.messages import Action, Expanded, Observed

if TYPE_CHECKING:
    from aiocg.datasets.benchmark import Benchmark
    from aiocg.runtime import BenchmarkLike
    from aiocg.validation import ValidationResult

__all__ = ["Env", "StepResult"]

RESET_TIMEOUT = 300.0  # seconds of execution for a reset, which may compute baselines


class Env(EnvBase):
    """A compiler environment, made by `Runtime.make`.

    Requests are executed in the order they are made. A cancelled one that outlasts `Policy.cancel_grace` is not
    done: its worker is replaced, and what waited behind it raises `Interrupted`; after an `observe`, `state` tells.
    """

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
            options: `{"benchmark": ...}` is Gymnasium's way to say the same; `{"action_space": ...}` chooses another
                action space, as in `Runtime.make`.
            timeout: seconds that the compiler may take.

        Returns:
            The observation (None without an observation space) and an info dictionary.

        Raises:
            DatasetError: when the benchmark does not exist or the compiler does not accept it; the environment can
                be reset to another.
            UnknownName, InvalidAction: when the action space does not exist.
            ServiceError: when there is no worker to be had, or it dies over this benchmark.
        """
        deadline = self._deadline(timeout)
        options = options or {}
        chosen = benchmark if benchmark is not None else options.get("benchmark")
        target = await self._runtime.find_benchmark(chosen) if chosen is not None else self._benchmark
        if options.get("action_space") is not None:
            await self.choose_actions(options["action_space"])
        if seed is not None:
            self._action_space.seed(seed)
        target = carrying_runs(target, self._default_plan.at_reset.observe)
        await prepare(self.spec.form(target))
        await run_once(self._default_plan.prepare)
        result: tuple[Any, dict[str, Any]] = await self.begin(target, deadline)
        return result

    def begin(self, target: "Benchmark", timeout: float = RESET_TIMEOUT) -> "asyncio.Future[Any]":
        """Do as `reset`, as a future and without a task, where an earlier one has prepared target and observations."""
        if self._session.closed:
            raise EnvClosed("this environment was closed")
        if self._session.error is not None or self._session.pending:
            self._replace_session()  # what is in flight goes on in the old one, and cannot fail this reset
        plan, session = self._default_plan, self._session

        def finish(reply: Observed) -> tuple[Any, dict[str, Any]]:
            current = self._session is session  # otherwise a later reset or restore has overtaken this one
            if current:
                self._episode = None  # the old one is over, even if this one cannot be told of
                self._benchmark = target
            observation, values = plan.read_reset(reply.observations)
            if current:
                self._episode = Episode.start(target, values)
                if plan.targets_from:
                    self.learn_targets(self._episode, plan.targets_from, plan.at_reset.observe, reply)
            return observation, {"benchmark": str(target.uri), "state": reply.state}

        return session.open(self.spec.form(target), plan.at_reset.observe, timeout, finish)

    def _replace_session(self) -> None:
        session = self._runtime.new_session(self.spec)
        session.settings = self._session.settings
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
            action: one of the action space, which for a discrete one is an index or a name, or a list of such. An empty
                list only observes.
            observation_spaces: what to observe in place of the default; a list gives a list.
            reward_spaces: what to reward in place of the default; a list gives a list.
            timeout: seconds that the compiler may take, `self.timeout` if None.

        Returns:
            Observation, reward, terminated, truncated, and info. `terminated` is True when the action failed or the
            compiler died over it; `info["error_type"]` and `info["error_details"]` then say how, and the environment
            must be reset. `info["action_had_no_effect"]` is True exactly when the program is the same as before, and
            `info["new_action_space"]` when `action_space` is another one now, because there are other targets.

        Raises:
            UnknownName, InvalidAction: for a bad argument, or a text that the compiler does not take for an action;
                nothing was done.
            ResetNeeded: when there is no episode.
        """
        if prepare := self._chosen_plan(observation_spaces, reward_spaces).prepare:
            await run_once(prepare)
        if self._action_space.targets_from:
            await self._find_targets()
        return await self.submit(
            action, observation_spaces=observation_spaces, reward_spaces=reward_spaces, timeout=timeout
        )

    async def step_texts(
        self,
        texts: Sequence[str],
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> StepResult:
        """Apply actions given as texts of the compiler's language, whether the action space has them or not.

        Takes, returns and raises what `step` does.
        """
        await run_once(self._chosen_plan(observation_spaces, reward_spaces).prepare)
        encoded = self.action_spaces.language.encode_all(texts)
        future: asyncio.Future[StepResult] = self._session.future()
        return await self._submit(encoded, observation_spaces, reward_spaces, timeout, future)

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
        result is what `step` returns; after a step that ends the episode, those behind it raise ResetNeeded. Where the
        action space depends on the state, the action is understood in the last one that is known.
        """
        encoded = self._action_space.encode(action)
        return self._submit(encoded, observation_spaces, reward_spaces, timeout, self._session.future())

    def deliver(
        self,
        actions: tuple[Action, ...],
        receiver: Receiver,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> None:
        """Do as `submit` with actions that are encoded, and tell a receiver in place of a future, which costs less."""
        self._submit(actions, observation_spaces, reward_spaces, timeout, receiver)

    def has_to_prepare(self, observation_spaces: Spaces = None, reward_spaces: Spaces = None) -> bool:
        """Say whether something must be found out before a step, as `step` does and `submit` and `deliver` do not."""
        return bool(self._action_space.targets_from or self._chosen_plan(observation_spaces, reward_spaces).prepare)

    def _submit(
        self,
        actions: tuple[Action, ...],
        observation_spaces: Spaces,
        reward_spaces: Spaces,
        timeout: float | None,
        receiver: ReceiverT,
    ) -> ReceiverT:
        plan = self._chosen_plan(observation_spaces, reward_spaces)
        episode = self._running_episode()
        deadline = self._deadline(timeout)
        self._observe_missing(plan, episode, deadline)
        self._session.send(StepRequest(self, plan, episode, self._session, actions, deadline, receiver))
        episode.expected_costs = plan.costs
        return receiver

    def _chosen_plan(self, observations: Spaces, rewards: Spaces, targets_from: str | None = None) -> Plan:
        """Return the plan for what a call asks for, where None is the default."""
        if observations is None and rewards is None and targets_from is None:
            return self._default_plan
        return self._plan(
            self._observation_space if observations is None else observations,
            self._reward_space if rewards is None else rewards,
            targets_from,
        )

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
            episode.expect(plan)

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
            ValueError: when it has no sources or no `translate`, or is derived from itself.
            UnknownName: when a source does not exist.
        """
        if not space.sources or space.translate is None:
            raise ValueError(f"the observation space {space.name!r} needs sources and a translate function")
        for name in space.sources:
            check_known("observation space", name, self.observation_spaces)
            if space.name in _sources(name, self.observation_spaces):
                raise ValueError(f"the observation space {space.name!r} would be derived from itself")
        self.observation_spaces = {**self.observation_spaces, space.name: space}  # the old one is shared
        self.reward_spaces |= rewards_of_observations({space.name: space}, self.reward_spaces)
        self._plans = Plans()
        self._default_plan = self._plan(self._observation_space, self._reward_space)

    def add_reward_space(self, reward: Reward) -> None:
        """Add a reward of your own to this environment and its future forks, in place of one of the same name.

        Raises:
            UnknownName: when an observation that it needs does not exist.
        """
        for name in (*reward.observation_spaces, *reward.baseline_spaces):
            check_known("observation space", name, self.observation_spaces)
        self.reward_spaces[reward.name] = reward
        self._default_plan = self._plan(self._observation_space, self._reward_space)

    async def send_parameter(self, key: str, value: str, *, timeout: float | None = None) -> str:
        """Send an out-of-band parameter to the compiler session and return its answer.

        What is set so stays set: in resets, forks and siblings, in restored snapshots and over the death of a worker.
        With an empty value it is a question, which sets nothing.

        Raises:
            ParameterFailed: when the compiler does not know the key or take the value.
        """
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"the key and the value of a parameter are text, not {key!r} and {value!r}")
        if key in self.spec.parameters:
            return await self.spec.parameters[key](self, value)
        return await self._session.parameter(key, value, self._deadline(timeout))

    # -------------------------------------------------------------------------- fork, snapshot, expand

    async def fork(self) -> "Env":
        """Return an independent environment at the same state; costs the same whatever the size of the program.

        Nothing is waited for, unless requests of this environment are in flight. Should the compiler not be able to
        fork, the first use of the new environment says so.
        """
        if self._session.closed:
            raise EnvClosed("this environment was closed")
        child = Env(
            self._runtime,
            self.spec,
            self._welcome,
            Session(self._session.worker),
            self._benchmark,
            (self.action_spaces, self.observation_spaces),
            dict(self.reward_spaces),
        )
        child.timeout = self.timeout
        child._plans = self._plans
        child._observation_space, child._reward_space = self._observation_space, self._reward_space
        child._default_plan = self._default_plan
        child._action_space = self._action_space.unseeded()
        child._session.settings = self._session.settings
        if self._episode is not None:
            child._episode = await self._fork_into(child._session)
            await child._find_targets(again=True)
        return child

    async def sibling(self) -> "Env":
        """Return a new environment with the same program, spaces and timeout, on the worker that is least busy.

        Unlike a fork it has no state: reset it first. Searches use siblings to share their work among the workers.
        """
        other = await self._runtime.make(self.spec.id, benchmark=self.benchmark, action_space=self._action_space)
        other.observation_spaces = self.observation_spaces
        other.reward_spaces |= self.reward_spaces
        other.observation_space, other.reward_space = self._observation_space, self._reward_space
        other.timeout = self.timeout
        other._session.settings = self._session.settings
        return other

    @property
    def worker_count(self) -> int:
        """Number of workers that siblings are spread over."""
        return self._runtime.worker_count

    async def snapshot(self) -> Snapshot:
        """Remember the present state; costs the same whatever the size of the program. As `fork`, it seldom waits."""
        self._running_episode()
        session = Session(self._session.worker)
        return Snapshot(session, await self._fork_into(session))

    async def _fork_into(self, session: Session) -> Episode:
        episode = self._episode
        assert episode is not None
        if self._session.fork_ahead(session):
            return episode.copy()
        copy: Episode = await self._session.fork(session, lambda reply: episode.copy())
        return copy

    async def restore(self, snapshot: Snapshot) -> None:
        """Go back to a state that was remembered, here or in a fork; also after an episode has ended.

        Settings and parameters of the environment stay as they are.

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
        kept = self._session.parameters
        if source.worker is not self._session.worker or self._session.error is not None:
            self._session.close()
            self._session = Session(source.worker)
            self._episode = None  # should this fail, there is no way back to it

        session = self._session

        def finish(reply: Any) -> None:
            if self._session is session:  # otherwise a later reset or restore has overtaken this one
                self._episode = snapshot.episode.copy()
                self._benchmark = snapshot.episode.benchmark

        requests: list[asyncio.Future[Any]] = []
        if source.fork_ahead(session):
            finish(None)
        else:
            requests.append(source.fork(session, finish))
        for key, value in kept.items():
            if self._session.parameters.get(key) != value:
                requests.append(self._session.parameter(key, value, self._deadline(None)))
        await asyncio.gather(*requests)
        await self._find_targets(again=True)

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
            candidates: each an action or a list of actions, as for `step`.
            observation_spaces, reward_spaces: as for `step`.
            timeout: seconds that the compiler may take for each candidate.

        Returns:
            One result per candidate, in order. A candidate that fails, or over which the compiler dies, has an
            `error`; the others are not touched by it.
        """
        if isinstance(candidates, (str, bytes)) or not isinstance(candidates, Iterable):
            raise InvalidAction(f"candidates are given as a list, not as {type(candidates).__name__}: {candidates!r}")
        await self._find_targets()
        encoded = [self._action_space.encode(candidate) for candidate in candidates]
        return await self._expand(encoded, observation_spaces, reward_spaces, timeout)

    async def expand_texts(
        self,
        candidates: Iterable[Sequence[str]],
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> list[Candidate]:
        """Evaluate lists of actions given as texts of the compiler's language, as `step_texts` takes them."""
        encoded = [self.action_spaces.language.encode_all(candidate) for candidate in candidates]
        return await self._expand(encoded, observation_spaces, reward_spaces, timeout)

    async def _expand(
        self,
        candidates: list[tuple[Action, ...]],
        observation_spaces: Spaces,
        reward_spaces: Spaces,
        timeout: float | None,
    ) -> list[Candidate]:
        plan = self._chosen_plan(observation_spaces, reward_spaces, targets_from="")
        await run_once(plan.prepare)
        space = self._action_space
        episode = self._running_episode()
        deadline = self._deadline(timeout)
        self._observe_missing(plan, episode, deadline)

        def finish(reply: Expanded, crashes: Mapping[int, Exception]) -> list[Candidate]:
            return [
                Candidate.of(plan, episode, space.decode_all(actions), result, crashes.get(i))
                for i, (actions, result) in enumerate(zip(candidates, reply.candidates, strict=True))
            ]

        results: list[Candidate] = await self._session.expand(candidates, plan.observe, deadline, finish)
        return results

    async def validate(self, state: CompilerEnvState | LegacyState | None = None, **options: Any) -> "ValidationResult":
        """Validate a state, the present one if None, without touching the environment: see `aiocg.validation`."""
        from aiocg.validation.state import validate_env  # it imports this module

        return await validate_env(self._runtime, self, state, **options)

    # ----------------------------------------------------------------------------------------- close

    async def close(self) -> None:
        """Free the environment's state on its worker; idempotent."""
        self._session.close()

    async def __aenter__(self) -> "Env":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # --------------------------------------------------------------------------------------- helpers

    async def _find_targets(self, *, again: bool = False) -> None:
        """Observe what the actions of a targeted space can be applied to, if that is not known, or may have changed."""
        episode, source = self._episode, self._action_space.targets_from
        if source and episode is not None and (again or self._action_space.targets is None):
            await self._session.step(
                (), (source,), self._deadline(None), lambda reply: self.learn_targets(episode, source, (source,), reply)
            )


def _sources(name: str, spaces: Mapping[str, ObservationSpace]) -> set[str]:
    """Return an observation space and all that it is derived from."""
    return {name}.union(*(_sources(source, spaces) for source in spaces[name].sources))


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """Mark the error of an internal request as seen; the step behind it fails with its own."""
    if not future.cancelled():
        future.exception()
