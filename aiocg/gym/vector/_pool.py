"""The lanes of a vector: which are idle, busy or done, and resetting those whose episode has ended."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium.error
from gymnasium.vector import AutoresetMode

from aiocg.errors import EnvClosed, ResetNeeded
from aiocg.gym.vector._arguments import EnvsBusy, NothingPending
from aiocg.gym.vector._lane import Lane
from aiocg.transport.messages import Action


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

    __slots__ = ("_enough", "_finish", "_handle", "future")

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
    """

    def __init__(self, autoreset: AutoresetMode) -> None:
        self.lanes: list[Lane] = []
        self.autoreset = autoreset
        self.closed = False
        self._ready: deque[Lane] = deque()
        self._busy = 0
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
        if self._busy:
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
        self._busy += len(lanes)
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
        self._busy += len(lanes)
        for lane, seed in zip(lanes, seeds, strict=True):
            lane.reset(seed)

    def _drop(self, lane: Lane) -> None:
        if not lane.busy:
            return
        lane.drop()
        self._busy -= 1
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

    @property
    def busy(self) -> int:
        """Number of lanes whose result was not received."""
        return self._busy

    def wait(self, enough: int, finish: Callable[[], Any], deadline: float | None = None) -> "asyncio.Future[Any]":
        """Return a future that computes a result when enough lanes are done; see `_Waiter`.

        Raises:
            EnvClosed: after `close`.
            NothingPending: when no lane is busy.
            AlreadyPendingCallError: when someone else waits.
        """
        if self.closed:
            raise EnvClosed("this vector was closed")
        if not self._busy:
            raise NothingPending
        if self._waiter is not None and not self._waiter.future.done():
            raise gymnasium.error.AlreadyPendingCallError("someone else waits for this vector already", "recv")
        self._waiter = _Waiter(min(enough, self._busy), finish, deadline)
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
                self._busy -= 1
                error = lane.error
                lane.received()
                error.add_note(f"in environment {lane.index} of {len(self.lanes)}")
                raise error
        count = len(ready) if most is None else min(most, len(ready))
        lanes = [ready.popleft() for _ in range(count)]
        self._busy -= count
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
