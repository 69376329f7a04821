"""One environment of a vector, and its present operation."""

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

from aiocg.datasets.errors import DatasetError
from aiocg.env.env import Env
from aiocg.env.step import StepResult
from aiocg.errors import RuntimeClosed, ServiceError
from aiocg.gym.vector._programs import ProgramSource
from aiocg.transport.messages import Action

MAX_SKIPPED = 8  # programs of a stream that may fail to load one after the other, before that is an error


class _Inbox:
    """Receives a lane's reply, unless the lane has dropped it."""

    __slots__ = ("lane",)

    def __init__(self, lane: "Lane") -> None:
        self.lane: Lane | None = lane

    def done(self) -> bool:
        """Return whether the reply was dropped."""
        return self.lane is None

    def set_result(self, result: StepResult) -> None:
        """Deliver the result of a step."""
        if self.lane is not None:
            self.lane.stepped(result)

    def set_exception(self, exception: Exception) -> None:
        """Deliver the error of a step."""
        if self.lane is not None:
            self.lane.failed(exception)


class Lane:
    """One environment of a vector, and its last result.

    It has one operation at a time: `step` or `reset` begins it, and the vector is notified when it is done.

    Attributes:
        index: in the vector.
        env: the environment.
        programs: where the programs of its episodes come from.
        busy: an operation is pending or its result not received.
        started: it has been reset at least once.
        over: the episode has ended, so that a reset must follow.
        elapsed: number of steps of the episode.
        observation, reward, terminated, truncated, info: as `Env.step` returns them, with 0.0 for no reward.
        error: to raise in place of the result, None if none.
    """

    __slots__ = (
        "_done",
        "_final",
        "_inbox",
        "_limit",
        "_resetting",
        "_same",
        "busy",
        "elapsed",
        "env",
        "error",
        "index",
        "info",
        "observation",
        "over",
        "programs",
        "reward",
        "started",
        "terminated",
        "truncated",
    )

    def __init__(
        self, index: int, env: Env, programs: ProgramSource, limit: int | None, done: Callable[["Lane"], None]
    ) -> None:
        """Make a lane that waits for its first reset.

        Args:
            index, env, programs: see above.
            limit: number of steps after which an episode is truncated, None for no limit.
            done: called with the lane when a step or a reset is done.
        """
        self.index = index
        self.env = env
        self.programs = programs
        self.busy = self.started = False
        self.over = True
        self.elapsed = 0
        self.observation: Any = None
        self.reward = 0.0
        self.terminated = self.truncated = False
        self.info: dict[str, Any] = {}
        self.error: Exception | None = None
        self._same = False  # the next episode has the program of the last one
        self._limit = limit
        self._done = done
        self._inbox = _Inbox(self)
        self._resetting: asyncio.Future[tuple[Any, dict[str, Any]]] | None = None
        self._final: dict[str, Any] | None = None

    def use(self, programs: ProgramSource) -> None:
        """Change the source of programs."""
        self.programs = programs
        self._same = False

    # ------------------------------------------------------------------------------------------ step

    def step(self, actions: tuple[Action, ...]) -> None:
        """Begin a step with encoded actions."""
        self.busy = True
        try:
            self.env.deliver(actions, self._inbox)
        except Exception as error:
            self.failed(error)

    def stepped(self, result: StepResult) -> None:
        """Record the result of a step."""
        self.observation, reward, self.terminated, _, self.info = result
        self.reward = 0.0 if reward is None else reward
        self.elapsed += 1
        self.truncated = self._limit is not None and self.elapsed >= self._limit
        self.over = self.terminated or self.truncated
        self._done(self)

    def failed(self, error: Exception) -> None:
        """Record an error."""
        self.error = error
        self._done(self)

    # ----------------------------------------------------------------------------------------- reset

    def reset(self, seed: int | None = None) -> None:
        """Begin a reset; its result looks like a step with reward 0."""
        self.busy = True
        self.reward, self.terminated, self.truncated = 0.0, False, False
        self._reset(seed)

    def reset_in_step(self) -> None:
        """Begin a reset within the last step, which keeps its flags and reward; its ending goes into info."""
        self._final = {"final_obs": self.observation, "final_info": self.info}
        self._reset(None)

    def _reset(self, seed: int | None) -> None:
        try:
            if self._same and seed is None:
                resetting = self.env.begin(self.env.benchmark)
            else:
                resetting = asyncio.ensure_future(self._reset_to_next(seed))
        except Exception as error:
            self._final = None
            self.failed(error)
        else:
            self._resetting = resetting
            resetting.add_done_callback(self._was_reset)

    async def _reset_to_next(self, seed: int | None) -> tuple[Any, dict[str, Any]]:
        """Reset to the next program; unavailable programs of a stream are skipped with a warning."""
        skipped: list[str] = []
        while True:
            benchmark = await self.programs.take()
            try:
                observation, info = await self.env.reset(benchmark=benchmark, seed=seed)
            except (DatasetError, ServiceError) as error:
                if not self.programs.changes or len(skipped) == MAX_SKIPPED:
                    raise
                skipped.append(str(benchmark.uri))
                warnings.warn(f"{benchmark.uri} is left out: {error}", stacklevel=2)
            else:
                return observation, {**info, "skipped_benchmarks": tuple(skipped)} if skipped else info

    def _was_reset(self, resetting: "asyncio.Future[tuple[Any, dict[str, Any]]]") -> None:
        if resetting is not self._resetting:  # it was given up
            if not resetting.cancelled():
                resetting.exception()
            return
        self._resetting = None
        final, self._final = self._final, None
        try:
            self.observation, info = resetting.result()
        except asyncio.CancelledError:
            self.failed(RuntimeClosed("the runtime was closed"))
        except Exception as error:
            self.over = True
            self.failed(error)
        else:
            self.info = info if final is None else {**final, **info}
            self.started, self.over, self.elapsed = True, False, 0
            self._same = not self.programs.changes
            self._done(self)

    # ------------------------------------------------------------------------------------ end of it

    def fork(self, env: Env, done: Callable[["Lane"], None]) -> "Lane":
        """Return an idle lane at the same state.

        Args:
            env: its environment.
            done: as for this one.
        """
        lane = Lane(self.index, env, self.programs, self._limit, done)
        for name in ("started", "over", "elapsed", "observation", "reward", "terminated", "truncated", "info", "_same"):
            setattr(lane, name, getattr(self, name))
        return lane

    def received(self) -> None:
        """Mark the result as received, so that the lane can be used again."""
        self.busy = False
        self.error = None

    def drop(self) -> None:
        """Drop the pending operation; a reset must follow."""
        if self.busy:
            self._inbox.lane = None
            self._inbox = _Inbox(self)
            resetting, self._resetting = self._resetting, None
            if resetting is not None:
                resetting.cancel()
            self._final = None
            self.over = True
            self.received()
