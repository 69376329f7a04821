"""What is refused on the way out and on the way in, and what the error says."""

import datetime
import enum

import msgspec
import numpy
import pytest
from msgspec.msgpack import Ext

from aiocg.transport import limits
from aiocg.transport.arrays import Array
from aiocg.transport.codec import Batch, reply_codec, request_codec
from aiocg.transport.errors import LocalProtocolError, RemoteProtocolError
from aiocg.transport.messages import Candidate, Expanded, Failure, Load, Observed, Shutdown, Step, TextReply

LARGE = bytes(limits.INLINE_BYTES)


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


def head(*messages) -> bytes:
    return msgspec.msgpack.encode(list(messages))


def observed(*values) -> list:
    return ["Observed", 9, list(values), 0, [], 0.0]


@pytest.mark.parametrize(
    ("message", "where", "why"),
    [
        (Step(5, 1, (1, object()), 1.0), r"Step.actions\[1\]", "type object cannot be sent"),
        (Step(5, 1, (2**64,), 1.0), r"Step.actions\[0\] \(int\)", "64"),
        (Step(5, 1, ("\ud800",), 1.0), r"Step.actions\[0\] \(str\)", "surrogates"),
        (Step(5, 2**70, (1,), 1.0), r"Step.session \(int\)", "64"),
        (Step(5, 1, 3, 1.0), "Step.actions", "type int"),
        (Load(5, "b", "text", 1.0), r"Load.content", "type str"),
        (Observed(5, ({"a": [1, {2, 3}]},), 0), r"Observed.observations\[0\]\['a'\]\[1\]", "type set"),
        (Observed(5, (datetime.datetime(2026, 1, 1),), 0), r"Observed.observations\[0\]", "datetime"),
        (Observed(5, ({(1, 2): 3},), 0), r"Observed.observations\[0\]", "dict key of type tuple"),
        (Observed(5, (numpy.array(["a"]),), 0), r"Observed.observations\[0\]", "cannot be sent"),
        (Observed(5, (numpy.longdouble(1),), 0), r"Observed.observations\[0\]", "cannot be sent"),
        (Observed(5, (nested(40),), 0), r"Observed.observations\[0\]", "nested more than"),
        (Expanded(5, (None, Candidate((1, 1j)))), r"Expanded.candidates\[1\].observations\[1\]", "complex"),
        (Failure(5, "c", "m", {"x": {"y": object}}), r"Failure.fields\['x'\]\['y'\]", "type type"),
    ],
)
def test_the_error_names_field_and_type_of_what_cannot_be_sent(message, where, why):
    with pytest.raises(LocalProtocolError, match=rf"{where}.* cannot be sent: .*{why}") as caught:
        reply_codec().encode([TextReply(1, "fine"), message])
    assert (caught.value.index, caught.value.request) == (1, 5)


def test_a_list_inside_itself_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(LocalProtocolError, match="nested"):
        request_codec().encode([Step(1, 1, (loop,), 1.0)])


def test_relatives_of_plain_values_are_sent_as_those():
    class Level(enum.IntEnum):
        HIGH = 3

    class Name(str, enum.Enum):  # noqa: UP042 - whose str() is not its value
        GVN = "gvn"

    codec = request_codec()
    actions = (Level.HIGH, Name.GVN, numpy.int32(4), bytearray(b"x"), (1, [2]), numpy.str_("s"))
    with pytest.raises(LocalProtocolError, match="str"):
        codec.encode([Step(1, 1, actions, 1.0)])
    (step,) = codec.decode(codec.encode([Step(1, 1, actions[:-1], 1.0)]))
    assert step.actions == (3, "gvn", 4, b"x", [1, [2]])
    assert [type(action) for action in step.actions] == [int, str, int, bytes, list]


def test_a_refused_message_leaves_the_batch_as_it_was():
    batch: Batch = Batch()
    batch.add(TextReply(1, "one"))
    size = batch.size
    with pytest.raises(LocalProtocolError):
        batch.add(Observed(2, (LARGE, Array("int8", (len(LARGE),), LARGE), object()), 0))
    assert (batch.messages, batch.size, len(batch.frames())) == (1, size, 1)
    batch.add(TextReply(3, "three"))
    assert reply_codec().decode(batch.frames()) == [TextReply(1, "one"), TextReply(3, "three")]
    assert batch.size == sum(map(len, batch.frames()))


@pytest.mark.parametrize(
    ("frames", "complaint"),
    [
        ([], "without frames"),
        ([b""], "does not begin with a list"),
        ([b"\x90"], "0 messages"),
        ([b"\xdd\xff\xff\xff\xff"], "4294967295 messages"),
        ([b"\xdc\x00"], "0 messages"),
        ([b"\x81\x01\x02"], "does not begin with a list"),
        ([b"\x92\x93\xa9TextReply\x01\xa1x"], "truncated"),
        ([b"\xc1\xff"], "does not begin with a list"),
        ([head(["TextReply", 1, "x"]) + b"\x00"], "trailing"),
        ([head(["Unknown", 1])], r"message 0 of 1 \(Unknown\)"),
        ([head(["TextReply", 1, "x", "more"])], r"message 0 of 1 \(TextReply\)"),
        ([head(["TextReply", 1, 2])], "Expected `str`"),
        ([head(["TextReply", 1.5, "x"])], "Expected `int`"),
        ([head(observed(1)), b"extra"], "frame 1 of 2 is not referred to"),
        ([head(observed(Ext(3, b"\1\0\0\0")))], "reference to frame 1 of a batch of 1 frames"),
        ([head(observed(Ext(3, b"\0\0\0\0"))), b""], "reference to frame 0"),
        ([head(observed(Ext(3, b"\xff\xff\xff\xff"))), b""], "reference to frame 4294967295"),
        ([head(observed(Ext(3, b"\1\0\0\0"), Ext(3, b"\1\0\0\0"))), b""], "referred to twice"),
        ([head(observed(Ext(3, b"\1\0"))), b""], "frame reference of 2 bytes"),
        ([head(observed(Ext(2, b"\1"))), b""], "malformed"),
        ([head(observed(Ext(99, b"")))], "unknown code 99"),
        ([head(observed(Ext(1, b"")))], "truncated"),
        ([head(observed(Ext(1, b"\1\1")))], "truncated"),
        ([head(observed(Ext(1, b"\x63\0")))], "unknown dtype code 99"),
        ([head(observed(Ext(1, b"\1\1" + b"\5" + bytes(7) + b"abc")))], "needs 5 bytes, there are 3"),
        ([head(observed(Ext(1, b"\1\1" + b"\xff" * 8)))], "describes more than"),
        ([head(observed(Ext(1, b"\1\x21" + bytes(8 * 33))))], "33 dimensions"),
        ([head(observed(Ext(1, b"\0\1" + b"\1" + bytes(7) + b"\x07")))], "neither 0 nor 1"),
        ([head(observed(Ext(2, b"\1\0\0\0\1\0more"))), b"x"], "followed by other data"),
        ([head(observed(Ext(2, b"\1\0\0\0\4\1\1" + bytes(7)))), b"x"], "needs 8 bytes, there are 1"),
        ([head(observed(nested(40)))], "nested more than"),
        ([head(observed(nested(900)))], "nested more than|recursion"),
        ([b"\x91\x96\xa8Observed\x01\x91" + b"\x91" * 100_000], "."),
        ([b"\x91\x96\xa8Observed\x01\x91\xdd\x7f\xff\xff\xff"], "truncated"),
        ([b"\x91\x96\xa8Observed\x01\xdd\x7f\xff\xff\xff"], "truncated"),
        ([b"\x91\x96\xa8Observed\x01\x91\xc6\x7f\xff\xff\xff"], "truncated"),
        ([b"\x91\x96\xa8Observed\x01\x91\xdf\x7f\xff\xff\xff"], "truncated"),
        ([head(observed(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)))], "timestamp"),
        ([head(["Failure", 1, "c", "m", {"a": {b"k": datetime.datetime.now(datetime.UTC)}}])], "timestamp"),
        ([b"\x91\x96\xa8Observed\x09\x91\x81\x91\x01\x01\x00\x90\xcb" + bytes(8)], "dict key"),
        ([b"\x91\x96\xa8Observed\x09\x91\x81\x90\x01\x00\x90\xcb" + bytes(8)], "dict key"),
    ],
)
def test_malformed_replies_are_refused_with_the_reason(frames, complaint):
    with pytest.raises(RemoteProtocolError, match=complaint):
        reply_codec().decode(frames)


def test_content_that_is_not_bytes_is_refused():
    with pytest.raises(RemoteProtocolError, match=r"Load\.content is of type str"):
        request_codec().decode([head(["Load", 1, "b", "text", 1.0])])


def test_the_bad_message_of_a_batch_is_named_with_its_request():
    good, bad = ["TextReply", 7, "x"], ["Observed", 8, [Ext(3, b"\2\0\0\0")], 0, [], 0.0]
    with pytest.raises(RemoteProtocolError, match=r"message 2 of 4 \(Observed\)") as caught:
        reply_codec().decode([head(good, good, bad, good), b""])
    assert (caught.value.index, caught.value.request) == (2, 8)


def test_a_message_without_a_number_has_none_in_the_error():
    with pytest.raises(RemoteProtocolError) as caught:
        reply_codec().decode([head(["Refused", 3, "x"])])
    assert (caught.value.index, caught.value.request) == (0, None)


def test_the_deepest_value_that_can_be_sent_can_be_received():
    codec = reply_codec()
    depths = []
    for depth in range(limits.MAX_NESTING - 3, limits.MAX_NESTING + 4):
        try:
            frames = codec.encode([Observed(1, (nested(depth),), 0)])
        except LocalProtocolError:
            continue
        codec.decode(frames)
        depths.append(depth)
    assert depths
    assert max(depths) < limits.MAX_NESTING + 3


@pytest.mark.parametrize(
    ("limit", "value", "messages"),
    [
        ("MAX_MESSAGES", 2, [Shutdown()] * 3),
        ("MAX_FRAMES", 1, [Step(1, 1, (LARGE, LARGE), 1.0)]),
        ("MAX_FRAME_BYTES", len(LARGE) - 1, [Step(1, 1, (LARGE,), 1.0)]),
        ("MAX_BATCH_BYTES", len(LARGE) * 2, [Step(1, 1, (LARGE,), 1.0), Step(2, 1, (LARGE,), 1.0)]),
    ],
)
def test_limits_hold_for_sender_and_receiver(monkeypatch, limit, value, messages):
    codec = request_codec()
    frames = codec.encode(messages)
    monkeypatch.setattr(limits, limit, value)
    monkeypatch.setattr(limits, "FULL_BATCH_MESSAGES", 1)  # it and the next are below all limits
    monkeypatch.setattr(limits, "FULL_BATCH_BYTES", 1)
    with pytest.raises(LocalProtocolError, match=str(value)):
        codec.encode(messages)
    with pytest.raises(RemoteProtocolError, match=r"more than|not of 1 to"):
        codec.decode(frames)
