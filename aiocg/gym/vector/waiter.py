"""Someone who waits for environments of a vector to be done."""

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["Waiter"]


class Waiter:
    """Waits until enough environments are done, or no longer than a deadline, then makes a result of them.

    Attributes:
        future: of the result.

    Args:
        enough: how many are enough.
        finish: makes the result; called in a turn of the loop of its own, so that what came in with the last one that
            was waited for is there as well.
        deadline: seconds after which those that are done are enough, None for no deadline.
    """

    __slots__ = ("_enough", "_finish", "_handle", "future")

    def __init__(self, enough: int, finish: Callable[[], Any], deadline: float | None) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = loop.create_future()
        self._enough = enough
        self._finish = finish
        self._handle = None if deadline is None else loop.call_later(deadline, self._end)

    def tell(self, ready: int) -> None:
        """Take note of how many are done."""
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
