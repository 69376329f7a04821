"""Arrays as values: what may be one, and how they meet numpy."""

import ctypes
import subprocess
import sys

import numpy
import pytest

from aiocg.transport.arrays import DTYPES, Array, from_numpy, to_numpy
from aiocg.transport.errors import LocalProtocolError
from aiocg.transport.limits import MAX_FRAME_BYTES


def address(array: numpy.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_means_the_same_to_numpy(dtype):
    there = numpy.array([[0, 1, 1], [1, 0, 1]], dtype)
    array = from_numpy(there)
    assert (array.dtype, array.shape) == (dtype, (2, 3))
    assert array.elements() == there.ravel().tolist()
    back = to_numpy(array.dtype, array.shape, bytes(array.data))
    assert back.dtype == there.dtype
    assert (back == there).all()


def test_numpy_sees_the_memory_of_an_array_without_a_copy():
    data = bytes(range(16))
    seen = numpy.asarray(Array("int32", (2, 2), data))
    assert address(seen) == address(numpy.frombuffer(data, "uint8"))
    assert not seen.flags.writeable


def test_ctypes_buffers_are_taken_as_data():
    array = Array("int64", (3,), (ctypes.c_int64 * 3)(1, -2, 3))
    assert array.elements() == [1, -2, 3]


def test_big_endian_and_transposed_arrays_are_put_in_order():
    big = from_numpy(numpy.array([1, 2], ">i4"))
    assert (big.dtype, big.elements()) == ("int32", [1, 2])
    turned = from_numpy(numpy.arange(6, dtype="int8").reshape(2, 3).T)
    assert (turned.shape, turned.elements()) == ((3, 2), [0, 3, 1, 4, 2, 5])


def test_numpy_scalars_become_python_numbers():
    assert type(from_numpy(numpy.float32(0.5))) is float
    assert type(from_numpy(numpy.uint64(2**64 - 1))) is int
    assert from_numpy(numpy.bool_(True)) is True


@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (1, 1, 1)])
def test_unusual_shapes_survive_numpy(shape):
    there = numpy.zeros(shape, "float64")
    array = from_numpy(there)
    assert array.shape == shape
    assert to_numpy("float64", shape, bytes(array.data)).shape == shape


@pytest.mark.parametrize(
    ("dtype", "shape", "data", "complaint"),
    [
        ("int64", (2,), b"12345678", "needs 16 bytes, there are 8"),
        ("complex128", (1,), bytes(16), "cannot be sent"),
        ("object", (1,), bytes(8), "cannot be sent"),
        ("int8", (-1,), b"", "non-negative"),
        ("int8", (float("nan"),), b"", "non-negative"),
        ("int8", (1.0,), b"1", "non-negative"),
        ("int8", (True,), b"1", "non-negative"),
        ("int8", (1,) * 33, b"1", "33 dimensions"),
        ("int64", (2**32, 2**32), b"", "more than"),
        ("int64", (0, 2**62), b"", "more than"),
        ("int64", (MAX_FRAME_BYTES // 8 + 1,), b"", "more than"),
        ("bool", (2,), b"\x01\x02", "neither 0 nor 1"),
    ],
)
def test_arrays_that_do_not_add_up_are_refused(dtype, shape, data, complaint):
    with pytest.raises(LocalProtocolError, match=complaint):
        Array(dtype, shape, data)


def test_a_strided_buffer_is_refused():
    with pytest.raises(LocalProtocolError, match="contiguous"):
        Array("uint8", (2,), memoryview(b"abcd")[::2])


def test_numpy_dtypes_without_a_fixed_layout_are_refused():
    with pytest.raises(LocalProtocolError, match="'object' cannot be sent"):
        from_numpy(numpy.array([None]))


def test_equal_arrays_are_equal_values():
    one, other = Array("int8", (2,), b"ab"), Array("int8", (2,), bytearray(b"ab"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Array("uint8", (2,), b"ab")
    assert one != "ab"


def test_a_worker_encodes_and_decodes_arrays_without_importing_numpy():
    script = """
import sys
from aiocg.transport.arrays import Array
from aiocg.transport.codec import reply_codec, request_codec
from aiocg.transport.messages import Observed, Step
array = Array("int64", (4096,), bytes(32768))
reply_codec().encode([Observed(1, (array, [Array("int8", (1,), b"x")]), 0)])
codec = request_codec()
assert codec.decode(codec.encode([Step(1, 1, (array,), 1.0)])) == [Step(1, 1, (array,), 1.0)]
assert not {"numpy", "zmq", "asyncio"} & set(sys.modules), "imported"
"""
    subprocess.run([sys.executable, "-P", "-c", script], check=True, timeout=30)
