"""Codecs of stored observations: plain numbers, or zstd."""

import functools
import threading
from typing import Any

import msgspec
import numpy as np

from aiocg.errors import AiocgError

try:
    import zstandard
except ImportError as error:
    raise AiocgError("files of transitions need zstandard: pip install 'aiocg[transitions]'") from error


LEVEL = 3
ARRAY = 1  # MessagePack's extension type of an array
SMALL = 64  # bytes; less than that is not compressed


class _Zstandard(threading.local):
    """A thread's own compressor and decompressor: making one takes longer than compressing a small array."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstandard = _Zstandard()


def encode(value: Any) -> tuple[str, Any]:
    """Return the name of a codec, and a value that SQLite stores.

    Args:
        value: a number, text, bytes, a NumPy array of numbers, or dictionaries and lists of these.

    Raises:
        TypeError: for any other value, such as a graph object.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return _packed(_array_codec(value.dtype, value.shape), value.tobytes())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "bool", int(value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return "", value
    if isinstance(value, float):
        return ("", value) if value == value else ("nan", None)  # SQLite stores NaN as NULL
    if isinstance(value, str):
        return _packed("text", value.encode(errors="surrogatepass"))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _packed("bytes", bytes(value))
    return _packed("msgpack", msgspec.msgpack.encode(value, enc_hook=_extension))


@functools.lru_cache(256)
def _array_codec(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"array:{dtype.str}:{'x'.join(map(str, shape))}"


def _extension(value: Any) -> msgspec.msgpack.Ext:
    """Encode an array in a dictionary or list."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a {type(value).__name__} cannot be stored; of graphs, flat arrays can (ProgramlArrays)")
    return msgspec.msgpack.Ext(ARRAY, msgspec.msgpack.encode(encode(value)))


def _array(code: int, data: memoryview) -> Any:
    return decode(*msgspec.msgpack.decode(data))


def _packed(codec: str, raw: bytes) -> tuple[str, bytes]:
    if len(raw) < SMALL:
        return codec, raw
    return f"zstd+{codec}", _zstandard.compress(raw)


def decode(codec: str, stored: Any) -> Any:
    """Return the value that `encode` was given; NumPy's scalars come back as Python's.

    Raises:
        ValueError: if the codec is unknown.
    """
    if codec == "":
        return stored
    if codec == "bool":
        return bool(stored)
    if codec == "nan":
        return float("nan")
    kind, _, rest = codec.removeprefix("zstd+").partition(":")
    raw = _zstandard.decompress(stored) if codec.startswith("zstd+") else stored
    if kind == "text":
        return raw.decode(errors="surrogatepass")
    if kind == "bytes":
        return raw
    if kind == "msgpack":
        return msgspec.msgpack.decode(raw, ext_hook=_array)
    if kind == "array":
        dtype, _, shape = rest.partition(":")
        return np.frombuffer(raw, dtype).reshape([int(length) for length in shape.split("x") if length]).copy()
    raise ValueError(f"unknown codec {codec!r}")
