"""The environments of a vector: the present operation of each, and which are idle, busy or done."""

import asyncio
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium.error
from gymnasium.vector import AutoresetMode

from aiocg.datasets.errors import DatasetError
from aiocg.env.env import Env
from aiocg.env.step import StepResult
from aiocg.errors import EnvClosed, ResetNeeded, RuntimeClosed, ServiceError
from aiocg.gym.vector._arguments import EnvsBusy, NothingPending
from aiocg.gym.vector._programs import ProgramSource
from aiocg.transport.messages import Action

MAX_SKIPPED = 8  # programs of a stream that may fail to load one after the other, before that is an error


class _Inbox:
    """Receives a lane's reply, unless the lane has dropped it."""

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


# --------------------- The lanes of a vector: which are idle, busy or done, and resetting those whose episode has ended


class _Waiter:
    """Waits until enough environments are done or a deadline passes, then computes a result.

    Attributes:
        future: of the result.

    Args:
        enough: how many are enough.
        finish: computes the result; called in a later turn of the event loop, so that replies which arrive together are
            all included.
        deadline: seconds to wait at most, None for no deadline.
    """

    def __init__(self, enough: int, finish: Callable[[], Any], deadline: float | None) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = loop.create_future()
        self._enough = enough
        self._finish = finish
        self._handle = None if deadline is None else loop.call_later(deadline, self._end)

    def tell(self, ready: int) -> None:
        """Update the number of lanes that are done."""
        if ready >= self._enough:
            self._enough = 1 << 62  # tell() is over
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self.future.done():
            return
        try:
            self.future.set_result(self._finish())
        except Exception as error:
            self.future.set_exception(error)


class Pool:
    """The lanes of a vector, and those that are done in order of completion.

    Works by callbacks of the event loop, without a task for each environment.

    Attributes:
        autoreset: when an environment is reset whose episode has ended.
        busy: number of lanes whose result was not received.
    """

    def __init__(self, autoreset: AutoresetMode) -> None:
        self.lanes: list[Lane] = []
        self.autoreset = autoreset
        self.closed = False
        self._ready: deque[Lane] = deque()
        self.busy = 0
        self._waiter: _Waiter | None = None
        # In a step of all environments, resets begin when all have stepped, so that programs are dealt out in the order
        # of the environments, and not in that in which they happen to be done.
        self._stepping: set[int] = set()  # indices of those that have not stepped yet
        self._ended: list[Lane] = []  # those to be reset, as their episodes have ended

    # ----------------------------------------------------------------------------------------- begin

    def check(self, lanes: Sequence[Lane]) -> None:
        """Check that lanes can be stepped.

        Raises:
            EnvClosed: after `close`.
            EnvsBusy: when the result of the last thing that one did was not received.
            ResetNeeded: when one was never reset, or its episode has ended and it is not reset automatically.
        """
        if self.closed:
            raise EnvClosed("this vector was closed")
        if self.busy:
            busy = [lane.index for lane in lanes if lane.busy]
            if busy:
                raise EnvsBusy(busy)
        for lane in lanes:
            if lane.over:
                if not lane.started:
                    raise ResetNeeded(f"environment {lane.index} has not been reset yet: call reset() before stepping")
                if self.autoreset is AutoresetMode.DISABLED:
                    ended = [lane.index for lane in lanes if lane.over]
                    raise ResetNeeded(
                        f"the episodes of the environments {ended} have ended and autoreset is disabled: "
                        'reset(options={"reset_mask": terminations | truncations})'
                    )

    def send(self, lanes: Sequence[Lane], actions: Iterable[tuple[Action, ...]], *, together: bool = False) -> None:
        """Step checked lanes, all different, which are `together` if these are all; reset those that have ended."""
        self.busy += len(lanes)
        if together and self.autoreset is AutoresetMode.SAME_STEP:
            self._stepping.update(lane.index for lane in lanes)
        for lane, action in zip(lanes, actions, strict=True):
            if lane.over:
                lane.reset()
            else:
                lane.step(action)

    def reset(self, lanes: Sequence[Lane], seeds: Iterable[int | None]) -> None:
        """Reset lanes, whatever they are doing."""
        if self.closed:
            raise EnvClosed("this vector was closed")
        for lane in lanes:
            self._drop(lane)
        self.busy += len(lanes)
        for lane, seed in zip(lanes, seeds, strict=True):
            lane.reset(seed)

    def _drop(self, lane: Lane) -> None:
        if not lane.busy:
            return
        lane.drop()
        self.busy -= 1
        if lane in self._ready:
            self._ready.remove(lane)
        elif lane in self._ended:
            self._ended.remove(lane)
        elif lane.index in self._stepping:
            self._stepping.remove(lane.index)
            self._reset_soon()

    # ------------------------------------------------------------------------------------------ done

    def done(self, lane: Lane) -> None:
        """Record that a lane has completed a step or a reset."""
        self._stepping.discard(lane.index)
        if lane.over and lane.error is None and self.autoreset is AutoresetMode.SAME_STEP:
            self._ended.append(lane)
        else:
            self._ready.append(lane)
        if self._ended:
            self._reset_soon()
        if self._waiter is not None:
            self._waiter.tell(len(self._ready))

    def _reset_soon(self) -> None:
        """Begin resets in a later turn of the loop, since the session of a dead worker is still being cleaned up."""
        if self._ended and not self._stepping:
            asyncio.get_running_loop().call_soon(self._reset_ended)

    def _reset_ended(self) -> None:
        ended, self._ended = self._ended, []
        for lane in sorted(ended, key=lambda lane: lane.index):
            lane.reset_in_step()

    # --------------------------------------------------------------------------------------- receive

    def wait(self, enough: int, finish: Callable[[], Any], deadline: float | None = None) -> "asyncio.Future[Any]":
        """Return a future that computes a result when enough lanes are done; see `_Waiter`.

        Raises:
            EnvClosed: after `close`.
            NothingPending: when no lane is busy.
            AlreadyPendingCallError: when someone else waits.
        """
        if self.closed:
            raise EnvClosed("this vector was closed")
        if not self.busy:
            raise NothingPending
        if self._waiter is not None and not self._waiter.future.done():
            raise gymnasium.error.AlreadyPendingCallError("someone else waits for this vector already", "recv")
        self._waiter = _Waiter(min(enough, self.busy), finish, deadline)
        self._waiter.tell(len(self._ready))
        return self._waiter.future

    def take(self, most: int | None = None) -> list[Lane]:
        """Return the lanes that are done in order of completion; they can be stepped again.

        Args:
            most: so many at most, None for all.

        Raises:
            Exception: what one of them failed with; the others can still be taken.
        """
        ready = self._ready
        for lane in ready:
            if lane.error is not None:
                ready.remove(lane)
                self.busy -= 1
                error = lane.error
                lane.received()
                error.add_note(f"in environment {lane.index} of {len(self.lanes)}")
                raise error
        count = len(ready) if most is None else min(most, len(ready))
        lanes = [ready.popleft() for _ in range(count)]
        self.busy -= count
        for lane in lanes:
            lane.busy = False
        return lanes

    # ----------------------------------------------------------------------------------------- close

    async def close(self) -> None:
        """Free all environments; waiting calls get EnvClosed. Idempotent."""
        if self.closed:
            return
        self.closed = True
        for lane in self.lanes:
            self._drop(lane)
        if self._waiter is not None and not self._waiter.future.done():
            self._waiter.future.set_exception(EnvClosed("this vector was closed"))
        for lane in self.lanes:
            await lane.env.close()
