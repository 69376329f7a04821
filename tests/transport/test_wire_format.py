"""The wire format of protocol version 4, byte for byte, and the zero-copy promise."""

import numpy
import pytest

from aiocg.transport.arrays import Array
from aiocg.transport.codec import reply_codec, request_codec
from aiocg.transport.limits import INLINE_BYTES
from aiocg.transport.messages import (
    PROTOCOL_VERSION,
    Candidate,
    Expand,
    Expanded,
    Failure,
    Hello,
    Load,
    Observed,
    Refused,
    Shutdown,
    Step,
)

LARGE = bytes(INLINE_BYTES)

GOLDEN = [
    # changing one of these breaks every peer of version 4: raise PROTOCOL_VERSION instead
    (request_codec, Hello(1, "aiocg 0.1"), "dd0000000193a548656c6c6f01a961696f636720302e31"),
    (reply_codec, Refused("protocol", "no"), "dd0000000193a752656675736564a870726f746f636f6ca26e6f"),
    (request_codec, Shutdown(), "dd0000000191a853687574646f776e"),
    (
        request_codec,
        Step(7, 2**32, (3, "gvn"), 0.5, ("Ir",)),
        "dd0000000196a45374657007cf00000001000000009203a367766ecb3fe000000000000091a24972",
    ),
    (request_codec, Load(1, "b", LARGE, 1.0), "dd0000000196a44c6f616401a162d60301000000cb3ff0000000000000c400"),
    (
        reply_codec,
        Observed(1, (Array("int16", (1, 2), b"\1\2\3\4"),), 2**64 - 1, (True,), 0.0),
        "dd0000000196a84f627365727665640191c716010202010000000000000002000000000000000102030491"[:-2]
        + "cfffffffffffffffff91c3cb0000000000000000",
    ),
    (
        reply_codec,
        Observed(1, (Array("uint8", (INLINE_BYTES,), LARGE),), 0),
        "dd0000000196a84f627365727665640191c70e02010000000501004000000000000000"[:-2] + "0090cb0000000000000000",
    ),
    (
        request_codec,
        Expand(7, 3, ((1,),), 0.5, ("Ir",), (2,), True),
        "dd0000000198a6457870616e640703919101cb3fe000000000000091a249729102c3",
    ),
    (
        reply_codec,
        Expanded(1, (None, Candidate((1,), 2, (False,)))),
        "dd0000000194a8457870616e6465640192c095910102" + "91c2a0a0cb0000000000000000",
    ),
    (
        reply_codec,
        Failure(1, "action", "m", {"applied": 2}),
        "dd0000000195a74661696c75726501a6616374696f6ea16d81a76170706c69656402",
    ),
]


@pytest.mark.parametrize(("codec", "message", "golden"), GOLDEN, ids=lambda item: type(item).__name__)
def test_version_4_is_these_bytes(codec, message, golden):
    assert PROTOCOL_VERSION == 4
    assert codec().encode([message])[0].hex() == golden


def test_several_messages_are_one_list():
    head, *frames = request_codec().encode([Shutdown(), Shutdown()])
    assert head.hex() == "dd00000002" + 2 * "91a853687574646f776e"
    assert not frames


def test_large_buffers_are_sent_from_where_they_are():
    content = bytes(INLINE_BYTES)
    assert request_codec().encode([Load(1, "b", content, 1.0)])[1] is content
    there = numpy.arange(INLINE_BYTES, dtype="float32")
    frame = reply_codec().encode([Observed(1, ([there],), 0)])[1]
    assert numpy.shares_memory(numpy.frombuffer(frame, "float32"), there)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_large_arrays_are_decoded_where_they_arrived(kind):
    codec = reply_codec()
    head, frame = codec.encode([Observed(1, (numpy.arange(INLINE_BYTES, dtype="int32"),), 0)])
    frame = kind(bytes(frame))
    (reply,) = codec.decode([head, frame])
    (array,) = reply.observations
    assert array.ctypes.data == numpy.frombuffer(frame, "uint8").ctypes.data
    assert not array.flags.writeable
    assert array[-1] == INLINE_BYTES - 1


def test_large_content_is_the_frame_itself():
    codec = request_codec()
    frames = codec.encode([Load(1, "b", bytes(INLINE_BYTES), 1.0)])
    assert codec.decode(frames)[0].content is frames[1]


def test_small_arrays_travel_inside_the_first_frame():
    frames = reply_codec().encode([Observed(1, (numpy.arange(56), numpy.zeros(70, "float64")), 0)])
    assert len(frames) == 1


def test_a_decoded_array_is_aligned_for_its_elements():
    codec = reply_codec()
    for padding in range(8):
        (reply,) = codec.decode(codec.encode([Observed(1, ("x" * padding, numpy.arange(5)), 0)]))
        assert reply.observations[1].flags.aligned
