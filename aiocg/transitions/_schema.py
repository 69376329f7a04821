"""The tables of a file of transitions, and how such a file is opened.

A state is identified by its 64-bit hash, which SQLite stores as a signed integer. A transition goes from a state, by
the actions of one request, to the next state. So a file grows with the number of transitions, whatever the length of
the episodes.
"""

import contextlib
import functools
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from aiocg.errors import AiocgError

VERSION = 1
APPLICATION = 0x61696F63  # "aioc", in the header of the file

CACHE = 64 << 20  # bytes of pages in memory
CHANGES = 128 << 20  # bytes of changes that wait beside the file: a page that changes again meanwhile is written once
_TABLES = Path(__file__).with_name("tables.sql").read_text("utf-8")


try:
    import zstandard
except ImportError as error:
    raise AiocgError("files of transitions need zstandard: pip install 'aiocg[transitions]'") from error


# ---------------------------------------------------------------- Codecs of stored observations: plain numbers, or zstd

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


# --------------------------------------------------- The tables of a file of transitions, and how such a file is opened


class TransitionsError(AiocgError):
    """A file of transitions cannot be used."""


def create(path: Path) -> sqlite3.Connection:
    """Open a file for writing, and make it if there is none.

    Raises:
        TransitionsError: if the file is something else, damaged, or of a newer schema.
    """
    with _explained(path):
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            header = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
            database.executescript(f"BEGIN; {header} {_TABLES} COMMIT;")
        _check(database, path)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")  # a crash of the process loses nothing that was committed
        # Hashes are in no order, so a transaction touches pages all over the file.
        database.execute(f"PRAGMA cache_size = -{CACHE >> 10}")
        database.execute(f"PRAGMA wal_autocheckpoint = {CHANGES >> 12}")
    return database


def close(database: sqlite3.Connection) -> None:
    """Close a file that was written, and leave one file, which can be read where nothing can be written."""
    with contextlib.suppress(sqlite3.Error):  # somebody reads it: then SQLite's other two files stay
        database.execute("PRAGMA busy_timeout = 0")
        database.execute("PRAGMA journal_mode = DELETE")
    with contextlib.suppress(sqlite3.Error):
        database.close()


def open_file(path: Path) -> sqlite3.Connection:
    """Open a file for reading.

    Raises:
        TransitionsError: if there is no such file, it is something else, damaged, or of a newer schema.
    """
    check_file(path, "one that `aiocg search --log` has written", f": `aiocg search PROGRAM --log {path}` makes one")
    with _explained(path):
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        _check(database, path)
    return database


def check_file(path: Path, wanted: str, made: str = "") -> None:
    """Raise TransitionsError, with what is wanted instead and how it is made, if a path is no file."""
    if not path.exists():
        raise TransitionsError(f"there is no file {path}{made}")
    if not path.is_file():
        raise TransitionsError(f"{path} is not a file; name {wanted}")


def _check(database: sqlite3.Connection, path: Path) -> None:
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        database.close()
        raise TransitionsError(f"{path} is an SQLite file, but not one of transitions")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        database.close()
        raise TransitionsError(f"{path} has schema {version}, and this aiocg knows up to {VERSION}: upgrade aiocg")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, with the name of the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise TransitionsError(f"{path} cannot be used as a file of transitions: {error}") from error


def signed(state: int) -> int:
    """Return a 64-bit hash as the integer that SQLite can store."""
    return state - (1 << 64) if state >> 63 else state


def unsigned(stored: int) -> int:
    """Return the 64-bit hash of a stored integer."""
    return stored & (1 << 64) - 1
