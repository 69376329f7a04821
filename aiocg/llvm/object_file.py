"""Reading from an ELF file how large its code is."""

import struct
from collections.abc import Callable, Iterator

_NULL, _SYMBOLS = 0, 2  # types of sections
_WRITABLE, _ALLOCATED, _EXECUTABLE = 1, 2, 4  # their flags


def text_size(content: bytes) -> int:
    """Return the bytes of code and read-only data in an ELF file: the `text` column of `llvm-size`.

    That is the sum of all sections that are loaded and are executable or cannot be written, with string literals and
    unwind tables: lookup tables that a pass makes in place of code count too. As the worker's `ObjectTextSizeBytes`.

    Raises:
        ValueError: when it is no ELF file, or only a part of one.
    """
    return _sum(content, _is_text)


def code_size(content: bytes) -> int:
    """Return the bytes of machine code in an ELF file: `.text` and other executable sections, without any data.

    Raises:
        ValueError: when it is no ELF file, or only a part of one.
    """
    return _sum(content, _is_code)


def _sum(content: bytes, counts: Callable[[int, int], bool]) -> int:
    """Add up the sections whose type and flags count."""
    if content[:4] != b"\x7fELF":
        raise ValueError(f"not an ELF file: it begins with {content[:4]!r}")
    try:
        return sum(size for kind, flags, size in _sections(content) if counts(kind, flags))
    except (IndexError, struct.error):
        raise ValueError("the ELF file is cut off: it ends before its table of sections does") from None


def _sections(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield type, flags and size of each section."""
    wide, order = content[4] == 2, "<" if content[5] == 1 else ">"
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), content, 40 if wide else 32)
    stride, count = struct.unpack_from(order + "2H", content, 58 if wide else 46)
    section = struct.Struct(order + ("4xIQ16xQ" if wide else "4xII8xI"))  # sh_type, sh_flags, sh_size
    if table and not count:  # more than the header can say: the first section, which is none, has the number
        count = section.unpack_from(content, table)[2]
    for index in range(count if table else 0):
        yield section.unpack_from(content, table + index * stride)


def _is_text(kind: int, flags: int) -> bool:
    loaded = kind not in (_NULL, _SYMBOLS) and flags & _ALLOCATED
    return bool(loaded and (flags & _EXECUTABLE or not flags & _WRITABLE))


def _is_code(kind: int, flags: int) -> bool:
    return bool(_is_text(kind, flags) and flags & _EXECUTABLE)
