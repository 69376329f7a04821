"""The client's handle of a worker, over a channel whose two ends the test holds."""

from collections.abc import Callable
from typing import Any

import pytest

from aiocg.errors import WorkerCrashed
from aiocg.fleet.restart_policy import Death
from aiocg.fleet.session import Session
from aiocg.fleet.slot import WorkerSlot
from aiocg.testing import scripted_benchmark
from aiocg.transport.errors import RemoteProtocolError
from aiocg.transport.messages import (
    PROTOCOL_VERSION,
    Candidate,
    Done,
    Expand,
    Expanded,
    Failure,
    FailureCode,
    Load,
    Observed,
    Open,
    Reply,
    Step,
    TextReply,
    Welcome,
)
from aiocg.transport.status import SEVERAL, Execution


class Channel:
    """Keeps what is sent, and hands over what the test says has come."""

    def __init__(self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]) -> None:
        self._on_replies, self._on_error = on_replies, on_error
        self.sent: list[Any] = []
        self.sent_at_once: list[Any] = []
        self.closed = False
        self.bytes_sent = self.bytes_received = self.bytes_queued = 0

    def send(self, message: Any, *, at_once: bool = False) -> None:
        self.sent.append(message)
        if at_once:
            self.sent_at_once.append(message)

    def receive(self, *replies: Reply) -> None:
        if not self.closed:
            self._on_replies(list(replies))

    def receive_pending(self) -> None:
        """Nothing has come that was not handed over."""

    def fail(self, error: Exception) -> None:
        if not self.closed:
            self._on_error(error)

    def close(self) -> None:
        self.closed = True


WELCOME = Welcome(PROTOCOL_VERSION, "scripted", "1", 1, (), ())


def connected(broken: Callable[[Exception], None]) -> tuple[WorkerSlot, Channel]:
    """Return a handle whose worker has said that it is there, and the worker's end."""
    worker, channels = WorkerSlot("test"), list[Channel]()

    def connect(*callbacks: Any) -> Any:
        channels.append(Channel(*callbacks))
        return channels[-1]

    worker.connect(connect, lambda answer: None, broken)
    channels[0].receive(WELCOME)
    return worker, channels[0]


def observed(request: Any, state: int) -> Observed:
    return Observed(request.request, (), state)


ANSWERS_TO_A_STEP = {
    "another kind of reply": lambda step: TextReply(step.request, "0"),
    "too few observations": lambda step: Observed(step.request, (), 6),
    "more actions than there were": lambda step: Failure(step.request, "action", "no", {"applied": 9, "state": 6}),
    "a number that is none": lambda step: Failure(step.request, "action", "no", {"applied": "all", "state": 6}),
}


@pytest.mark.parametrize("lie", ANSWERS_TO_A_STEP)
async def test_an_answer_that_is_none_ends_the_worker_and_not_the_request(lie: str) -> None:
    broken: list[Exception] = []
    worker, channel = connected(broken.append)
    session = Session(worker)
    session.open(scripted_benchmark(5), (), 1.0, lambda reply: None)
    future = session.step((1,), ("value",), 1.0, lambda reply: reply.state)
    channel.receive(observed(next(one for one in channel.sent if isinstance(one, Open)), 5))
    channel.receive(ANSWERS_TO_A_STEP[lie](next(one for one in channel.sent if isinstance(one, Step))))
    assert [type(error) for error in broken] == [RemoteProtocolError] and "[1]" in str(broken[0])
    assert not future.done() and worker.pending == 2  # the next process is asked, and given the benchmark
    assert session.trajectory is not None and session.trajectory.length == 0


@pytest.mark.parametrize("damage", ["a reply", "a request", "a request that is not named"])
async def test_nothing_counts_that_comes_behind_what_was_damaged(damage: str) -> None:
    broken: list[Exception] = []
    worker, channel = connected(broken.append)
    session = Session(worker)
    futures = [session.open(scripted_benchmark(5), (), 1.0, lambda reply: None)]
    futures += [session.step((action,), (), 1.0, lambda reply: reply.state) for action in (1, 2, 3)]
    opening = next(one for one in channel.sent if isinstance(one, Open))
    first, second, third = (one for one in channel.sent if isinstance(one, Step))
    channel.receive(observed(opening, 5))
    match damage:
        case "a reply":
            channel.fail(RemoteProtocolError("cut in half"))
            channel.receive(observed(second, 12), observed(third, 144))
        case "a request":
            failed = Failure(first.request, FailureCode.PROTOCOL, "cannot be read")
            channel.receive(failed, observed(second, 10), observed(third, 100))
        case _:
            channel.receive(WELCOME, observed(second, 10), observed(third, 100))
    assert len(broken) == 1
    assert session.trajectory is not None and (session.trajectory.length, session.trajectory.state) == (0, 5)
    assert [future.done() for future in futures[2:]] == [False, False]
    assert not futures[1].done() or str(futures[1].exception()) == "cannot be read"


async def test_a_death_over_several_candidates_has_them_evaluated_alone_and_then_the_one_is_blamed() -> None:
    worker, channels = WorkerSlot("test"), []

    def connect(*callbacks: Any) -> Any:
        channels.append(Channel(*callbacks))
        return channels[-1]

    def start() -> Expand:
        worker.connect(connect, lambda answer: None, lambda error: None)
        channels[-1].receive(WELCOME)
        for needed in [one for one in channels[-1].sent if isinstance(one, (Load, Open, Step))]:
            channels[-1].receive(Done(needed.request) if isinstance(needed, Load) else observed(needed, 5))
        return next((one for one in channels[-1].sent if isinstance(one, Expand)), None)

    def die(request: Expand, candidate: int) -> None:
        execution = Execution(1, request.session, request.request, candidate, 0.0, 1.0)
        worker.died(Death("signal SIGSEGV", execution, outside=False))

    assert start() is None
    session = Session(worker)
    session.open(scripted_benchmark(5), (), 1.0, lambda reply: None)
    channels[-1].receive(observed(next(one for one in channels[-1].sent if isinstance(one, Open)), 5))
    future = session.expand([(1,), (2,), (3,)], (), 1.0, lambda reply, crashes: (reply, crashes))
    first = next(one for one in channels[-1].sent if isinstance(one, Expand))
    assert (first.alone, first.failed) == (False, ())
    die(first, SEVERAL)
    second = start()
    assert (second.alone, second.failed, future.done()) == (True, (), False)
    die(second, 1)
    part = start()
    assert (part.alone, part.failed, future.done()) == (True, (0, 2), False)
    die(part, 1)
    part = start()
    assert (part.alone, part.failed, future.done()) == (True, (0, 1, 2), False)
    channels[-1].receive(Expanded(part.request, (None, None, None)))
    third = [one for one in channels[-1].sent if isinstance(one, Expand)][-1]
    assert (third.alone, third.failed, future.done()) == (True, (1,), False)
    done = Expanded(third.request, (Candidate(), None, Candidate()))
    channels[-1].receive(done)
    reply, crashes = await future
    assert reply == done and list(crashes) == [1] and isinstance(crashes[1], WorkerCrashed)


async def test_a_request_goes_at_once_where_nothing_else_can_be_expected_to_join_it() -> None:
    worker, channel = connected(lambda error: None)
    session, other = Session(worker), Session(worker)
    session.open(scripted_benchmark(5), (), 1.0, lambda reply: None)
    loading, opening = channel.sent[-2:]
    channel.receive(Done(loading.request), observed(opening, 5))
    channel.sent_at_once.clear()

    def step() -> Step:
        session.step((1,), (), 1.0, lambda reply: reply.state)
        request: Step = channel.sent[-1]
        return request

    first = step()  # several replies have come together, so several callers may send now
    channel.receive(observed(first, 6))
    alone = step()
    behind = step()
    channel.receive(observed(alone, 7))
    channel.receive(observed(behind, 8))
    another = Session(worker)
    another.open(scripted_benchmark(5), (), 1.0, lambda reply: None)  # perhaps one of many that begin together
    channel.receive(observed(channel.sent[-1], 5))
    behind = step()
    channel.receive(observed(behind, 9))
    assert session.fork_ahead(other)
    forked = channel.sent[-1]
    with_it = step()  # travels with the fork
    channel.receive(Done(forked.request), observed(with_it, 10))
    assert channel.sent_at_once == [alone]
