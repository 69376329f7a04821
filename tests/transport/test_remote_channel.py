"""What channels over tcp:// do for whoever uses them, whatever the network: turns of the loop, callbacks, `fork`."""

import asyncio
import itertools
import subprocess
import sys
import threading
import time

import pytest

from aiocg.transport import sockets
from aiocg.transport.errors import ChannelClosedError
from aiocg.transport.messages import Done, Statistics, TextReply

from .test_remote import Client, Served, until


def test_a_thousand_requests_of_one_turn_are_answered_in_few_batches(run):
    async def main(worker):
        async with Client(worker.address) as client:
            client.ask(*range(1000))
            assert client.channel.messages_queued == 1000
            assert await client.until(1000) == list(range(1000))
            assert client.channel.messages_queued == client.channel.bytes_queued == 0

    with Served() as worker:
        run(main(worker))
    assert worker.numbers == list(range(1000))


def test_a_flood_of_replies_leaves_turns_to_others(run):
    batches, size = 40, 512

    def answer(request):
        for _ in range(batches):
            worker.channel.send(worker.client, [Done(request.request)] * size)
        return TextReply(request.request, "that was all")

    async def main():
        seen = []
        async with Client(worker.address) as client:
            client.ask(1)
            while len(client.replies) <= batches * size:
                seen.append(len(client.replies))
                await asyncio.sleep(0)
                if len(seen) == 1 or (seen[-1] == 0 and client.channel.messages_queued == 0):
                    time.sleep(0.01)  # noqa: ASYNC251 - much is to arrive before the loop turns again
        steps = [after - before for before, after in itertools.pairwise(seen)]
        assert 0 < max(steps) <= 2 * (sockets.TURN_MESSAGES + size)  # a turn that waited, and one of the reader

    with Served(answer=answer) as worker:
        run(main())


def test_what_comes_while_a_turn_waits_makes_no_second_one(run):
    size, sent = 512, threading.Event()

    def answer(request):
        for _ in range(40):
            worker.channel.send(worker.client, [Done(request.request)] * size)
        sent.set()
        return TextReply(request.request, "that was all")

    async def main():
        async with Client(worker.address) as client:
            client.ask(1)
            while client.channel.messages_queued:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert sent.wait(60)
            time.sleep(0.1)  # noqa: ASYNC251 - all of it is to arrive before the loop turns again
            for _ in range(4):
                client.channel._turn(sockets.READABLE)  # as its reader does when there is more
            before = len(client.replies)
            await asyncio.sleep(0)
            assert len(client.replies) - before <= 2 * (sockets.TURN_MESSAGES + size)  # one that waited, one reader's

    with Served(answer=answer) as worker:
        run(main())


def test_a_failing_callback_loses_nothing_behind_it(run):
    async def main(worker):
        complaints, replies = [], []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))

        def take(batch):
            replies.extend(batch)
            if len(replies) == 1:
                raise ZeroDivisionError

        async with Client(worker.address) as client:
            client.channel._on_messages = take
            for number in range(3):
                client.ask(number)
                await until(lambda: len(replies) > number)  # noqa: B023 - called in this turn of the for
        assert [type(complaint["exception"]) for complaint in complaints] == [ZeroDivisionError]

    with Served() as worker:
        run(main(worker))


def test_what_has_arrived_is_handed_over_after_the_end_and_nothing_after_close(run):
    async def main(worker):
        async with Client(worker.address) as client:
            client.ask(1)
            assert await client.until(1) == [1]
            client.ask(2, 3)
            await asyncio.sleep(0)
            await asyncio.to_thread(worker.join)
            worker.channel.close()
            client.channel.receive_pending(0.5)
            assert [reply.request for reply in client.replies] == [1, 2, 3]
            client.channel.close()
            client.channel.receive_pending()
            with pytest.raises(ChannelClosedError):
                client.channel.send(Statistics(4))
            await asyncio.sleep(0)
            assert len(client.replies) == 3

    worker = Served(answer=lambda request: Done(request.request))
    worker.start()
    original = worker.answer

    def last(request):
        worker.stopping = request.request == 3
        return original(request)

    worker.answer = last
    run(main(worker))


CLOSED_IN_A_CHILD = """
channel = WorkerChannel(ANY, ServerSecurity.for_clients(WORKER, [CLIENT.public]))
child = os.fork()
if child == 0:
    channel.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
round_trip(channel)
channel.close()
"""
NEVER_CLOSED = """
kept = round_trip()
child = os.fork()
if child == 0:
    round_trip()
    del kept  # closing what the parent owns must not disturb it
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
again = round_trip()
"""


@pytest.mark.parametrize("script", [CLOSED_IN_A_CHILD, NEVER_CLOSED], ids=["closed in a child", "never closed"])
def test_a_forked_child_disturbs_nothing_and_ends(script):
    subprocess.run([sys.executable, "-P", "-c", PRELUDE + script], check=True, timeout=60)


PRELUDE = """
import asyncio, os, threading
from aiocg.transport.messages import Done, Load
from aiocg.transport.security import ClientSecurity, KeyPair, ServerSecurity
from aiocg.transport.sockets import ClientChannel
from aiocg.transport.worker_sockets import WorkerChannel

ANY = "tcp://127.0.0.1:0"
WORKER, CLIENT = KeyPair.generate(), KeyPair.generate()

def serve(channel, answered):
    while not answered.is_set():
        for client, requests in channel.receive(0.05):
            channel.send(client, [Done(request.request) for request in requests])

def round_trip(worker=None):
    async def main():
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        channel = worker or WorkerChannel(ANY, ServerSecurity.for_clients(WORKER, [CLIENT.public]))
        answered = threading.Event()
        serving = threading.Thread(target=serve, args=[channel, answered])
        serving.start()
        client = ClientChannel(
            channel.address,
            on_replies=answer.set_result,
            on_error=print,
            security=ClientSecurity(CLIENT, WORKER.public),
        )
        client.send(Load(1, "b", bytes(1_000_000), 1.0))
        assert await asyncio.wait_for(answer, 20) == [Done(1)]
        answered.set()
        serving.join()
        return channel, client
    return asyncio.run(main())
"""
