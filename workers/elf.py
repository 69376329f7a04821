"""The sizes of ELF objects and programs.

The size is the one that CompilerGym measures: the `text` column of `llvm-size`, which is code and read-only data.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_OTHER_FORMATS = {b"\xcf\xfa\xed\xfe": "Mach-O", b"\xce\xfa\xed\xfe": "Mach-O", b"\0asm": "WebAssembly"}

# Section types and flags of the ELF specification.
_NULL, _SYMBOLS, _RELOCATIONS, _UNWIND = 0, 2, 4, 0x70000001  # the last one of x86-64
_FUNCTION = 2  # type of a symbol
_WRITABLE, _ALLOCATED, _EXECUTABLE, _MERGEABLE, _STRINGS = 1, 2, 4, 16, 32

_SHORTEST = 16  # bytes of an entry of an unwind table, after the length


class NotElf(ValueError):
    """A file is not an ELF object or program, or it is truncated."""


def text_size(binary: bytes) -> int:
    """Return the `text` size of an ELF object or executable in bytes, as `llvm-size` defines it.

    That is the sum of all loaded sections that are executable or read-only: code, constants, string literals, unwind
    tables and, in a linked program, the dynamic loader's tables.

    Raises:
        NotElf: if the content is not ELF.
    """
    _check_format(binary)
    return sum(size for kind, flags, size in sections(binary) if _is_text(kind, flags))


def _check_format(binary: bytes) -> None:
    if not binary.startswith(b"\x7fELF"):
        kind = next((name for magic, name in _OTHER_FORMATS.items() if binary.startswith(magic)), "this format")
        raise NotElf(f"only ELF objects and programs have known sizes, not {kind} ones")


def _is_text(kind: int, flags: int) -> bool:
    if kind in (_NULL, _SYMBOLS):
        return False
    return bool(flags & _ALLOCATED) and (bool(flags & _EXECUTABLE) or not flags & _WRITABLE)


def function_sizes(binary: bytes) -> dict[bytes, int]:
    """Return the bytes that each function of an ELF object has a part in, by the name of its symbol.

    To its code come, where it has a section of its own in a 64-bit object, its entry in the unwind table, its jump
    tables, and the constants that its code refers to.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    _check_format(binary)
    headers = _headers(binary)
    wide, order = binary[4] == 2, "<" if binary[5] == 1 else ">"
    symbol = struct.Struct(order + ("IBxH8xQ" if wide else "I4xIBxH"))
    sizes, places = {}, {}
    symbols: list[int] = []  # the section of each
    for header in headers:
        if header.kind != _SYMBOLS:
            continue
        if header.link >= len(headers) or header.offset + header.size > len(binary):
            raise NotElf("the file is too short for its symbol table")
        names = headers[header.link]
        table = memoryview(binary)[header.offset : header.offset + header.size // symbol.size * symbol.size]
        for fields in symbol.iter_unpack(table):
            name, info, section, size = fields if wide else (fields[0], fields[2], fields[3], fields[1])
            symbols.append(section)
            if info & 15 == _FUNCTION and section:
                start = names.offset + name
                places[section] = function = binary[start : binary.find(b"\0", start)]
                sizes[function] = size
    if wide:
        for section, size in _belongings(binary, order, headers, symbols):
            if section in places:
                sizes[places[section]] += size
    return sizes


def _belongings(
    binary: bytes, order: str, headers: Sequence["_Header"], symbols: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield sections of code, and bytes of other sections that belong to each, as relocations tell."""
    relocation, constants = struct.Struct(order + "QIIq"), set()
    for header in headers:
        if header.kind != _RELOCATIONS or header.info >= len(headers):
            continue
        source = headers[header.info]
        table = memoryview(binary)[header.offset : header.offset + header.size // relocation.size * relocation.size]
        for place, *about, addend in relocation.iter_unpack(table):
            index = symbols[about[order == "<"]]
            if index >= len(headers):  # one of the reserved numbers, such as that of absolute values
                continue
            target = headers[index]
            if source.flags & _EXECUTABLE:
                if target.flags & (_MERGEABLE | _STRINGS) == _MERGEABLE:
                    constants.add((header.info, index, addend, target.unit))
            elif target.flags & _EXECUTABLE and _is_text(source.kind, source.flags):
                yield index, _entry_size(binary, order, source, place)
    for section, _, _, size in constants:
        yield section, size


def _entry_size(binary: bytes, order: str, section: "_Header", place: int) -> int:
    """Return the size of the entry of an unwind table, or else of a jump table, that a relocation is for."""
    if section.kind != _UNWIND:
        return 4
    start = section.offset + place - 4  # after the length
    (length,) = struct.unpack_from(order + "I", binary, start - 4)
    used = len(binary[start : start + length].rstrip(b"\0"))  # the last entry is filled up to another multiple
    return 4 + max(_SHORTEST, -(-used // 4) * 4)


def sections(binary: bytes) -> list[tuple[int, int, int]]:
    """Return type, flags and size of every section of an ELF object or executable.

    Raises:
        NotElf: if the file is truncated, or its header claims more sections than it has room for.
    """
    return [(header.kind, header.flags, header.size) for header in _headers(binary)]


class _Header(NamedTuple):
    """The fields of a section header that are used here."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    unit: int


def _headers(binary: bytes) -> list[_Header]:
    try:
        wide, order = binary[4] == 2, "<" if binary[5] == 1 else ">"
        (table,) = struct.unpack_from(order + ("Q" if wide else "I"), binary, 40 if wide else 32)
        stride, count = struct.unpack_from(order + "2H", binary, 58 if wide else 46)
        if not table:
            return []
        section = struct.Struct(order + ("4xIQ8xQQII8xQ" if wide else "4xII4xIIII4xI"))
        first = _Header(*section.unpack_from(binary, table))
        if not count:  # too many for this field; then the null section has the number
            count = first.size
        if stride < section.size or table + stride * count > len(binary):
            raise NotElf(f"the file is too short for its table of {count} sections of {stride} bytes each")
        return [_Header(*section.unpack_from(binary, table + index * stride)) for index in range(count)]
    except (struct.error, IndexError, OverflowError) as error:
        raise NotElf(f"the file is not a complete ELF object or program: {error}") from None
