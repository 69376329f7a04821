"""Replies that travel together, over a real channel."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiocg.transport.codec import Frame, reply_codec, request_codec
from aiocg.transport.framing import Incoming, Outgoing
from aiocg.transport.messages import Done, Reply, Statistics
from aiocg.transport.worker_stream import WorkerStream
from aiocg.workers.host import BATCH, Outbox


class Client:
    """A client by hand: it has said something, so that the worker knows its name."""

    def __init__(self, channel: WorkerStream) -> None:
        self._end = socket.socket(socket.AF_UNIX)
        self._end.settimeout(60.0)
        self._end.connect(channel.address.removeprefix("ipc://"))
        outgoing = Outgoing()
        outgoing.greet("DEALER")
        outgoing.put(request_codec().encode([Statistics(1)]))
        outgoing.hand_over(self._end.sendmsg)
        self._incoming = Incoming()
        self._batches: list[list[Frame]] = []
        ((self.name, _),) = channel.receive(20.0)

    def receive(self) -> list[Reply]:
        """Return the next batch."""
        while not self._batches:
            count = self._end.recv_into(self._incoming.room())
            assert count, "the worker has closed the connection"
            self._batches += self._incoming.batches(count)
        return reply_codec().decode(self._batches.pop(0))

    def close(self) -> None:
        self._end.close()


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[WorkerStream]:
    channel = WorkerStream(f"ipc://{tmp_path}/w")
    yield channel
    channel.close()


@pytest.fixture
def client(channel: WorkerStream) -> Iterator[Callable[[], Client]]:
    made: list[Client] = []

    def make() -> Client:
        made.append(Client(channel))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_replies_that_are_ready_together_travel_together(channel: WorkerStream, client: Callable[[], Client]) -> None:
    one, other, outbox = client(), client(), Outbox(channel, lambda: None)
    for number in range(10):
        outbox.put(one.name, Done(number), more=False)
        outbox.put(other.name, Done(100 + number), more=False)
    outbox.flush()
    assert one.receive() == [Done(number) for number in range(10)]
    assert other.receive() == [Done(100 + number) for number in range(10)]


def test_a_reply_does_not_wait_for_a_slow_request_behind_it(
    channel: WorkerStream, client: Callable[[], Client]
) -> None:
    one, outbox = client(), Outbox(channel, lambda: None)
    outbox.put(one.name, Done(1), more=True)  # and nothing is flushed: the worker is busy for good
    assert one.receive() == [Done(1)]
    outbox.put(one.name, Done(2), more=True)
    assert one.receive() == [Done(2)]


def test_enough_replies_go_at_once(channel: WorkerStream, client: Callable[[], Client]) -> None:
    one, outbox = client(), Outbox(channel, lambda: None)
    for number in range(BATCH):
        outbox.put(one.name, Done(number), more=False)  # so that the thread has no part in it
    assert one.receive() == [Done(number) for number in range(BATCH)]


def test_none_is_lost_or_overtaken_while_the_thread_sends_too(
    channel: WorkerStream, client: Callable[[], Client]
) -> None:
    one, outbox = client(), Outbox(channel, lambda: None)
    count = 3000
    received: list[Reply] = []
    for number in range(count):
        outbox.put(one.name, Done(number), more=True)
        if number % 50 == 0:
            time.sleep(0.002)
    outbox.flush()
    while len(received) < count:
        received += one.receive()
    assert received == [Done(number) for number in range(count)]
