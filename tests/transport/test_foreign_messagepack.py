"""Another implementation of MessagePack reads what we write and writes what we read: other languages can join."""

import struct
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.transport.arrays import Array
from aiocg.transport.codec import reply_codec, request_codec

from .test_codec import comparable, replies, requests

CODES = {0: "bool", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "uint8", 6: "uint16", 7: "uint32", 8: "uint64",
         9: "float32", 10: "float64"}  # fmt: skip


def read(frames: list[bytes]) -> Any:
    """Read a batch as docs/wire_format.md says, with nothing of ours."""

    def extension(code: int, data: bytes) -> Any:
        if code == 1:
            end = 2 + 8 * data[1]
            return array(data[:end], data[end:])
        frame = bytes(frames[struct.unpack_from("<I", data)[0]])
        return array(data[4:], frame) if code == 2 else frame

    return msgpack.unpackb(bytes(frames[0]), ext_hook=extension, strict_map_key=False)


def array(header: bytes, elements: bytes) -> tuple[str, str, tuple[int, ...], bytes]:
    return "array", CODES[header[0]], struct.unpack(f"<{header[1]}Q", header[2:]), elements


def plain(value: Any) -> Any:
    """What a message is in values of MessagePack: a list of its name and its fields."""
    if isinstance(value, Array):
        return "array", value.dtype, value.shape, bytes(value.data)
    if isinstance(value, msgspec.Struct):
        name = [type(value).__name__] if type(value).__struct_config__.tag else []
        return [*name, *map(plain, msgspec.structs.astuple(value))]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize(("codec", "messages"), [(request_codec, requests), (reply_codec, replies)])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_what_we_write_is_read_by_others(codec: Any, messages: st.SearchStrategy[Any], data: st.DataObject) -> None:
    batch = data.draw(st.lists(messages, min_size=1, max_size=5))
    assert read(codec().encode(batch)) == plain(batch)


@pytest.mark.parametrize(("codec", "messages"), [(request_codec, requests), (reply_codec, replies)])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_what_others_write_is_read_by_us(codec: Any, messages: st.SearchStrategy[Any], data: st.DataObject) -> None:
    def form(value: Any, frames: list[bytes]) -> Any:
        if isinstance(value, Array):
            header = struct.pack(f"<BB{len(value.shape)}Q", {v: k for k, v in CODES.items()}[value.dtype],
                                 len(value.shape), *value.shape)  # fmt: skip
            return msgpack.ExtType(1, header + bytes(value.data))
        if isinstance(value, msgspec.Struct):
            name = [type(value).__name__] if type(value).__struct_config__.tag else []
            return [*name, *(form(item, frames) for item in msgspec.structs.astuple(value))]
        if isinstance(value, list | tuple):
            return [form(item, frames) for item in value]
        if isinstance(value, dict):
            return {key: form(item, frames) for key, item in value.items()}
        if isinstance(value, bytes) and len(value) > 100:
            frames.append(value)
            return msgpack.ExtType(3, struct.pack("<I", len(frames)))
        return value

    batch = data.draw(st.lists(messages, min_size=1, max_size=5))
    frames: list[bytes] = []
    head = msgpack.packb([form(message, frames) for message in batch])
    assert comparable(codec().decode([head, *frames])) == comparable(codec().decode(codec().encode(batch)))
