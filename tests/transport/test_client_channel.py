"""The client's channel over real sockets, on asyncio's loop and on uvloop."""

import asyncio
import itertools
import os
import subprocess
import sys
import time

import numpy
import pytest
import zmq

from aiocg.transport import sockets
from aiocg.transport.errors import AddressError, ChannelClosedError, LocalProtocolError, RemoteProtocolError
from aiocg.transport.messages import Done, Load, Observed, Shutdown, Statistics, Step, Told
from aiocg.transport.sockets import ClientChannel


class Client:
    """A channel together with what came out of it."""

    def __init__(self, address, on_replies=None):
        self.replies, self.errors, self.batches = [], [], 0
        self.channel = ClientChannel(address, on_replies=on_replies or self.take, on_error=self.fail)

    def take(self, replies):
        self.batches += 1
        self.replies += replies

    def fail(self, error):
        self.errors.append(error)

    async def until(self, count):
        await until(lambda: len(self.replies) + len(self.errors) >= count)
        return self.replies[:count]

    async def leave(self):
        """Stop the worker and close."""
        self.channel.send(Shutdown())
        await until(lambda: Told(0, "goodbye") in self.replies[-1:])
        self.channel.close()


async def until(condition):
    """Let the loop turn until something holds; the caller's timeout ends it otherwise."""
    while not condition():  # noqa: ASYNC110 - the conditions have no events of their own
        await asyncio.sleep(0.0001)


def start(script):
    return subprocess.Popen([sys.executable, "-P", "-c", script])


def step(number):
    return Step(number, 1, (number % 124,), 10.0, ("IrInstructionCount",))


def router(address):
    """A raw peer, for what no proper worker would do."""
    socket = sockets.client_context().socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(address)
    return socket


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


def test_requests_sent_before_the_worker_exists_are_answered(run, tmp_path):
    script = f"""
from aiocg.transport.messages import Done
from aiocg.transport.sockets import WorkerChannel
channel = WorkerChannel("ipc://{tmp_path}/late")
for client, requests in channel.receive(20.0):
    channel.send(client, [Done(request.request) for request in requests])
channel.receive(20.0)
"""

    async def main():
        client = Client(f"ipc://{tmp_path}/late")
        client.channel.send(step(1))
        await asyncio.sleep(0.05)
        process = start(script)
        assert await client.until(1) == [Done(1)]
        client.channel.send(Shutdown())
        await until(lambda: process.poll() is not None)
        client.channel.close()

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
    content = os.urandom(3_000_000)
    there = numpy.arange(500_000, dtype="float64")
    worker.answer = lambda request: Observed(request.request, (request.content, there, there[:9]), 0)

    async def main():
        client = Client(address)
        client.channel.send(Load(1, "b", content, 1.0))
        (reply,) = await client.until(1)
        await client.leave()
        back, large, small = reply.observations
        assert back == content
        assert (large == there).all()
        assert (small == there[:9]).all()
        assert not large.flags.writeable
        assert not large.flags.owndata

    worker.start()
    run(main())


def test_what_a_peer_does_not_read_waits_in_the_channel_and_is_not_lost(run, address, worker):
    content = bytes(256 * 1024)
    count = 300

    async def main():
        client = Client(address)
        channel = client.channel
        for number in range(count):
            channel.send(Load(number, "b", content, 1.0))
            await asyncio.sleep(0)
        queued = channel.messages_queued
        assert 0 < queued < count  # ZeroMQ takes some, and no more however often it is asked
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
    assert [request.request for request in worker.requests[:-1]] == list(range(count))


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


def test_a_batch_of_garbage_is_reported_and_the_channel_goes_on(run, address):
    async def main():
        peer = router(address)
        client = Client(address)
        client.channel.send(Statistics(1))
        await asyncio.sleep(0)
        name, _ = peer.recv_multipart()
        peer.send_multipart([name, b"garbage"])
        peer.send_multipart([name, b"\x91\x93\xa4Told\x01\x02"])
        peer.send_multipart([name, b"\x91\x92\xa4Done\x01"])
        await client.until(3)
        assert [type(error) for error in client.errors] == [RemoteProtocolError] * 2
        assert client.errors[1].request == 1
        assert client.replies == [Done(1)]
        client.channel.close()
        peer.close()

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


def test_a_flood_of_replies_leaves_turns_to_others(run, address):
    async def main():
        peer = router(address)
        seen = []
        client = Client(address)
        client.channel.send(Statistics(1))
        await asyncio.sleep(0)
        name, _ = peer.recv_multipart()
        batch = b"\xdc\x01\x00" + 256 * b"\x92\xa4Done\x01"
        for _ in range(60):
            peer.send_multipart([name, batch])
        time.sleep(0.05)  # noqa: ASYNC251 - much of it is to arrive before the loop turns again
        while len(client.replies) < 60 * 256:
            seen.append(len(client.replies))
            await asyncio.sleep(0)
        steps = [after - before for before, after in itertools.pairwise(seen)]
        assert max(steps) <= sockets.TURN_MESSAGES + 256
        client.channel.close()
        peer.close()

    run(main())


def test_replies_of_a_worker_that_died_are_still_received(run, tmp_path):
    script = f"""
import os
from aiocg.transport.messages import Done
from aiocg.transport.sockets import WorkerChannel
channel = WorkerChannel("ipc://{tmp_path}/w")
((client, requests),) = channel.receive(20.0)
for request in requests:
    channel.send(client, [Done(request.request)])
channel.close()
os._exit(1)
"""

    async def main():
        process = start(script)
        client = Client(f"ipc://{tmp_path}/w")
        for number in range(50):
            client.channel.send(step(number))
        await asyncio.sleep(0)
        process.wait()  # the loop does not turn meanwhile
        assert client.replies == []
        client.channel.receive_pending(0.5)
        assert client.replies == [Done(number) for number in range(50)]
        client.channel.close()

    run(main())


def test_no_callback_follows_close(run, address):
    async def main():
        peer = router(address)

        def take(batch):
            replies.extend(batch)
            client.channel.close()

        replies = []
        client = Client(address, on_replies=take)
        client.channel.send(Statistics(1))
        await asyncio.sleep(0)
        name, _ = peer.recv_multipart()
        for _ in range(5):
            peer.send_multipart([name, b"\x91\x92\xa4Done\x01"])
        await until(lambda: replies)
        for _ in range(10):
            await asyncio.sleep(0)
        assert replies == [Done(1)]
        client.channel.close()
        client.channel.receive_pending()
        assert replies == [Done(1)]
        with pytest.raises(ChannelClosedError):
            client.channel.send(Statistics(2))
        peer.close()

    run(main())


def test_closing_leaves_no_descriptor_open(run, address, worker):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    async def main():
        first = Client(address)
        first.channel.send(Load(1, "b", bytes(1_000_000), 1.0))
        await first.until(1)
        before = descriptors()
        for number in range(20):
            client = Client(address)
            client.channel.send(step(number))
            await client.until(1)
            assert descriptors() > before
            client.channel.close()
        await until(lambda: descriptors() <= before)  # ZeroMQ's own thread closes them a little later
        await first.leave()

    worker.start()
    run(main())


def test_addresses_that_cannot_work_are_refused(run, tmp_path):
    async def main():
        with pytest.raises(AddressError, match=r"bytes, more than the 107 that this system allows"):
            Client(f"ipc://{tmp_path}/{'x' * 200}")
        with pytest.raises(AddressError, match=r"has no keys: .* make a pair with `aiocg keys new`"):
            Client("tcp://127.0.0.1:1234")
        with pytest.raises(AddressError, match="must be tcp://HOST:PORT"):
            Client("tcp://127.0.0.1")
        with pytest.raises(AddressError, match="only ipc://"):
            Client("ipc://")

    run(main())
