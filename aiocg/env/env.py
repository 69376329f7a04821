"""The asynchronous environment: one program, its state on a worker, and the episode in progress."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from aiocg.env.base import EnvBase
from aiocg.env.episode import Episode, Snapshot, fork_into
from aiocg.env.plan import Plan, Reading, Spaces, StepSettings, check_known
from aiocg.env.preparation import BenchmarkLike, carrying_runs, prepare, run_once
from aiocg.env.step import Candidate, StepRequest, StepResult, log_candidates, log_reset, observe_missing
from aiocg.errors import InvalidAction, ResetNeeded
from aiocg.fleet.requests import Receiver, ReceiverT
from aiocg.fleet.session import Session
from aiocg.transport.messages import Action, Expanded, Observed

if TYPE_CHECKING:
    from aiocg.datasets.benchmark import Benchmark


_RESET_TIMEOUT = 300.0  # seconds of execution for a reset, which may compute baselines


class Env(EnvBase):
    """A compiler environment, made by `Runtime.make`.

    Requests are executed in the order they are made. If a cancelled request is still executing after
    `Policy.cancel_grace`, its worker is replaced, and the requests behind it raise `Interrupted`. Whether a cancelled
    request was executed is known after `settled`.

    `timeout` counts seconds of execution. To bound queueing too, cancel: `async with asyncio.timeout(5):`.
    """

    # ----------------------------------------------------------------------------------------- reset

    async def reset(
        self,
        *,
        benchmark: BenchmarkLike | None = None,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            benchmark: the program, if it changes: a URI, a path, or a `Benchmark`.
            seed: seeds the sampling of actions.
            options: `{"benchmark": ...}` is Gymnasium's form of `benchmark`; `{"action_space": ...}` chooses another
                action space, as in `Runtime.make`.
            timeout: seconds that the compiler may take to load the program, and again to observe it; if None,
                `self.timeout` and five minutes.

        Returns:
            The observation (None without an observation space) and an info dictionary.

        Raises:
            DatasetError: if the benchmark does not exist or the compiler rejects it; the environment can be reset to
                another.
            UnknownName, InvalidAction: if the action space does not exist.
            ServiceError: if no worker is available, or the worker dies over this benchmark.
        """
        self.check_open()
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
        result: tuple[Any, dict[str, Any]] = await self.begin(target, timeout)
        return result

    def begin(self, target: "Benchmark", timeout: float | None = None) -> "asyncio.Future[Any]":
        """Reset without a task; the benchmark and the observations must have been prepared by an earlier reset."""
        self.check_open()
        if self._session.error is not None or self._session.pending:
            self._replace_session()  # requests in flight continue in the old session, and cannot fail this reset
        plan, session = self._default_plan, self._session

        def finish(reply: Observed) -> tuple[Any, dict[str, Any]]:
            current = self._session is session  # otherwise a later reset or restore has overtaken this one
            if current:
                self._episode = None  # the old episode is over, even if reading the reply raises
                self._benchmark = target
            observation, values = plan.read_reset(reply.observations)
            if self.log is not None:
                log_reset(self.log, self, plan, session, reply, deadline)
            if current:
                self._episode = Episode.start(target, values)
                if plan.targets_from:
                    self.learn_targets(self._episode, plan.targets_from, plan.at_reset.observe, reply)
            return observation, {"benchmark": str(target.uri), "state": reply.state}

        loading, deadline = self._deadline(timeout), _RESET_TIMEOUT if timeout is None else self._deadline(timeout)
        return session.open(self.spec.form(target), plan.at_reset.observe, deadline, finish, loading)

    def _replace_session(self) -> None:
        session = self._runtime.new_session(self.spec)
        session.settings = self._session.settings
        self._session.close()
        self._session = session
        self._episode = None  # it belongs to the old session

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
            action: an action of the action space (in a discrete one, an index or a name), or a list of actions. An
                empty list only observes.
            observation_spaces: what to observe instead of the default; a list gives a list.
            reward_spaces: which rewards to compute instead of the default; a list gives a list.
            timeout: seconds that the compiler may take, `self.timeout` if None.

        Returns:
            Observation, reward, terminated, truncated, and info. `terminated` is True if the episode is over, and the
            environment must be reset. If the action failed or the compiler died over it, `info["error_type"]` and
            `info["error_details"]` give the error. `info["action_had_no_effect"]` is True exactly if the program is the
            same as before, and `info["new_action_space"]` if `action_space` changed because the targets did.

        Raises:
            UnknownName, InvalidAction: for a bad argument, or a text that is no action; nothing was done.
            ResetNeeded: if there is no episode.
        """
        plan = self._chosen_plan(observation_spaces, reward_spaces)
        if plan.prepare:
            await run_once(plan.prepare)
        if self._action_space.targets_from:
            await self._find_targets()
        future: asyncio.Future[StepResult] = self._session.future()
        return await self._submit(self._action_space.encode(action), plan, timeout, future)

    async def step_texts(
        self,
        texts: Sequence[str],
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> StepResult:
        """Apply actions given as texts of the compiler's language, even those that the action space does not contain.

        Arguments, result and errors are those of `step`.
        """
        plan = self._chosen_plan(observation_spaces, reward_spaces)
        await run_once(plan.prepare)
        encoded = self.action_spaces.language.encode_all(texts)
        future: asyncio.Future[StepResult] = self._session.future()
        return await self._submit(encoded, plan, timeout, future)

    async def apply(self, texts: Sequence[str], **settings: Unpack[StepSettings]) -> tuple[Any, Any, dict[str, Any]]:
        """Apply actions as `step_texts` does, and raise the error if one fails.

        Args:
            texts: actions as texts of the compiler's language; an empty list only observes.
            settings: `observation_spaces`, `reward_spaces` and `timeout`, as for `step`.

        Returns:
            Observation, reward and info, as from `step`.

        Raises:
            UnknownName, InvalidAction, ResetNeeded: as from `step`; nothing was done.
            ServiceError: if an action fails or the compiler dies over it. The episode has ended; `action_texts` has the
                actions that succeeded before.
            DatasetError: if the compiler died and can no longer load the program; the episode has ended.
        """
        observation, reward, _, _, info = await self.step_texts(texts, **settings)
        if "error" in info:
            raise info["error"]
        return observation, reward, info

    def submit(
        self,
        action: Any,
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> "asyncio.Future[StepResult]":
        """Send a step without waiting for it; steps of one environment are executed in the order submitted.

        Arguments and errors are those of `step`, and TooManyPending when too far ahead of the worker. The future's
        result is what `step` returns; after a step that ends the episode, the steps behind it raise ResetNeeded. If the
        action space depends on the state, the action refers to the last known one.
        """
        encoded, plan = self._action_space.encode(action), self._chosen_plan(observation_spaces, reward_spaces)
        return self._submit(encoded, plan, timeout, self._session.future())

    def deliver(
        self,
        actions: tuple[Action, ...],
        receiver: Receiver,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> None:
        """Submit encoded actions, with a receiver instead of a future, which costs less."""
        self._submit(actions, self._chosen_plan(observation_spaces, reward_spaces), timeout, receiver)

    def has_to_prepare(self, observation_spaces: Spaces = None, reward_spaces: Spaces = None) -> bool:
        """Return whether a step needs preparation, which `step` does and `submit` and `deliver` do not."""
        return bool(self._action_space.targets_from or self._chosen_plan(observation_spaces, reward_spaces).prepare)

    def _submit(self, actions: tuple[Action, ...], plan: Plan, timeout: float | None, receiver: ReceiverT) -> ReceiverT:
        episode = self._episode
        if episode is None or episode.terminated:
            episode = self._running_episode()  # raises the right error
        deadline = self._timeout if timeout is None else self._deadline(timeout)
        if not (plan.costs <= episode.expected_costs and plan.baselines <= episode.expected_baselines):
            observe_missing(self._session, plan, episode, self.observation_spaces, deadline)
        self._session.send(
            StepRequest(self._session, actions, plan.observe, deadline, self, plan, episode, future=receiver)
        )
        episode.expected_costs = plan.costs
        return receiver

    # --------------------------------------------------------------------------------------- observe

    async def observe(self, *names: str, timeout: float | None = None) -> Any:
        """Compute observations of the current state.

        Args:
            names: names of observation spaces.
            timeout: seconds that the compiler may take.

        Returns:
            The observation; a list if there are several names.

        Raises:
            UnknownName: for a name that is not an observation space.
            ServiceError: if an observation cannot be computed.
        """
        for name in names:
            check_known("observation space", name, self.observation_spaces)
        self.check_open()
        if self._episode is None:
            raise ResetNeeded("call reset() before observing")
        deadline, reading = self._deadline(timeout), Reading(names, self.observation_spaces)
        await run_once(reading.prepare)
        values = await self._session.step(
            (), reading.observe, deadline, lambda reply: reading.values(reply.observations)
        )
        return values[0] if len(names) == 1 else values

    async def send_parameter(self, key: str, value: str, *, timeout: float | None = None) -> str:
        """Send an out-of-band parameter to the compiler session and return its answer.

        A parameter stays set: across resets and worker deaths, and in forks, siblings and restored snapshots. An empty
        value makes it a question, which sets nothing.

        Raises:
            ParameterFailed: if the compiler does not know the key or rejects the value.
        """
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"the key and the value of a parameter are text, not {key!r} and {value!r}")
        if key in self.spec.parameters:
            return await self.spec.parameters[key](self, value)
        return await self._session.parameter(key, value, self._deadline(timeout))

    # -------------------------------------------------------------------------- fork, snapshot, expand

    async def fork(self) -> "Env":
        """Return an independent environment in the same state; the cost does not depend on the size of the program.

        This waits only if requests of this environment are in flight. If the compiler cannot fork, the first use of
        the new environment raises.
        """
        self.check_open()
        child = Env(
            self._runtime,
            self.spec,
            self._welcome,
            Session(self._session.worker),
            self._benchmark,
            (self.action_spaces, self.observation_spaces),
            dict(self.reward_spaces),
        )
        child._copy_choices(self)
        child._session.settings = self._session.settings
        if self._episode is not None:
            child._episode = await fork_into(child._session, self._session, self._episode)
            await child._find_targets(again=True)
        return child

    async def sibling(self) -> "Env":
        """Return a new environment with the same program, spaces and timeout, on the least busy worker.

        Unlike a fork it has no state: reset it first. Searches use siblings to spread their work over the workers.
        """
        self.check_open()
        other: Env = await self._runtime.make(self.spec.id, benchmark=self.benchmark, action_space=self._action_space)
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
        """Remember the current state; like `fork` it seldom waits, and its cost does not depend on the program."""
        episode = self._running_episode()
        session = Session(self._session.worker)
        return Snapshot(session, await fork_into(session, self._session, episode))

    async def restore(self, snapshot: Snapshot) -> None:
        """Go back to a state remembered here or in a fork, even after the episode has ended.

        Settings and parameters of the environment stay as they are.

        Raises:
            EnvClosed: if the snapshot or this environment was closed.
            ResetNeeded: if the worker died and the state could not be rebuilt.
        """
        self.check_open()
        snapshot.check()
        source, kept = snapshot.session, self._session.parameters
        if source.worker is not self._session.worker or self._session.error is not None:
            self._session.close()
            self._session = Session(source.worker)
            self._episode = None  # it belongs to the old session
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

    async def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        """Evaluate many candidates from the current state, in one message, without changing the state.

        Args:
            candidates: each an action or a list of actions, as for `step`.
            settings: `observation_spaces` and `reward_spaces` as for `step`, and `timeout`: seconds that the compiler
                may take for each candidate.

        Returns:
            One result per candidate, in order. A candidate that fails, or kills the compiler, has an `error`, and does
            not affect the others.
        """
        if isinstance(candidates, (str, bytes)) or not isinstance(candidates, Iterable):
            raise InvalidAction(f"candidates must be a list, not {type(candidates).__name__}: {candidates!r}")
        await self._find_targets()
        encoded = [self._action_space.encode(candidate) for candidate in candidates]
        return await self._expand(encoded, **settings)

    async def expand_texts(
        self, candidates: Iterable[Sequence[str]], **settings: Unpack[StepSettings]
    ) -> list[Candidate]:
        """Evaluate lists of actions given as texts of the compiler's language, like those of `step_texts`."""
        encoded = [self.action_spaces.language.encode_all(candidate) for candidate in candidates]
        return await self._expand(encoded, **settings)

    async def _expand(
        self,
        candidates: list[tuple[Action, ...]],
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> list[Candidate]:
        plan = self._chosen_plan(observation_spaces, reward_spaces, targets_from="")
        await run_once(plan.prepare)
        space, session, deadline = self._action_space, self._session, self._deadline(timeout)
        episode = self._running_episode()
        observe_missing(self._session, plan, episode, self.observation_spaces, deadline)

        def finish(reply: Expanded, crashes: Mapping[int, Exception]) -> list[Candidate]:
            found = [
                Candidate.of(plan, episode, space.decode_all(actions), result, crashes.get(i))
                for i, (actions, result) in enumerate(zip(candidates, reply.candidates, strict=True))
            ]
            if self.log is not None:
                log_candidates(self.log, self, plan, session, candidates, reply, found)
            return found

        return list(await session.expand(candidates, plan.observe, deadline, finish))

    async def __aenter__(self) -> "Env":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
