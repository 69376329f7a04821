"""Batches in a stream of bytes, however it is cut."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.transport import framing, limits
from aiocg.transport.errors import RemoteProtocolError
from aiocg.transport.framing import Incoming, Outgoing

FRAMES = st.lists(st.binary(max_size=50), min_size=1, max_size=4)


def stream(*batches):
    outgoing = Outgoing()
    for frames in batches:
        outgoing.put(frames)
    data = b""
    while outgoing.size:
        parts = b"".join(outgoing.parts())
        data += parts
        outgoing.taken(len(parts))
    return data


def feed(incoming, data):
    """Give bytes as a socket would, and return the batches."""
    batches = []
    while data:
        room = incoming.room()
        assert len(room) > 0
        count = min(len(room), len(data))
        room[:count] = data[:count]
        incoming.filled(count)
        data = data[count:]
        while (frames := incoming.batch()) is not None:
            batches.append([bytes(frame) for frame in frames])
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
        data = b"".join(outgoing.parts())[:bite]
        outgoing.taken(len(data))
        sent += data
    assert sent == stream(*batches)
    assert outgoing.size == 0 and outgoing.parts() == []


@pytest.mark.parametrize("size", [framing.READ_BYTES - 17, framing.READ_BYTES - 16, framing.READ_BYTES, 3_000_000])
def test_large_batches_are_whole_and_those_around_them_too(size):
    large = [os.urandom(size), os.urandom(size // 2), b""]
    batches = [[b"before"], large, [b"after"], large, [b"last"]]
    assert feed(Incoming(), stream(*batches)) == batches


def test_frames_of_a_large_batch_are_not_copied():
    content = os.urandom(framing.READ_BYTES)
    incoming = Incoming()
    (first, second) = stream([b"head", content])[:30], stream([b"head", content])[30:]
    for part in (first, second):
        incoming.room()[: len(part)] = part
        incoming.filled(len(part))
        frames = incoming.batch()
    head, frame = frames
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
        stream([b"x"])[:4] + bytes(4),  # no frames
        stream([b"x"])[:4] + b"\xff\xff\xff\xff",  # more frames than anything
        stream([b"x"])[:8] + b"\xff" * 8,  # a frame larger than anything
        stream([b"x"])[:8] + (limits.MAX_FRAME_BYTES + 1).to_bytes(8, "little"),
        stream([b"good"])[:20] + b"then nonsense",
    ],
)
def test_what_is_no_batch_is_refused_before_memory_is_taken(data):
    incoming = Incoming()
    with pytest.raises(RemoteProtocolError):
        feed(incoming, data)
    assert len(incoming.room()) <= framing.READ_BYTES
