"""Control messages: what goes in comes out, and nothing that comes in can break it."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.transport.control import (
    CONTROL_VERSION,
    MAX_CONTROL_BYTES,
    MAX_WORKERS,
    Attach,
    Attached,
    Beat,
    Detach,
    Died,
    Fetch,
    Fetched,
    Kill,
    Looked,
    Piece,
    Pulse,
    Read,
    Refused,
    Spawn,
    Spawned,
    SpawnRefused,
    Stated,
    check_attach,
    check_refused,
    from_node_codec,
    from_peer_codec,
)
from aiocg.transport.errors import RemoteProtocolError, VersionError
from aiocg.transport.limits import FULL_BATCH_BYTES

FROM_CLIENT, FROM_NODE = from_peer_codec(), from_node_codec()


def encode(message: Any) -> bytes:
    (frame,) = FROM_CLIENT.encode([message])
    return bytes(frame)


def decode_from_client(data: bytes) -> Any:
    (message,) = FROM_CLIENT.decode([data])
    return message


def decode_from_node(data: bytes) -> Any:
    (message,) = FROM_NODE.decode([data])
    return message


numbers = st.integers(0, 2**63 - 1)
seconds = st.floats(-1e12, 1e12)
texts = st.text(max_size=20)
key = st.text("0123456789abcdef.-:+=^!/*?&<>()[]{}@%$#", min_size=40, max_size=40)
digest = st.binary(min_size=32, max_size=32)
stated = st.none() | st.builds(Stated, numbers, numbers, numbers, st.integers(-1, 9), elapsed=seconds, left=seconds)
from_client = st.one_of(
    st.builds(Attach, numbers, texts, texts),
    st.builds(Spawn, numbers, texts, st.dictionaries(texts, numbers | st.floats(allow_nan=False), max_size=3), numbers),
    st.builds(Beat, numbers, st.lists(numbers, max_size=5).map(tuple)),
    st.builds(Kill, numbers),
    st.just(Detach()),
    st.builds(Fetch, digest, numbers, texts, key, key),
    st.builds(Read, digest, numbers),
)
from_node = st.one_of(
    st.builds(Attached, seconds, seconds, texts, st.dictionaries(texts, seconds, max_size=3), numbers, texts),
    st.builds(Refused, texts, texts),
    st.builds(Spawned, numbers, st.integers(1, 65535), key, numbers),
    st.builds(SpawnRefused, numbers, texts, st.none() | seconds),
    st.builds(
        Pulse,
        numbers,
        st.lists(st.builds(Looked, numbers, numbers, numbers, st.booleans(), stated), max_size=3).map(tuple),
        st.lists(numbers, max_size=3).map(tuple),
    ),
    st.builds(Died, numbers, st.integers(-64, 255), numbers, stated, texts),
    st.builds(Fetched, digest, st.booleans()),
    st.builds(Piece, digest, numbers, st.binary(max_size=50)),
)


@given(from_client, from_node)
def test_every_message_comes_back_as_it_was(request: Any, reply: Any) -> None:
    assert decode_from_client(encode(request)) == request
    assert decode_from_node(encode(reply)) == reply


@given(from_client, from_node)
def test_neither_side_takes_what_the_other_one_says(request: Any, reply: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_from_node(encode(request))
    with pytest.raises(RemoteProtocolError):
        decode_from_client(encode(reply))


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for decode in (decode_from_client, decode_from_node):
        with contextlib.suppress(RemoteProtocolError):
            assert encode(decode(data))


@given(st.one_of(from_client, from_node), st.data())
def test_a_message_that_was_changed_on_its_way_is_read_or_refused(message: Any, data: st.DataObject) -> None:
    changed = bytearray(encode(message))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    for decode in (decode_from_client, decode_from_node):
        with contextlib.suppress(RemoteProtocolError):
            assert encode(decode(bytes(changed)))


@pytest.mark.parametrize("value", ["/etc/passwd", "$(id)", b"\x80\x04.", None, [1], {"a": 1}, {"__reduce__": 1}])
def test_an_option_is_a_number_and_nothing_else(value: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_from_client(msgspec.msgpack.encode([["Spawn", 1, "llvm", {"transition_cache_bytes": value}, 0]]))


def test_what_is_deeply_nested_or_too_large_is_refused() -> None:
    for data in (
        b"\x91" * MAX_CONTROL_BYTES,
        encode(Beat(1, tuple(range(MAX_WORKERS + 1)))),
        msgspec.msgpack.encode([["Attach", 1, "x" * 9000, "y"]]),
    ):
        with pytest.raises(RemoteProtocolError):
            decode_from_client(data)


def test_the_fullest_pulse_fits() -> None:
    most = 2**63 - 1
    look = Looked(most, most, most, True, Stated(most, most, most, most, 1.0, 2.0))
    pulse = Pulse(most, (look,) * MAX_WORKERS, (most,) * MAX_WORKERS)
    assert decode_from_node(encode(pulse)) == pulse
    assert len(encode(pulse)) + FULL_BATCH_BYTES < MAX_CONTROL_BYTES


@pytest.mark.parametrize(("version", "older"), [(CONTROL_VERSION - 1, "the client"), (CONTROL_VERSION + 1, "the node")])
def test_another_version_is_told_which_side_is_older(version: int, older: str) -> None:
    refused = check_attach(Attach(version, "aiocg 0.0.1", "a"))
    assert refused is not None
    with pytest.raises(VersionError, match=rf"the older side is {older}") as caught:
        check_refused(refused)
    assert "aiocg 0.0.1" in str(caught.value)


def test_the_same_version_is_attached_and_other_refusals_are_no_errors() -> None:
    assert check_attach(Attach(CONTROL_VERSION, "aiocg", "a")) is None
    check_refused(Refused("unattached", "attach first"))
