"""Our ends of a connection on one machine speak to libzmq's, as clients and workers in other languages have them."""

import asyncio
import os

import pytest
import zmq

from aiocg.transport.codec import reply_codec, request_codec
from aiocg.transport.messages import Done, Load, Observed, Statistics
from aiocg.transport.streams import ClientStream
from aiocg.transport.worker_stream import WorkerStream

SIZES = (0, 1, 200, 255, 256, 70_000, 256 * 1024 - 9, 3_000_000)


@pytest.fixture
def address(tmp_path):
    return f"ipc://{tmp_path}/w"


@pytest.fixture
def context():
    with zmq.Context() as context:
        yield context


def test_a_dealer_of_libzmq_is_a_client(address, context):
    worker = WorkerStream(address)
    with context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.HEARTBEAT_IVL, 0)
        dealer.connect(address)
        for number, size in enumerate(SIZES):
            content = os.urandom(size)
            (batch,) = (request_codec().encode([Load(number, "b", content, 1.0)]),)
            dealer.send_multipart(batch)
            ((client, (request,)),) = worker.receive(30.0)
            assert bytes(request.content) == content
            assert worker.send(client, [Observed(number, (content,), 1)])
            (reply,) = reply_codec().decode(dealer.recv_multipart())
            assert bytes(reply.observations[0]) == content
    worker.close()


def test_several_dealers_are_told_apart(address, context):
    worker = WorkerStream(address)
    dealers = [context.socket(zmq.DEALER) for _ in range(3)]
    for number, dealer in enumerate(dealers):
        dealer.connect(address)
        dealer.send_multipart(request_codec().encode([Statistics(number)]))
    answered = 0
    while answered < 3:
        for client, (request,) in worker.receive(30.0):
            worker.send(client, [Done(request.request)])
            answered += 1
    for number, dealer in enumerate(dealers):
        assert reply_codec().decode(dealer.recv_multipart()) == [Done(number)]
        dealer.close(linger=0)
    worker.close()


async def test_a_router_of_libzmq_is_a_worker(address, context):
    replies, errors = [], []
    client = ClientStream(address, on_replies=replies.extend, on_error=errors.append)
    for number, size in enumerate(SIZES):
        client.send(Load(number, "b", bytes(size), 1.0))
    await asyncio.sleep(0.02)  # it asks again and again until somebody listens
    with context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.bind(address)
        while len(replies) < len(SIZES):
            assert not errors
            await asyncio.sleep(0.001)
            while router.poll(0):
                name, *frames = router.recv_multipart()
                for request in request_codec().decode(frames):
                    answer = Observed(request.request, (bytes(request.content),), 1)
                    router.send_multipart([name, *reply_codec().encode([answer])])
    assert [len(reply.observations[0]) for reply in replies] == list(SIZES)
    client.close()
