"""Batches in a stream of bytes, however it is cut."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.transport import framing, limits
from aiocg.transport.errors import RemoteProtocolError
from aiocg.transport.framing import Incoming, Outgoing

FRAMES = st.lists(st.binary(max_size=50), min_size=1, max_size=4)


def greeting():
    outgoing = Outgoing()
    outgoing.greet("DEALER")
    return taken(outgoing)


def stream(*batches, greeted=True):
    outgoing = Outgoing()
    if greeted:
        outgoing.greet("DEALER")
    for frames in batches:
        outgoing.put(frames)
    data = b""
    while outgoing.size:
        data += taken(outgoing)
    return data


def taken(outgoing, most=None):
    """Take what goes out next, or so many bytes of it, and return that."""
    data = b""

    def take(parts):
        nonlocal data
        data = b"".join(parts)[:most]
        return len(data)

    assert outgoing.hand_over(take) == len(data)
    return data


def feed(incoming, data):
    """Give bytes as a socket would, and return the batches."""
    batches = []
    while data:
        room = incoming.room()
        assert len(room) > 0
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        batches += [[bytes(frame) for frame in frames] for frames in incoming.batches(count)]
    return batches


@given(batches=st.lists(FRAMES, max_size=6), pieces=st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_batches_arrive_however_the_stream_is_cut(batches, pieces):
    data = stream(*batches)
    incoming, received, place = Incoming(), [], 0
    for piece in [*pieces, len(data)]:
        received += feed(incoming, data[place : place + piece])
        place += piece
    assert received == batches


@given(batches=st.lists(FRAMES, min_size=1, max_size=6), bites=st.lists(st.integers(0, 60), min_size=1, max_size=30))
def test_what_a_socket_does_not_take_goes_out_later(batches, bites):
    outgoing, sent = Outgoing(), b""
    for frames in batches:
        outgoing.put(frames)
    for bite in [*bites, 10_000]:
        sent += taken(outgoing, bite)
    assert sent == stream(*batches, greeted=False)
    assert outgoing.size == 0 and taken(outgoing) == b""


@pytest.mark.parametrize("size", [framing.READ_BYTES - 10, framing.READ_BYTES - 9, framing.READ_BYTES, 3_000_000])
def test_large_batches_are_whole_and_those_around_them_too(size):
    large = [os.urandom(size), os.urandom(size // 2), b""]
    batches = [[b"before"], large, [b"after"], large, [b"last"]]
    assert feed(Incoming(), stream(*batches)) == batches


def test_frames_of_a_large_batch_are_not_copied():
    content = os.urandom(framing.READ_BYTES)
    incoming = Incoming()
    first, second = stream([b"head", content])[:200], stream([b"head", content])[200:]
    for part in (first, second):
        incoming.room()[: len(part)] = part
        batches = list(incoming.batches(len(part)))
    ((head, frame),) = batches
    assert type(head) is bytes and isinstance(frame, memoryview) and frame.readonly
    assert frame == content


def test_many_small_batches_are_told_apart_without_more_memory():
    batches = [[b"%d" % number] for number in range(50_000)]
    incoming = Incoming()
    assert feed(incoming, stream(*batches)) == batches
    assert len(incoming.room()) <= framing.READ_BYTES


@pytest.mark.parametrize(
    "data",
    [
        b"garbage, and more of it",
        bytes(8),
        b"\xff" + bytes(8) + b"\x7e",
        greeting()[:10] + b"\x02" + bytes(60),
        greeting()[:12] + b"CURVE".ljust(60, b"\0"),
        greeting()[:64] + b"\x00\x01x",  # a message before READY
        greeting() + b"\x08\x00",  # flags that there are not
        greeting() + b"\x05\x00",  # a command of several frames
        greeting() + b"\x06" + (1 << 20).to_bytes(8, "big"),  # a large command
        greeting() + b"\x02" + b"\xff" * 8,  # a frame larger than anything
        greeting() + b"\x02" + (limits.MAX_FRAME_BYTES + 1).to_bytes(8, "big"),
        greeting() + b"\x01\x00" * (limits.MAX_FRAMES + 2),  # more frames than anything
        stream([b"good"]) + b"then nonsense",
    ],
)
def test_what_is_not_the_protocol_is_refused_before_memory_is_taken(data):
    incoming = Incoming()
    with pytest.raises(RemoteProtocolError):
        feed(incoming, data)
    assert len(incoming.room()) <= framing.READ_BYTES


def test_other_commands_are_passed_over():
    ping = b"\x04\x07\x04PING\x00\x00"
    data = greeting() + ping + stream([b"one"], greeted=False) + ping
    assert feed(Incoming(), data) == [[b"one"]]


def test_batches_may_be_sent_once_the_peer_has_greeted():
    incoming, data = Incoming(), greeting()
    assert feed(incoming, data[:-1]) == [] and not incoming.ready
    assert feed(incoming, data[-1:]) == [] and incoming.ready
