"""The codec: what goes in comes out, and nothing that comes in can break it."""

import math
from typing import Any

import msgspec
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.transport.arrays import DTYPES, Array
from aiocg.transport.codec import reply_codec, request_codec
from aiocg.transport.errors import ProtocolError, RemoteProtocolError
from aiocg.transport.limits import INLINE_BYTES
from aiocg.transport.messages import (
    ActionSpaceSpec,
    ActionSpec,
    Candidate,
    Close,
    Done,
    Expand,
    Expanded,
    Failure,
    Fork,
    Hello,
    Load,
    LoadStored,
    ObservationSpec,
    Observed,
    Open,
    Parameter,
    Refused,
    Shutdown,
    Statistics,
    Step,
    Store,
    Stored,
    TextReply,
    Timed,
    Trace,
    Tracing,
    Unload,
    Welcome,
)

numbers = st.integers(0, 2**64 - 1)
seconds = st.floats(0, 1e9)
texts = st.text(max_size=20)
names = st.lists(texts, max_size=3).map(tuple)
large_bytes = st.builds(
    lambda seed, more: bytes([seed]) * (INLINE_BYTES + more), st.integers(0, 255), st.integers(0, 99)
)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = draw(st.lists(st.integers(0, 40), max_size=3).map(tuple))
    count = math.prod(shape)
    if draw(st.booleans()):
        shape, count = (INLINE_BYTES + count,), INLINE_BYTES + count
    element = draw(st.binary(min_size=1, max_size=1)) if dtype != "bool" else draw(st.sampled_from([b"\0", b"\1"]))
    return Array(dtype, shape, element * (count * DTYPES[dtype][1]))


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=20)
)
values = st.recursive(
    scalars | large_bytes | arrays(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.integers(0, 9), inner, max_size=4),
    max_leaves=8,
)
many_values = st.lists(values, max_size=4).map(tuple)
effects = st.lists(st.booleans(), max_size=3).map(tuple)

requests = st.one_of(
    st.builds(Hello, numbers, texts),
    st.builds(Load, numbers, texts, st.binary(max_size=50) | large_bytes, seconds),
    st.builds(Store, numbers, texts, st.binary(max_size=50) | large_bytes, seconds),
    st.builds(LoadStored, numbers, texts, st.binary(max_size=32), seconds),
    st.builds(Unload, numbers, texts),
    st.builds(Open, numbers, numbers, texts, seconds, names),
    st.builds(Step, numbers, numbers, many_values, seconds, names),
    st.builds(Fork, numbers, numbers, numbers),
    st.builds(Expand, numbers, numbers, st.lists(many_values, max_size=3).map(tuple), seconds, names, st.just((0, 2))),
    st.builds(Parameter, numbers, numbers, texts, texts, seconds),
    st.builds(Close, numbers, st.lists(numbers, max_size=3).map(tuple)),
    st.builds(Statistics, numbers),
    st.builds(Trace, numbers),
    st.just(Shutdown()),
)
spec = st.builds(
    ObservationSpec,
    name=texts,
    kind=st.sampled_from(["integer", "array", "text"]),
    keys=names,
    low=st.none() | seconds,
    default=values,
)
replies = st.one_of(
    st.builds(
        Welcome,
        numbers,
        texts,
        texts,
        numbers,
        st.lists(st.builds(ActionSpaceSpec, texts, st.just((ActionSpec("dce", "", ("-dce",)),))), max_size=2).map(
            tuple
        ),
        st.lists(spec, max_size=2).map(tuple),
    ),
    st.builds(Refused, texts, texts),
    st.builds(Tracing, numbers, texts),
    st.builds(Timed, numbers, seconds, seconds),
    st.builds(Done, numbers),
    st.builds(Stored, numbers, st.booleans()),
    st.builds(TextReply, numbers, texts),
    st.builds(Observed, numbers, many_values, numbers, effects, seconds),
    st.builds(
        Expanded,
        numbers,
        st.lists(st.none() | st.builds(Candidate, many_values, numbers, effects, texts, texts), max_size=3).map(tuple),
        seconds,
    ),
    st.builds(Failure, numbers, texts, texts, st.dictionaries(texts, values, max_size=3)),
)


def comparable(value: Any) -> Any:
    """Turn a message into tuples in which arrays compare by dtype, shape and bytes."""
    if isinstance(value, Array):
        return "array", value.dtype, value.shape, bytes(value.data)
    if isinstance(value, numpy.ndarray):
        assert not value.flags.writeable
        return "array", value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, msgspec.Struct):
        return type(value), comparable(msgspec.structs.astuple(value))
    if isinstance(value, (list, tuple)):
        return type(value), [comparable(item) for item in value]
    if isinstance(value, dict):
        return [(key, comparable(item)) for key, item in value.items()]
    return type(value), value


@settings(max_examples=150, deadline=None)
@given(st.lists(requests, min_size=1, max_size=6))
def test_requests_survive_the_wire(messages):
    codec = request_codec()
    assert comparable(codec.decode(codec.encode(messages))) == comparable(messages)


@settings(max_examples=150, deadline=None)
@given(st.lists(replies, min_size=1, max_size=6))
def test_replies_survive_the_wire(messages):
    codec = reply_codec()
    assert comparable(codec.decode(codec.encode(messages))) == comparable(messages)


@settings(max_examples=100, deadline=None)
@given(st.lists(replies, min_size=1, max_size=4))
def test_what_was_decoded_can_be_encoded_to_the_same_frames(messages):
    codec = reply_codec()
    frames = codec.encode(messages)
    assert codec.encode(codec.decode(frames)) == frames


def decode_or_refuse(codec, frames):
    try:
        messages = codec.decode(frames)
    except RemoteProtocolError:
        return
    assert messages


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=3), st.sampled_from([request_codec(), reply_codec()]))
def test_random_bytes_are_refused_and_nothing_else(frames, codec):
    decode_or_refuse(codec, frames)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["Step", "Load", "Observed", "Expanded", "Failure", "Welcome"]))
def test_random_bytes_behind_a_valid_beginning_are_refused(rest, kind):
    head = b"\x91\x96" + msgspec.msgpack.encode(kind) + b"\x01\x01" + rest
    decode_or_refuse(request_codec(), [head])
    decode_or_refuse(reply_codec(), [head])


@st.composite
def mutations(draw: st.DrawFn, frames: list[bytes]) -> list[bytes]:
    frames = list(frames)
    for _ in range(draw(st.integers(1, 3))):
        which = draw(st.integers(0, len(frames) - 1))
        frame = bytes(frames[which])
        at = draw(st.integers(0, min(len(frame), 400)))
        junk = draw(st.binary(max_size=4))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "drop", "repeat", "swap", "retype"]))
        if kind == "flip":
            frames[which] = frame[:at] + junk + frame[at + len(junk) :]
        elif kind == "cut":
            frames[which] = frame[:at]
        elif kind == "insert":
            frames[which] = frame[:at] + junk + frame[at:]
        elif kind == "drop" and len(frames) > 1:
            del frames[which]
        elif kind == "repeat":
            frames.insert(which, frame)
        elif kind == "swap":
            frames.append(frames.pop(which))
        else:
            frames[which] = memoryview(frame)
    return frames


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_requests_are_decoded_or_refused(data):
    codec = request_codec()
    frames = codec.encode(data.draw(st.lists(requests, min_size=1, max_size=3)))
    decode_or_refuse(codec, data.draw(mutations(frames)))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_replies_are_decoded_or_refused(data):
    codec = reply_codec()
    frames = codec.encode(data.draw(st.lists(replies, min_size=1, max_size=3)))
    decode_or_refuse(codec, data.draw(mutations(frames)))


@pytest.mark.parametrize("kind", [{}, [], None, 1, b"Fork"])
def test_a_message_of_a_type_that_is_no_text_is_refused(kind):
    frames = [msgspec.msgpack.encode([[kind, 1, 2, 3]])]
    for codec in (request_codec(), reply_codec()):
        with pytest.raises(RemoteProtocolError, match="of unknown type"):
            codec.decode(frames)


@pytest.mark.parametrize("message", [Statistics(-1), Step(1, -1, (), 1.0), Fork(1, 1, -1), Close(1, (1, -1))])
def test_a_number_below_zero_is_refused_with_the_request_it_came_in(message):
    with pytest.raises(RemoteProtocolError, match=">= 0") as refused:
        request_codec().decode(request_codec().encode([Statistics(2), message]))
    assert (refused.value.index, refused.value.request) == (1, message.request)


def test_a_codec_does_not_remember_a_refused_batch():
    codec = request_codec()
    message = Load(1, "b", bytes(INLINE_BYTES), 1.0)
    frames = codec.encode([message])
    with pytest.raises(ProtocolError):
        codec.decode(frames[:1])
    assert codec.decode(frames) == [message]
