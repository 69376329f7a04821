"""A request without a reply: its content, session, and waiting caller.

It is kept until its reply arrives, so that it can be sent again, in order, to the process that replaces a dead one.
Exactly one of `settle` and `reject` is called, once.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from aiocg.errors import failure
from aiocg.transport.messages import Done, Failure, Reply, Request

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["Finish", "Pending", "Receiver", "ReceiverT", "Recover"]

Finish = Callable[[Any], Any]  # turns a reply into the caller's result
Recover = Callable[[Exception], Any]  # turns an error into the caller's result, or raises


class Receiver(Protocol):
    """Gets the outcome of a request: a future, or something cheaper where many outcomes arrive together."""

    def done(self) -> bool:
        """Is nobody interested in the outcome any more?"""

    def set_result(self, result: Any, /) -> None:
        """Take the result."""

    def set_exception(self, exception: Any, /) -> None:
        """Take the error that replaces the result."""


ReceiverT = TypeVar("ReceiverT", bound=Receiver)


class Pending:
    """A request without a reply.

    Attributes:
        session: the session it belongs to, None if it concerns the whole worker.
        future: the future, or other receiver, of the outcome; None if nobody waits.
        attempts: number of worker deaths while executing it.
        deaths: number of those that were crashes, with those that are only suspected to be due to it.
        independent: does not depend on its cancelled predecessor having run.
        since: when it was first seen waiting; 0.0 until then.
        is_overdue: its long wait has been logged.
        doing: what it does, for error messages.
        answer: type of the reply that means success.
        binds_anew: creates the state of its session, or of a child, whatever the worker knew before.
        counted: counts among the pending requests of its session.
    """

    __slots__ = (
        "__weakref__",
        "attempts",
        "deaths",
        "finish",
        "future",
        "independent",
        "is_overdue",
        "recover",
        "session",
        "since",
    )
    doing = "a request"
    answer: ClassVar[type] = Done
    binds_anew: ClassVar[bool] = False
    counted: ClassVar[bool] = True

    def __init__(
        self,
        session: "Rebuildable | None",
        future: Receiver | None = None,
        finish: Finish | None = None,
        recover: Recover | None = None,
    ) -> None:
        self.session = session
        self.future = future
        self.finish = finish
        self.recover = recover
        self.attempts = 0
        self.deaths = 0
        self.independent = False
        self.is_overdue = False
        self.since = 0.0

    def message(self, number: int) -> Request:
        """Build the message; `number` is the request number on this connection."""
        raise NotImplementedError

    def accepts(self, reply: Reply) -> bool:
        """Can this reply answer the request? If not, the worker cannot be trusted."""
        return isinstance(reply, (self.answer, Failure))

    def apply(self, reply: Any) -> None:
        """Update the session from a successful reply, before the result is delivered."""

    def fail(self, reply: Failure) -> Exception:
        """Update the session from a failure, and return the failure as an error."""
        return failure(reply.code, reply.message, reply.fields)

    def binds(self) -> "tuple[Rebuildable, ...]":
        """Return the sessions that the worker knows after this request."""
        return () if self.session is None else (self.session,)

    def changes(self) -> "tuple[Rebuildable, ...]":
        """Return the sessions whose state this request changes."""
        return ()

    def take_back(self) -> None:
        """Undo what was noted when the request was made: it will not run, and is about to be rejected."""

    @property
    def abandoned(self) -> bool:
        """Has everyone who waited for the outcome cancelled?"""
        return self.future is not None and self.future.done()

    def starts_from(self) -> str | None:
        """Return the key of the benchmark that the worker needs for this request."""
        trajectory = self.session.trajectory if self.session is not None else None
        return trajectory.benchmark.key if trajectory is not None else None

    def settle(self, reply: Reply) -> None:
        """Deliver the worker's reply."""
        if isinstance(reply, Failure):
            self.reject(self.fail(reply))
        else:
            self.apply(reply)
            self._deliver(self.result, reply)

    def reject(self, error: Exception) -> None:
        """Deliver an error instead of a reply."""
        self._deliver(self.fallback, error)

    def _deliver(self, make: Callable[[Any], Any], outcome: Any) -> None:
        """Deliver `make(outcome)`, where the outcome is a reply or an error."""
        session, future = self.session, self.future
        if session is not None and self.counted:
            session.pending -= 1
            if not session.pending:
                session.last = None
        try:
            result = make(outcome)
        except BaseException as error:  # the user's code may raise anything; it must not reach the event loop
            if future is not None and not future.done():
                future.set_exception(_storable(error))
        else:
            if future is not None and not future.done():
                future.set_result(result)

    def result(self, reply: Any) -> Any:
        """Turn a successful reply into the caller's result."""
        return self.finish(reply) if self.finish is not None else reply

    def fallback(self, error: Exception) -> Any:
        """Turn an error into the caller's result, or raise the error the caller should see."""
        if self.recover is None:
            raise error
        return self.recover(error)


def _storable(error: BaseException) -> BaseException:
    """Return an error that a future can hold; futures give these two types another meaning."""
    if not isinstance(error, (StopIteration, asyncio.CancelledError)):
        return error
    return RuntimeError(f"a reward or an observation raised {error!r}").with_traceback(error.__traceback__)
