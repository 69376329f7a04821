"""Reading from an ELF file how large its code is."""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

_NULL, _SYMBOLS, _NO_BITS = 0, 2, 8  # types of sections
_WRITABLE, _ALLOCATED, _EXECUTABLE = 1, 2, 4  # their flags
_OBJECT, _FUNCTION = 1, 2  # types of symbols
_ELSEWHERE = 0xFFFF  # the first section has the number


class Section(NamedTuple):
    """A section of an ELF file.

    Attributes:
        name: such as ".text".
        kind, flags, link: as ELF has them.
        offset: of its bytes in the file.
        size: bytes.
    """

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int

    @property
    def is_loaded(self) -> bool:
        """Whether it is a part of the running program."""
        return self.kind not in (_NULL, _SYMBOLS) and bool(self.flags & _ALLOCATED)

    @property
    def is_code(self) -> bool:
        """Whether it has machine code."""
        return self.is_loaded and bool(self.flags & _EXECUTABLE)

    @property
    def is_writable(self) -> bool:
        """Whether the program may change it."""
        return bool(self.flags & _WRITABLE)

    @property
    def is_stored(self) -> bool:
        """Whether the file has its bytes; `.bss` has none."""
        return self.kind != _NO_BITS


def text_size(content: bytes) -> int:
    """Return the bytes of code and read-only data in an ELF file: the `text` column of `llvm-size`.

    That is the sum of all sections that are loaded and are executable or cannot be written, with string literals and
    unwind tables: lookup tables that a pass makes in place of code count too. As the worker's `ObjectTextSizeBytes`.

    Raises:
        ValueError: when it is no ELF file, or only a part of one.
    """
    return _sum(content, lambda one: one.is_loaded and (one.is_code or not one.is_writable))


def code_size(content: bytes) -> int:
    """Return the bytes of machine code in an ELF file: `.text` and other executable sections, without any data.

    Raises:
        ValueError: when it is no ELF file, or only a part of one.
    """
    return _sum(content, lambda one: one.is_code)


def sections(content: bytes) -> list[Section]:
    """Return the sections of an ELF file.

    Raises:
        ValueError: when it is no ELF file, or only a part of one.
    """
    if content[:4] != b"\x7fELF":
        raise ValueError(f"not an ELF file: it begins with {content[:4]!r}")
    try:
        return _sections(content)
    except (IndexError, struct.error):
        raise ValueError("the ELF file is cut off: it ends before its table of sections does") from None


def symbol_sizes(content: bytes) -> dict[str, int]:
    """Return the bytes of each function and variable that an ELF file has and names; of equal names the sum.

    Of those at one place the first has the bytes, and the others none: they are not there.

    Raises:
        ValueError: when it is no ELF file, or only a part of one.
    """
    merged = merged_symbols(content)
    sizes: dict[str, int] = {}
    for name, _, size in _symbols(content):
        if name not in merged:
            sizes[name] = sizes.get(name, 0) + size
    return sizes


def merged_symbols(content: bytes) -> dict[str, str]:
    """Return the symbols that stand where another one of the same size stands, and the first that does.

    Raises:
        ValueError: when it is no ELF file, or only a part of one.
    """
    first: dict[tuple[tuple[int, int], int], str] = {}
    found = {}
    for name, place, size in _symbols(content):
        if first.setdefault((place, size), name) != name:
            found[name] = first[place, size]
    return found


def _symbols(content: bytes) -> list[tuple[str, tuple[int, int], int]]:
    """Return the name, the section and address, and the size of each function and variable."""
    try:
        return _read_symbols(content, sections(content))
    except (IndexError, struct.error):
        raise ValueError("the ELF file is damaged: its table of symbols is not where it should be") from None


def _read_symbols(content: bytes, found: Sequence[Section]) -> list[tuple[str, tuple[int, int], int]]:
    wide, order = content[4] == 2, _order(content)
    symbol = struct.Struct(order + ("IBxHQQ" if wide else "IIIBxH"))
    read = []
    for table in (one for one in found if one.kind == _SYMBOLS):
        names = found[table.link].offset
        for at in range(table.offset, table.offset + table.size, symbol.size):
            fields = symbol.unpack_from(content, at)
            name_at, info, section, address, size = (fields[i] for i in ((0, 1, 2, 3, 4) if wide else (0, 3, 4, 1, 2)))
            if size and section and info & 15 in (_OBJECT, _FUNCTION):
                read.append((_text(content, names + name_at), (section, address), size))
    return read


def _sum(content: bytes, counts: Callable[[Section], bool]) -> int:
    """Add up the sections that count."""
    return sum(one.size for one in sections(content) if counts(one))


def _sections(content: bytes) -> list[Section]:
    wide, order = content[4] == 2, _order(content)
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), content, 40 if wide else 32)
    stride, count, names = struct.unpack_from(order + "3H", content, 58 if wide else 46)
    section = struct.Struct(order + ("IIQ8xQQI" if wide else "III4xIII"))
    if not table:
        return []
    first = section.unpack_from(content, table)
    count, names = count or first[4], first[5] if names == _ELSEWHERE else names  # more than the header can say
    read = [section.unpack_from(content, table + index * stride) for index in range(count)]
    text = read[names][3] if names < len(read) else 0
    return [Section(_text(content, text + name), *rest) for name, *rest in read]


def _order(content: bytes) -> str:
    return "<" if content[5] == 1 else ">"


def _text(content: bytes, start: int) -> str:
    """Return the text at an offset, which ends at a zero byte; it may be anything in a damaged file."""
    return content[start : max(content.find(b"\0", start), start)].decode(errors="replace")
