"""The worker's channel against raw clients, dead clients, slow clients, and `fork`."""

import os
import stat
import subprocess
import sys
import threading

import pytest
import zmq

from aiocg.transport import sockets
from aiocg.transport.codec import reply_codec, request_codec
from aiocg.transport.errors import AddressError, RemoteProtocolError
from aiocg.transport.messages import Done, Failure, FailureCode, Observed, Refused, Statistics
from aiocg.transport.sockets import WorkerChannel


@pytest.fixture
def channel(address):
    channel = WorkerChannel(address)
    yield channel
    channel.close()


@pytest.fixture
def dealer(address):
    """Make raw clients."""
    opened = []

    def connect(**options):
        socket = sockets.client_context().socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        for name, value in options.items():
            socket.setsockopt(getattr(zmq, name), value)
        socket.connect(address)
        opened.append(socket)
        return socket

    yield connect
    for socket in opened:
        socket.close()


def receive(channel, count):
    items = []
    while len(items) < count:
        items += channel.receive(10.0)
    return items


def test_everything_at_hand_is_returned_at_once(channel, dealer):
    client = dealer()
    for number in range(5):
        client.send_multipart(request_codec().encode([Statistics(number)]))
    items = receive(channel, 5)
    assert [requests for _, requests in items] == [[Statistics(number)] for number in range(5)]
    assert len({name for name, _ in items}) == 1


def test_receive_gives_up_after_its_timeout(channel):
    assert channel.receive(0.0) == []
    assert channel.receive(0.0001) == []


def test_garbage_of_one_client_is_an_item_and_harms_nobody(channel, dealer):
    bad, good = dealer(), dealer()
    for frames in (
        [b"garbage"],
        [b""],
        [b"\x91\x92\xaaStatistics\x01", b"not referred to"],
        [b"\x91\x92\xaaStatistics\xc0"],
    ):
        bad.send_multipart(frames)
    good.send_multipart(request_codec().encode([Statistics(1)]))
    items = receive(channel, 5)
    errors = [item for _, item in items if isinstance(item, RemoteProtocolError)]
    assert len(errors) == 4
    assert len({name for name, item in items if isinstance(item, RemoteProtocolError)}) == 1
    assert [item for _, item in items if isinstance(item, list)] == [[Statistics(1)]]


def test_replies_go_to_the_client_that_asked_as_one_batch(channel, dealer):
    clients = [dealer(), dealer()]
    for number, client in enumerate(clients):
        client.send_multipart(request_codec().encode([Statistics(number)]))
    for name, (request,) in receive(channel, 2):
        assert channel.send(name, [Done(request.request)] * 1000)
    for number, client in enumerate(clients):
        assert reply_codec().decode(client.recv_multipart()) == [Done(number)] * 1000


def test_many_replies_are_split_into_batches_of_bounded_size(channel, dealer):
    client = dealer()
    client.send_multipart(request_codec().encode([Statistics(1)]))
    ((name, _),) = receive(channel, 1)
    replies = [Observed(number, ("x" * 10_000,), 0) for number in range(500)]
    assert channel.send(name, replies)
    received, batches = [], 0
    while len(received) < len(replies):
        received += reply_codec().decode(client.recv_multipart())
        batches += 1
    assert received == replies
    assert 2 < batches < 10


def test_an_unsendable_reply_becomes_the_failure_of_its_request(channel, dealer):
    client = dealer()
    client.send_multipart(request_codec().encode([Statistics(1)]))
    ((name, _),) = receive(channel, 1)
    assert channel.send(name, [Done(1), Observed(2, ({1, 2},), 0), Done(3)])
    first, failure, last = reply_codec().decode(client.recv_multipart())
    assert (first, last) == (Done(1), Done(3))
    assert isinstance(failure, Failure)
    assert (failure.request, failure.code) == (2, FailureCode.INTERNAL)
    assert "Observed.observations[0]" in failure.message


def test_nothing_is_sent_for_no_replies(channel):
    assert channel.send(b"whoever", [])


def test_a_client_that_is_gone_loses_its_replies_only(channel, dealer):
    gone, present = dealer(), dealer()
    for client in (gone, present):
        client.send_multipart(request_codec().encode([Statistics(1)]))
    first, second = (name for name, _ in receive(channel, 2))
    gone.close()
    results = []
    while not results or all(results):  # until ZeroMQ has noticed
        results = [channel.send(name, [Done(1)]) for name in (first, second)]
    assert sorted(results) == [False, True]
    assert reply_codec().decode(present.recv_multipart()) == [Done(1)]
    assert not channel.send(b"never seen", [Refused("protocol", "no")])


def test_a_client_that_reads_nothing_is_given_up_on_and_others_are_served(monkeypatch, address, dealer):
    monkeypatch.setattr(sockets, "SEND_PATIENCE", 0.05)
    monkeypatch.setattr(sockets, "REPLY_BATCHES", 8)
    channel = WorkerChannel(address)
    slow, quick = dealer(RCVHWM=1), dealer()
    slow.send_multipart(request_codec().encode([Statistics(1)]))
    ((slow_name, _),) = receive(channel, 1)
    replies = [Observed(1, ("x" * 100_000,), 0)]
    sent = 0
    while channel.send(slow_name, replies):
        sent += 1
    quick.send_multipart(request_codec().encode([Statistics(2)]))
    ((quick_name, _),) = receive(channel, 1)
    assert channel.send(quick_name, [Done(2)])
    assert reply_codec().decode(quick.recv_multipart()) == [Done(2)]
    for _ in range(sent):  # what was accepted is not lost
        assert reply_codec().decode(slow.recv_multipart()) == replies
    channel.close()


def test_a_slow_client_that_reads_in_time_loses_nothing(monkeypatch, address, dealer):
    monkeypatch.setattr(sockets, "REPLY_BATCHES", 4)
    channel = WorkerChannel(address)
    client = dealer(RCVHWM=1)
    client.send_multipart(request_codec().encode([Statistics(1)]))
    ((name, _),) = receive(channel, 1)
    received = []

    def read():
        while len(received) < 100:
            received.extend(reply_codec().decode(client.recv_multipart()))

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(100):
        assert channel.send(name, [Observed(number, ("x" * 100_000,), 0)])
    thread.join()
    assert [reply.request for reply in received] == list(range(100))
    channel.close()


def test_an_address_that_cannot_be_bound_is_an_error(tmp_path):
    with pytest.raises(AddressError, match="its directory must exist"):
        WorkerChannel(f"ipc://{tmp_path}/missing/w")
    with pytest.raises(AddressError, match="choose a shorter directory"):
        WorkerChannel(f"ipc://{tmp_path}/{'x' * 120}")


def test_closing_removes_the_socket_file(address):
    channel = WorkerChannel(address)
    path = address.removeprefix("ipc://")
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    channel.close()
    assert not os.path.exists(path)
    channel.close()


def test_closing_waits_until_the_last_replies_are_on_their_way(address, dealer):
    channel, client = WorkerChannel(address), dealer()
    client.send_multipart(request_codec().encode([Statistics(1)]))
    ((name, _),) = receive(channel, 1)
    last = [Observed(number, (bytes(1_000_000),), 0) for number in range(5)]
    channel.send(name, last)
    channel.close()
    received = []
    while len(received) < 5:
        received += reply_codec().decode(client.recv_multipart())
    assert received == last


def test_a_forked_child_that_closes_leaves_the_parent_its_address(channel, dealer):
    child = os.fork()
    if child == 0:
        channel.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    client = dealer()
    client.send_multipart(request_codec().encode([Statistics(1)]))
    assert [item for _, item in receive(channel, 1)] == [[Statistics(1)]]


PRELUDE = """
import asyncio, os, sys, threading
from aiocg.transport.messages import Done, Load
from aiocg.transport.sockets import ClientChannel, WorkerChannel

def serve(channel):
    for client, requests in channel.receive(20.0):
        channel.send(client, [Done(request.request) for request in requests])

def round_trip(name):
    async def main():
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        worker = WorkerChannel(f"ipc://{sys.argv[1]}/{name}")
        threading.Thread(target=serve, args=[worker]).start()
        client = ClientChannel(f"ipc://{sys.argv[1]}/{name}", on_replies=answer.set_result, on_error=print)
        client.send(Load(1, "b", bytes(1_000_000), 1.0))
        assert await asyncio.wait_for(answer, 20) == [Done(1)]
        return worker, client
    return asyncio.run(main())
"""


def test_a_forked_child_has_a_context_of_its_own(tmp_path):
    script = (
        PRELUDE
        + """
kept = round_trip("parent")
child = os.fork()
if child == 0:
    round_trip("child")
    del kept  # closing what the parent owns must not disturb it
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
round_trip("again")
"""
    )
    subprocess.run([sys.executable, "-P", "-c", script, str(tmp_path)], check=True, timeout=60)


def test_a_process_that_closes_nothing_still_ends(tmp_path):
    script = PRELUDE + 'kept = round_trip("w")\n'
    subprocess.run([sys.executable, "-P", "-c", script, str(tmp_path)], check=True, timeout=60)
