"""Spans for OpenTelemetry: one for each request of a caller, and one for each time that a worker executes it.

A worker says how long a request waited and took (`Timed`), and the client makes its span from that. So workers and
nodes need neither OpenTelemetry nor an exporter, and the clocks of two machines need not agree: the worker's time is
put in the middle of what lies between sending and receiving.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiocg.errors import AiocgError
from aiocg.fleet.blame import brief
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.requests import Pending, Receiver
from aiocg.fleet.restart_policy import Death
from aiocg.fleet.slot import WorkerSlot
from aiocg.transport.channels import Connect
from aiocg.transport.messages import Refused, Reply, Timed, Trace, Tracing, Welcome

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
except ImportError:
    raise AiocgError("spans need opentelemetry-api: pip install 'aiocg[tracing]'") from None


NANO: Final = 1_000_000_000
LONGEST: Final = 1e6  # seconds


def tracer_from_environment() -> trace.Tracer:
    """Return a tracer of the provider of this process, such as `opentelemetry-instrument` sets up."""
    return trace.get_tracer("aiocg")


class TracedSlot(WorkerSlot):
    """A worker slot whose requests have spans.

    Args:
        tracer: makes the spans.
        client, name, quarantine: as for `WorkerSlot`.
    """

    def __init__(self, tracer: trace.Tracer, client: str, name: Mapping[str, Any], quarantine: Quarantine) -> None:
        super().__init__(client, name, quarantine)
        self._tracer = tracer
        self._worker: dict[str, str | int] = {}  # attributes of the process
        self._current: _Span | None = None  # of the request that is being sent, with what it needs
        self._posted: dict[int, tuple[Pending, _Span, int]] = {}  # by number; with the time in nanoseconds

    def connect(
        self, connect: Connect, greeted: Callable[[Welcome | Refused], None], broken: Callable[[Exception], None]
    ) -> None:
        """Talk to a new process, and have it say how long requests take."""
        super().connect(connect, greeted, broken)
        assert self._channel is not None
        self._channel.send(Trace(0))

    def send(self, pending: Pending) -> None:
        """Send a request, in a span that lasts until its outcome."""
        receiver = pending.future
        if receiver is not None and not isinstance(receiver, _Span):
            attributes = {f"aiocg.{key}": value for key, value in self.name.items()}
            if pending.session is not None:
                attributes["aiocg.session"] = pending.session.number
            span = self._tracer.start_span(
                f"aiocg {_verb(pending)}",
                kind=trace.SpanKind.CLIENT,
                attributes={**attributes, "aiocg.doing": brief(pending.doing)},
            )
            pending.future = receiver = _Span(receiver, span)
        outer, self._current = self._current, receiver
        try:
            super().send(pending)
        finally:
            self._current = outer

    def _post(self, pending: Pending, *, at_once: bool = False) -> None:
        now = time.time_ns()  # before the worker can begin
        super()._post(pending, at_once=at_once)
        if self._current is not None and self._number in self._waiting:
            self._posted[self._number] = (pending, self._current, now)

    def _receive(self, replies: list[Reply]) -> None:
        now = time.time_ns()
        others: list[Reply] = []
        for reply in replies:
            if isinstance(reply, Timed):
                self._executed(reply, now)
            elif isinstance(reply, Tracing):
                self._worker["host.name"] = reply.host
            else:
                if isinstance(reply, Welcome):
                    self._worker["process.pid"] = reply.pid
                others.append(reply)
        super()._receive(others)

    def _executed(self, timed: Timed, now: int) -> None:
        if (found := self._posted.pop(timed.request, None)) is None:
            return
        sent = found[2]
        took = min(_nanoseconds(timed.took), now - sent)  # what a worker says fits between sending and receiving
        waited = min(_nanoseconds(timed.waited), now - sent - took)
        began = sent + (now - sent - waited - took) // 2 + waited
        self._span_of_worker(*found[:2], timed.request, began).end(began + took)

    def _span_of_worker(self, pending: Pending, of: "_Span", number: int, began: int) -> trace.Span:
        return self._tracer.start_span(
            f"worker {_verb(pending)}",
            of.context,
            trace.SpanKind.SERVER,
            {"aiocg.request": number, **self._worker},
            start_time=began,
        )

    def died(self, death: Death) -> bool:
        """Handle the end of the process, which is also that of what it was executing."""
        convicted = super().died(death)
        posted, self._posted = self._posted, {}
        for number, (pending, of, sent) in posted.items():
            span = self._span_of_worker(pending, of, number, sent)
            span.set_status(trace.StatusCode.ERROR, f"the worker ended: {death.cause}")
            span.end()
        self._worker = {}
        return convicted


class _Span:
    """Receives the outcome of a request for somebody else, and ends its span with it."""

    __slots__ = ("_receiver", "_span", "context")

    def __init__(self, receiver: Receiver, span: trace.Span) -> None:
        self._receiver = receiver
        self._span = span
        self.context: Context = trace.set_span_in_context(span)

    def done(self) -> bool:
        """Is nobody interested in the outcome any more?"""
        done = self._receiver.done()
        if done and self._span.is_recording():
            self._span.set_status(trace.StatusCode.ERROR, "nobody waits for it any more")
            self._span.end()
        return done

    def set_result(self, result: Any, /) -> None:
        """Take the result."""
        if (error := _error_of(result)) is not None:
            self._fail(error)
        self._span.end()
        self._receiver.set_result(result)

    def set_exception(self, exception: Any, /) -> None:
        """Take the error that replaces the result."""
        self._fail(exception)
        self._span.end()
        self._receiver.set_exception(exception)

    def _fail(self, error: BaseException) -> None:
        self._span.record_exception(error)
        self._span.set_status(trace.StatusCode.ERROR, str(error).partition("\n")[0])


def _nanoseconds(seconds: float) -> int:
    """Return what a worker says in nanoseconds; it may say anything."""
    return round(max(0.0, min(seconds, LONGEST)) * NANO)


def _verb(pending: Pending) -> str:
    """Return what a request does, in one word, such as "step"."""
    names = (kind.__name__ for kind in type(pending).__mro__)
    return next(name for name in names if name.startswith("Pending")).removeprefix("Pending").lower()


def _error_of(result: Any) -> Exception | None:
    """Return the error that ended an episode, if that is what a step has returned."""
    match result:
        case (_, _, True, _, {"error": Exception() as error}):
            return error
    return None
