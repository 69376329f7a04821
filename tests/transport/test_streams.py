"""Channels on one machine, against each other and against peers that do what no proper one would."""

import asyncio
import contextlib
import errno
import itertools
import os
import resource
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest

from aiocg.transport import streams, worker_stream
from aiocg.transport.codec import reply_codec, request_codec
from aiocg.transport.errors import AddressError, ChannelClosedError, LocalProtocolError, RemoteProtocolError
from aiocg.transport.framing import READ_BYTES, Incoming, Outgoing
from aiocg.transport.limits import MAX_FRAME_BYTES
from aiocg.transport.messages import Done, Failure, FailureCode, Load, Observed, Shutdown, Statistics, Step, TextReply
from aiocg.transport.streams import ClientStream
from aiocg.transport.worker_stream import WorkerStream


class Peer:
    """One end of a connection, by hand and blocking."""

    def __init__(self, end):
        self.end = end
        self.end.settimeout(20.0)
        self._incoming = Incoming()
        self._batches = []
        outgoing = Outgoing()
        outgoing.greet("ROUTER")
        outgoing.hand_over(self.end.sendmsg)

    def send(self, frames):
        outgoing = Outgoing()
        outgoing.put(frames)
        while outgoing.size:
            outgoing.hand_over(self.end.sendmsg)

    def receive(self):
        while not self._batches:
            count = self.end.recv_into(self._incoming.room())
            if not count:
                raise EOFError
            self._batches += self._incoming.batches(count)
        return self._batches.pop(0)


@pytest.fixture
def address(tmp_path):
    return f"ipc://{tmp_path}/w"


def resident():
    """Return how much memory this process has, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Worker(threading.Thread):
    """A real worker channel in a thread: it answers with `Done`, the last request with `TextReply`."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.channel = WorkerStream(address)
        self.batches = []
        self.answer = lambda request: Done(request.request)

    def run(self):
        while True:
            for client, requests in self.channel.receive(30.0):
                self.batches.append(requests)
                self.channel.send(client, [self.answer(r) for r in requests if not isinstance(r, Shutdown)])
                if isinstance(requests[-1], Shutdown):
                    self.channel.send(client, [TextReply(0, "goodbye")])
                    self.channel.close()
                    return


@pytest.fixture
def worker(address):
    thread = Worker(address)
    yield thread
    if thread.ident is None:
        thread.channel.close()


@pytest.fixture
def channel(address):
    channel = WorkerStream(address)
    yield channel
    channel.close()


@pytest.fixture
def peer(address):
    """Make clients by hand."""
    with contextlib.ExitStack() as opened:

        def connect():
            end = opened.enter_context(socket.socket(socket.AF_UNIX))
            end.connect(address.removeprefix("ipc://"))
            return Peer(end)

        yield connect


@pytest.fixture
def listener(address):
    """Be a worker by hand."""
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(address.removeprefix("ipc://"))
        end.listen()
        end.settimeout(20.0)
        yield end


class Client:
    """A channel together with what came out of it."""

    def __init__(self, address, on_replies=None):
        self.replies, self.errors, self.batches = [], [], 0
        self.channel = ClientStream(address, on_replies=on_replies or self.take, on_error=self.errors.append)

    def take(self, replies):
        self.batches += 1
        self.replies += replies

    async def until(self, count):
        await until(lambda: len(self.replies) + len(self.errors) >= count)
        return self.replies[:count]

    async def leave(self):
        """Stop the worker and close."""
        self.channel.send(Shutdown())
        await until(lambda: TextReply(0, "goodbye") in self.replies[-1:])
        self.channel.close()


async def until(condition):
    """Let the loop turn until something holds; the caller's timeout ends it otherwise."""
    while not condition():  # noqa: ASYNC110 - the conditions have no events of their own
        await asyncio.sleep(0.0001)


def receive(channel, count):
    items = []
    while len(items) < count:
        items += channel.receive(10.0)
    return items


def step(number):
    return Step(number, 1, (number % 124,), 10.0, ("IrInstructionCount",))


def requests(*messages):
    return request_codec().encode(messages)


# ---------------------------------------------------------------------------------------------- the client's end


def test_a_thousand_requests_of_one_turn_arrive_as_one_batch(run, address, worker):
    async def main():
        client = Client(address)
        for number in range(1000):
            client.channel.send(step(number))
        assert client.channel.messages_queued == 1000
        assert await client.until(1000) == [Done(number) for number in range(1000)]
        assert client.channel.messages_queued == client.channel.bytes_queued == 0
        assert client.batches == 1
        await client.leave()

    worker.start()
    run(main())
    worker.join()
    assert [len(batch) for batch in worker.batches] == [1000, 1]
    assert worker.batches[0] == [step(number) for number in range(1000)]


def test_requests_sent_before_the_worker_listens_are_answered(run, tmp_path):
    async def main():
        client = Client(f"ipc://{tmp_path}/late")
        client.channel.send(step(1))
        await asyncio.sleep(0.05)
        worker = Worker(f"ipc://{tmp_path}/late")
        worker.start()
        assert await client.until(1) == [Done(1)]
        await client.leave()
        worker.join()

    run(main())


def test_many_tasks_get_their_answers_in_order(run, address, worker):
    async def main():
        client = Client(address)

        async def one_after_the_other(start):
            for number in range(start, start + 20):
                client.channel.send(step(number))
                await asyncio.sleep(0)

        await asyncio.gather(*(one_after_the_other(start) for start in range(0, 2000, 20)))
        replies = await client.until(2000)
        await client.leave()
        for start in range(0, 2000, 20):
            mine = [reply.request for reply in replies if start <= reply.request < start + 20]
            assert mine == list(range(start, start + 20))

    worker.start()
    run(main())
    worker.join()
    assert len(worker.batches) < 100


def test_large_arrays_and_content_arrive_whole(run, address, worker):
    content = os.urandom(9_000_000)  # more than any socket takes at once
    there = numpy.arange(1_500_000, dtype="float64")
    worker.answer = lambda request: Observed(request.request, (request.content, there, there[:9]), 0)

    async def main():
        client = Client(address)
        client.channel.send(Load(1, "b", content, 1.0))
        (reply,) = await client.until(1)
        back, large, small = reply.observations
        assert back == content
        assert (large == there).all() and (small == there[:9]).all()
        assert not large.flags.writeable and not large.flags.owndata
        await client.leave()

    worker.start()
    run(main())


def test_what_a_worker_does_not_read_waits_in_the_channel_and_is_not_lost(run, address, worker):
    content = bytes(256 * 1024)
    count = 100

    async def main():
        client = Client(address)
        channel = client.channel
        worker.channel.receive(0)  # which greets
        await until(lambda: channel._incoming.ready)
        for number in range(count):
            channel.send(Load(number, "b", content, 1.0))
            await asyncio.sleep(0)
        queued = channel.messages_queued
        assert 0 < queued < count  # the system takes some, and no more however often it is asked
        for _ in range(100):
            await asyncio.sleep(0)
        assert channel.messages_queued == queued
        assert channel.bytes_queued > queued * len(content)
        worker.start()
        assert [reply.request for reply in await client.until(count)] == list(range(count))
        assert channel.bytes_queued == 0
        await client.leave()

    run(main())
    worker.join()
    assert [request.request for batch in worker.batches[:-1] for request in batch] == list(range(count))


def test_a_flood_of_requests_leaves_turns_to_others(run, address, listener):
    content = bytes(60_000_000)

    async def main():
        client = Client(address)
        end = Peer(listener.accept()[0]).end
        reader = threading.Thread(target=lambda: [None for _ in iter(lambda: end.recv(1 << 20), b"")])
        reader.start()  # as quick as we are
        client.channel.send(Load(1, "b", content, 1.0))
        seen = [client.channel.bytes_queued]
        while seen[-1]:
            await asyncio.sleep(0)
            seen.append(client.channel.bytes_queued)
        assert max(before - after for before, after in itertools.pairwise(seen)) <= streams.TURN_BYTES + 2_000_000
        client.channel.close()
        reader.join()
        end.close()

    run(main())


def test_a_client_out_of_descriptors_says_so(run, tmp_path):
    async def main():
        client = Client(f"ipc://{tmp_path}/late")
        most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)  # that is free
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            await until(lambda: client.errors)
        finally:
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        assert client.errors[0].errno == errno.EMFILE
        client.channel.close()

    run(main())


def test_an_unsendable_request_raises_and_the_others_go_out(run, address, worker):
    async def main():
        client = Client(address)
        client.channel.send(step(1))
        with pytest.raises(LocalProtocolError, match=r"Step.actions\[0\]"):
            client.channel.send(Step(2, 1, (object(),), 1.0))
        client.channel.send(step(3))
        assert await client.until(2) == [Done(1), Done(3)]
        await client.leave()

    worker.start()
    run(main())


def test_a_batch_that_cannot_be_decoded_is_reported_and_the_channel_goes_on(run, address, listener):
    async def main():
        client = Client(address)
        peer = Peer(listener.accept()[0])
        peer.send([b"garbage"])
        peer.send([b"\x91\x93\xa9TextReply\x01\x02"])
        peer.send([b"\x91\x92\xa4Done\x01"])
        await client.until(3)
        assert [type(error) for error in client.errors] == [RemoteProtocolError] * 2
        assert client.errors[1].request == 1
        assert client.replies == [Done(1)]
        client.channel.close()
        peer.end.close()

    run(main())


def test_a_stream_without_batches_is_an_error_and_ends_the_connection(run, address, listener):
    async def main():
        client = Client(address)
        peer = Peer(listener.accept()[0])
        peer.end.sendall(b"this is no header of a batch")
        await until(lambda: client.errors)
        assert [type(error) for error in client.errors] == [RemoteProtocolError]
        with pytest.raises(EOFError):
            peer.receive()
        client.channel.send(Statistics(1))  # whoever watches the process will replace it; until then this waits
        await asyncio.sleep(0.01)
        assert client.replies == [] and len(client.errors) == 1
        client.channel.close()
        peer.end.close()

    run(main())


def test_a_worker_that_hangs_up_and_lives_on_is_reported(run, address, listener, monkeypatch):
    monkeypatch.setattr(streams, "END_PATIENCE", 0.01)

    async def main():
        client = Client(address)
        listener.accept()[0].close()
        await until(lambda: client.errors)
        assert "closed the connection" in str(client.errors[0])
        client.channel.close()

    run(main())


def test_a_failing_callback_loses_nothing_behind_it(run, address, worker):
    async def main():
        complaints, replies = [], []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))

        def take(batch):
            replies.extend(batch)
            if len(replies) == 1:
                raise ZeroDivisionError

        client = Client(address, on_replies=take)
        for number in range(3):
            client.channel.send(step(number))
            await until(lambda: len(replies) > number)  # noqa: B023 - called in this turn of the for
        assert [type(complaint["exception"]) for complaint in complaints] == [ZeroDivisionError]
        client.channel.close()

    worker.start()
    run(main())


def test_a_flood_of_replies_leaves_turns_to_others(run, address, listener):
    async def main():
        client = Client(address)
        peer = Peer(listener.accept()[0])
        batch = b"\xdc\x01\x00" + 256 * b"\x92\xa4Done\x01"
        flood = threading.Thread(target=lambda: [peer.send([batch]) for _ in range(3000)])
        flood.start()
        turns = 0
        while len(client.replies) < 3000 * 256:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 3000 * len(batch) // READ_BYTES
        flood.join()
        client.channel.close()
        peer.end.close()

    run(main())


def test_replies_of_a_worker_that_died_are_still_received(run, tmp_path):
    script = f"""
import os
from aiocg.transport.messages import Done, Observed
from aiocg.transport.worker_stream import WorkerStream
channel = WorkerStream("ipc://{tmp_path}/w")
((client, requests),) = channel.receive(20.0)
input()
for request in requests:
    channel.send(client, [Observed(request.request, (bytes(10_000),), 0)])
os._exit(1)
"""

    async def main():
        process = subprocess.Popen([sys.executable, "-P", "-c", script], stdin=subprocess.PIPE)
        client = Client(f"ipc://{tmp_path}/w")
        for number in range(10):
            client.channel.send(step(number))
        await until(lambda: client.channel.bytes_queued == 0)
        process.communicate(b"\n")  # the loop does not turn until it has ended
        assert client.replies == []
        started = time.monotonic()
        client.channel.receive_pending(200.0)
        assert time.monotonic() - started < 100.0  # it is known that there is no more
        assert [reply.request for reply in client.replies] == list(range(10))
        client.channel.close()

    run(main())


def test_no_callback_follows_close(run, address, listener):
    async def main():
        def take(batch):
            replies.extend(batch)
            client.channel.close()

        replies = []
        client = Client(address, on_replies=take)
        peer = Peer(listener.accept()[0])
        peer.end.sendall(b"".join(_stream(b"\x91\x92\xa4Done\x01") for _ in range(5)))
        await until(lambda: replies)
        for _ in range(10):
            await asyncio.sleep(0)
        assert replies == [Done(1)]
        client.channel.close()
        client.channel.receive_pending()
        assert replies == [Done(1)] and client.errors == []
        with pytest.raises(ChannelClosedError):
            client.channel.send(Statistics(2))
        peer.end.close()

    run(main())


def _stream(head):
    outgoing = Outgoing()
    outgoing.put([head])
    parts = []
    outgoing.hand_over(lambda offered: parts.extend(offered) or outgoing.size)
    return b"".join(parts)


def test_closing_leaves_no_descriptor_open(run, address, worker):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    async def main():
        first = Client(address)
        first.channel.send(step(1))
        await first.until(1)
        before = descriptors()
        for number in range(20):
            client = Client(address)
            client.channel.send(step(number))
            await client.until(1)
            assert descriptors() > before
            client.channel.close()
        await until(lambda: descriptors() <= before)  # the worker, in this process, closes its ends a little later
        await first.leave()

    worker.start()
    run(main())


def test_addresses_that_cannot_work_are_refused(run, tmp_path):
    async def main():
        with pytest.raises(AddressError, match=r"bytes, more than the 107 that this system allows"):
            Client(f"ipc://{tmp_path}/{'x' * 200}")
        with pytest.raises(AddressError, match="only ipc://"):
            Client("tcp://127.0.0.1:1234")
        with pytest.raises(AddressError, match="only ipc://"):
            Client("ipc://")

    run(main())


# ---------------------------------------------------------------------------------------------- the worker's end


def test_receive_gives_up_after_its_timeout(channel, peer):
    assert channel.receive(0.0) == []
    peer()  # which says nothing
    assert channel.receive(0.001) == []


def test_garbage_of_one_client_is_an_item_and_harms_nobody(channel, peer):
    bad, worse, good = peer(), peer(), peer()
    bad.send([b"garbage"])
    bad.send([b"\x91\x92\xaaStatistics\x01", b"not referred to"])
    worse.end.sendall(b"GET / HTTP/1.1\r\n\r\n")
    good.send(requests(Statistics(1)))
    items = receive(channel, 3)
    errors = [(name, item) for name, item in items if isinstance(item, RemoteProtocolError)]
    assert len(errors) == 2 and len({name for name, _ in errors}) == 1
    ((name, answer),) = [(name, item) for name, item in items if isinstance(item, list)]
    assert answer == [Statistics(1)] and name != errors[0][0]
    assert channel.receive(0.01) == []
    with pytest.raises(EOFError):
        worse.receive()
    assert channel.send(name, [Done(1)])
    assert reply_codec().decode(good.receive()) == [Done(1)]


def test_a_size_that_is_only_said_costs_nothing(channel, peer):
    liars = [peer() for _ in range(4)]
    before = resident()
    for liar in liars:
        liar.end.sendall(struct.pack("<IIQ", 0xA10C6001, 1, MAX_FRAME_BYTES) + b"and that was all of it")
    good = peer()
    good.send(requests(Statistics(1)))
    assert [item for _, item in receive(channel, 1)] == [[Statistics(1)]]
    for liar in liars:
        liar.end.close()
    while channel._by_descriptor and len(channel._by_descriptor) > 1:
        assert resident() - before < 64_000_000
        assert channel.receive(0.05) == []


def test_replies_go_to_the_client_that_asked_as_one_batch(channel, peer):
    clients = [peer(), peer()]
    for number, client in enumerate(clients):
        client.send(requests(Statistics(number)))
    for name, (request,) in receive(channel, 2):
        assert channel.send(name, [Done(request.request)] * 1000)
    for number, client in enumerate(clients):
        assert reply_codec().decode(client.receive()) == [Done(number)] * 1000
    assert channel.send(name, [])


def test_many_replies_are_split_into_batches_of_bounded_size(channel, peer):
    client = peer()
    client.send(requests(Statistics(1)))
    ((name, _),) = receive(channel, 1)
    replies = [Observed(number, ("x" * 10_000,), 0) for number in range(500)]
    assert channel.send(name, replies)
    received, batches = [], 0
    while len(received) < len(replies):
        received += reply_codec().decode(client.receive())
        batches += 1
    assert received == replies
    assert 2 < batches < 10


def test_an_unsendable_reply_becomes_the_failure_of_its_request(channel, peer):
    client = peer()
    client.send(requests(Statistics(1)))
    ((name, _),) = receive(channel, 1)
    assert channel.send(name, [Done(1), Observed(2, ({1, 2},), 0), Done(3)])
    first, failure, last = reply_codec().decode(client.receive())
    assert (first, last) == (Done(1), Done(3))
    assert isinstance(failure, Failure)
    assert (failure.request, failure.code) == (2, FailureCode.INTERNAL)


def test_a_client_that_is_gone_loses_its_replies_only(channel, peer):
    gone, present = peer(), peer()
    for client in (gone, present):
        client.send(requests(Statistics(1)))
    first, second = (name for name, _ in receive(channel, 2))
    gone.end.close()
    assert not channel.send(first, [Done(1)])
    assert channel.send(second, [Done(1)])
    assert reply_codec().decode(present.receive()) == [Done(1)]
    assert channel.receive(0.01) == []
    assert not channel.send(first, [Done(1)])
    assert not channel.send(b"never seen", [Done(1)])


def test_a_worker_goes_on_while_a_busy_client_takes_no_replies(channel, peer):
    client = peer()
    client.send(requests(Statistics(1)))
    ((name, _),) = receive(channel, 1)
    sent = [Observed(number, (bytes(1_000_000),), 0) for number in range(14)]  # more than the system keeps
    for reply in sent:
        assert channel.send(name, [reply])
    received = []
    while len(received) < len(sent):
        received += reply_codec().decode(client.receive())
    assert received == sent


def test_a_client_that_reads_nothing_is_given_up_on_and_others_are_served(monkeypatch, channel, peer):
    monkeypatch.setattr(worker_stream, "SEND_PATIENCE", 0.05)
    monkeypatch.setattr(worker_stream, "BACKLOG_BYTES", 1_000_000)
    slow, quick = peer(), peer()
    slow.send(requests(Statistics(1)))
    ((slow_name, _),) = receive(channel, 1)
    replies = [Observed(1, ("x" * 400_000,), 0)]
    sent = 0
    while channel.send(slow_name, replies):
        sent += 1
    assert 0 < sent < 100
    quick.send(requests(Statistics(2)))
    ((quick_name, _),) = receive(channel, 1)
    assert channel.send(quick_name, [Done(2)])
    assert reply_codec().decode(quick.receive()) == [Done(2)]


def test_a_slow_client_that_reads_in_time_loses_nothing(monkeypatch, channel, peer):
    monkeypatch.setattr(worker_stream, "BACKLOG_BYTES", 1_000_000)
    client = peer()
    client.send(requests(Statistics(1)))
    ((name, _),) = receive(channel, 1)
    received = []

    def read():
        while len(received) < 100:
            received.extend(reply_codec().decode(client.receive()))

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(100):
        assert channel.send(name, [Observed(number, ("x" * 400_000,), 0)])
    thread.join()
    assert [reply.request for reply in received] == list(range(100))


def test_an_address_that_cannot_be_bound_is_an_error(tmp_path, address):
    with pytest.raises(AddressError, match="its directory must exist"):
        WorkerStream(f"ipc://{tmp_path}/missing/w")
    with pytest.raises(AddressError, match="choose a shorter directory"):
        WorkerStream(f"ipc://{tmp_path}/{'x' * 120}")
    with pytest.raises(AddressError, match="only ipc://"):
        WorkerStream("tcp://127.0.0.1:1")


def test_closing_removes_the_socket_file(address):
    channel = WorkerStream(address)
    path = address.removeprefix("ipc://")
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    channel.close()
    assert not os.path.exists(path)
    channel.close()


def test_closing_waits_until_the_last_replies_are_on_their_way(address, peer):
    channel = WorkerStream(address)
    client = peer()
    client.send(requests(Statistics(1)))
    ((name, _),) = receive(channel, 1)
    last = [Observed(number, (bytes(1_000_000),), 0) for number in range(12)]
    assert channel.send(name, last)
    closing = threading.Thread(target=channel.close)
    closing.start()
    received = []
    while len(received) < len(last):
        received += reply_codec().decode(client.receive())
    assert received == last
    closing.join()


def test_a_forked_child_that_closes_leaves_the_parent_its_address_and_clients(channel, peer):
    client = peer()
    client.send(requests(Statistics(1)))
    ((name, _),) = receive(channel, 1)
    child = os.fork()
    if child == 0:
        channel.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert channel.send(name, [Done(1)])
    assert reply_codec().decode(client.receive()) == [Done(1)]
    other = peer()
    other.send(requests(Statistics(2)))
    assert [item for _, item in receive(channel, 1)] == [[Statistics(2)]]
