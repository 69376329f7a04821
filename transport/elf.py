"""ELF objects and programs: their sections, their symbols and their sizes.

There are two sizes. The *image size* is what an object brings into the programs that it is linked into: every loaded
section that has bytes in the file, and the relocations that the loader will process. The *text size* is the one that
CompilerGym measures, the `text` column of `llvm-size`: code and read-only data. It can be lowered without any benefit,
by moving constants into writable data.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

_OTHER_FORMATS = {b"\xcf\xfa\xed\xfe": "Mach-O", b"\xce\xfa\xed\xfe": "Mach-O", b"\0asm": "WebAssembly"}

# Types and flags of sections, types of symbols, and other numbers of the ELF specification.
_NULL, _SYMBOLS, _RELOCATIONS, _NO_BITS, _BARE_RELOCATIONS, _UNWIND = 0, 2, 4, 8, 9, 0x70000001  # the last: of x86-64
_WRITABLE, _ALLOCATED, _EXECUTABLE, _MERGEABLE, _STRINGS, _GROUP = 1, 2, 4, 16, 32, 512
_DYNAMIC, _DYNAMIC_SYMBOLS, _VERSIONS, _VERSIONED = 6, 11, 0x6FFFFFFD, 0x6FFFFFFF  # types of sections
_BASE, _HIDDEN = 1, 0x8000  # version of symbols without one, and flag of those that only a version's name finds
_OBJECT, _FUNCTION = 1, 2
_GLOBAL, _UNIQUE = 1, 10  # bindings of symbols; the second is GNU's
_SYSTEM, _GNU = 7, 3  # where a file names the operating system that it is for, and GNU's number
_LOADED_NAMES = {
    1: "library",
    14: "name",
    15: "run path",
    29: "run path, after the environment's",
    0x7FFFFFFD: "auxiliary filter",
    0x7FFFFFFF: "filter",
    0x6FFFFEFC: "auditor",
}
_LOADED_FLAGS = {30: ("flags", 0b1011), 0x6FFFFFFB: ("other flags", 0x1CBB)}  # those that change what the loader does
_ELSEWHERE, _COMMON, _ABSOLUTE = 0xFFFF, 0xFFF2, 0xFFF1
"""Numbers of sections: the first section has the number; there is none yet; there is none."""
_RELOCATABLE = 1  # type of a file
_STACK, _EXECUTABLE_SEGMENT = 0x6474E551, 1  # type and flag of a segment

_SHORTEST = 16  # bytes of an entry of an unwind table, after the length

# By machine: the relocations that put an address into a word of data, which a loader has to repeat.
_WORDS: Mapping[int, Set[int]] = {
    2: {3, 23},  # SPARC
    3: {1},  # i386
    8: {2, 18},  # MIPS
    20: {1},  # PowerPC
    21: {38, 43},  # PowerPC64
    22: {4, 22},  # S/390
    40: {2, 38},  # ARM
    43: {32, 54},  # SPARC V9
    62: {1},  # x86-64
    183: {257},  # AArch64
    243: {1, 2},  # RISC-V
    258: {1, 2},  # LoongArch
}
_COPIES = {3: 5, 40: 20, 62: 5, 183: 1024, 243: 4}
"""By machine: the relocation by which a program gets a copy of a library's variable."""
_WITHOUT_ADDEND = (3, 8, 40)  # machines whose dynamic relocations are two words, not three


class NotElf(ValueError):
    """A file is not an ELF object or program, or it is truncated."""


class Section(NamedTuple):
    """A section of an ELF file.

    Attributes:
        name: such as ".text".
        kind, flags, link, info, unit: as ELF has them; `unit` is the size of an entry.
        offset: of its bytes in the file.
        size: bytes.
        alignment: of its address, in bytes.
    """

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    unit: int

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

    @property
    def is_text(self) -> bool:
        """Whether it counts as `text` in `llvm-size`: code and read-only data."""
        return self.is_loaded and (self.is_code or not self.is_writable)


class _Symbol(NamedTuple):
    """A symbol of an ELF object: where its name begins in the file, and its fields, as ELF has them."""

    name: int
    kind: int
    section: int
    value: int
    size: int
    binding: int


class ImageSize(NamedTuple):
    """What an object or a program takes in memory.

    Attributes:
        stored: bytes of code, constants, initialised data, unwind tables, relocations for the loader, and the padding
            between them.
        zeroed: bytes of zero-initialised data, which the file does not have.
    """

    stored: int
    zeroed: int


def image_size(content: bytes) -> ImageSize:
    """Return what an ELF object or program brings into memory.

    - Every loaded section counts, whatever its name, and so does one that is not loaded but that a loaded one refers
      to. Sections of the same type and flags are laid out one after another, each at its alignment.
    - In an object, each address in a loaded section counts as one dynamic relocation, as in a position-independent
      image: 24 bytes on 64-bit machines. A linked program has its relocations in a section.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    found = sections(content)
    stored = zeroed = 0
    ends: dict[tuple[int, int, int], int] = {}
    for section in found:
        if not section.is_loaded:
            continue
        if not section.is_stored:
            zeroed += section.size
            continue
        place = section.kind, section.flags & ~_GROUP, section.unit
        begin = -(-ends.get(place, 0) // max(section.alignment, 1)) * max(section.alignment, 1)
        stored += begin + section.size - ends.get(place, 0)
        ends[place] = begin + section.size
    if _half(content, 16) == _RELOCATABLE:
        symbols = _symbols(content, found)
        zeroed += sum(one.size for one in symbols if one.section == _COMMON)
        stored += _needed_by_relocations(content, found, symbols)
    return ImageSize(stored, zeroed)


def text_size(content: bytes) -> int:
    """Return the `text` size of an ELF object or program in bytes, as `llvm-size` defines it.

    That is the sum of all loaded sections that are executable or read-only: code, constants, string literals, unwind
    tables and, in a linked program, the dynamic loader's tables. Initialised data does not count, so a constant table
    that is made writable leaves it.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    return sum(one.size for one in sections(content) if one.is_text)


def code_size(content: bytes) -> int:
    """Return the bytes of machine code in an ELF file: `.text` and other executable sections, without any data.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    return sum(one.size for one in sections(content) if one.is_code)


def has_executable_stack(content: bytes) -> bool:
    """Return whether an ELF program asks for a stack whose content may be executed, as nested functions of GCC need.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    sections(content)  # which refuses what is none
    wide, order = content[4] == 2, _order(content)
    try:
        (table,) = struct.unpack_from(order + ("Q" if wide else "I"), content, 32 if wide else 28)
        stride, count = struct.unpack_from(order + "2H", content, 54 if wide else 42)
        segments = [struct.unpack_from(order + "7I", content, table + index * stride) for index in range(count)]
    except struct.error as error:
        raise NotElf(f"the file is not a complete ELF program: {error}") from None
    return any(one[0] == _STACK and one[1 if wide else 6] & _EXECUTABLE_SEGMENT for one in segments)


def sections(content: bytes) -> list[Section]:
    """Return the sections of an ELF file.

    Raises:
        NotElf: if the content is not ELF, or is truncated, or its header claims more sections than it has room for.
    """
    if not content.startswith(b"\x7fELF"):
        kind = next((f", but {name}" for magic, name in _OTHER_FORMATS.items() if content.startswith(magic)), "")
        raise NotElf(f"not an ELF file{kind}: it begins with {content[:4]!r}, and only ELF objects have known sizes")
    try:
        return _sections(content)
    except (struct.error, IndexError, OverflowError) as error:
        raise NotElf(f"the file is not a complete ELF object or program: {error}") from None


def symbol_sizes(content: bytes) -> dict[str, int]:
    """Return the bytes of each function and variable that an ELF file has and names; of equal names the sum.

    Of those at one place the first by name has the bytes, and the others none: they are not there.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    merged = merged_symbols(content)
    sizes: dict[str, int] = {}
    for name, _, size in _named(content):
        if name not in merged:
            sizes[name] = sizes.get(name, 0) + size
    return sizes


def symbol_counts(content: bytes) -> Mapping[str, int]:
    """Return how many functions and variables each section of an ELF object has, by its name.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    found = sections(content)
    places = {place for _, place, _ in _named(content) if place[0] < len(found)}
    return Counter(found[section].name for section, _ in places)


def merged_symbols(content: bytes) -> dict[str, str]:
    """Return the symbols that stand where another one of the same size stands, and the first by name that does.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    first: dict[tuple[tuple[int, int], int], str] = {}
    found = {}
    for name, place, size in sorted(_named(content)):
        if first.setdefault((place, size), name) != name:
            found[name] = first[place, size]
    return found


def loader_requests(content: bytes) -> list[tuple[str, str]]:
    """Return what a linked ELF file asks of the loader, in order: kinds, such as "library", and values.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    found, asked = sections(content), []
    entry = struct.Struct(_order(content) + ("QQ" if content[4] == 2 else "II"))
    for table in (one for one in found if one.kind == _DYNAMIC and one.link < len(found)):
        for tag, value in entry.iter_unpack(_part(content, table, entry.size)):
            if tag in _LOADED_NAMES:
                asked.append((_LOADED_NAMES[tag], _text(content, found[table.link].offset + value)))
            elif tag in _LOADED_FLAGS and value & _LOADED_FLAGS[tag][1]:
                asked.append((_LOADED_FLAGS[tag][0], hex(value & _LOADED_FLAGS[tag][1])))
    return asked


def exported_definitions(content: bytes) -> set[str]:
    """Return the symbols that a linked ELF file defines for others, without those that others may define as well.

    Those with versions are named like `f@OLD` and `f@@NEW`. The symbols that some linkers define for versions do not
    count.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    found = sections(content)
    symbols, versions = _symbols(content, found, _DYNAMIC_SYMBOLS), _defined_versions(content, found)
    tables = [_part(content, one, 2).cast("H") for one in found if one.kind == _VERSIONED]
    numbers = [number for table in tables for number in table] or [_BASE] * len(symbols)
    names = set()
    for one, number in zip(symbols, numbers, strict=False):
        name = _text(content, one.name)
        if not one.section or one.binding != _GLOBAL or (one.section == _ABSOLUTE and name in versions.values()):
            continue
        version = versions.get(number & ~_HIDDEN, "")
        names.add(f"{name}{'@' if number & _HIDDEN else '@@'}{version}" if version else name)
    return names


def loader_relocations(content: bytes) -> set[tuple[str, bool]]:
    """Return the symbols for which a linked ELF file has relocations, and whether it copies a library's variable so.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    found = sections(content)
    symbols, copying = _symbols(content, found, _DYNAMIC_SYMBOLS), _COPIES.get(_half(content, 18))
    tables = [one for one in found if one.kind in (_RELOCATIONS, _BARE_RELOCATIONS) and one.is_loaded]
    return {
        (_text(content, symbols[symbol].name), type == copying)
        for table in tables
        for _, symbol, type, _ in _relocations(content, table)
        if symbol < len(symbols)
    }


def unique_definitions(content: bytes) -> set[str]:
    """Return the symbols of a linked ELF file that a loader has once in a process (STB_GNU_UNIQUE).

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    there = _symbols(content, sections(content), _DYNAMIC_SYMBOLS)
    return {_text(content, one.name) for one in there if one.section and one.binding == _UNIQUE}


def keep_unique(content: bytes, other: bytes) -> bytes:
    """Return a linked ELF file in which a loader has those symbols once in a process (STB_GNU_UNIQUE) that another has.

    LLVM has no such binding, so it makes them weak. Libraries loaded with RTLD_LOCAL would no longer share them.

    Args:
        content: what is changed.
        other: where the symbols are unique.

    Raises:
        NotElf: if one of them is not ELF, or cut short.
    """
    names = unique_definitions(other)
    found, changed = sections(content), bytearray(content)
    start, unit = next(((one.offset, one.unit) for one in found if one.kind == _DYNAMIC_SYMBOLS), (0, 0))
    for number, one in enumerate(_symbols(content, found, _DYNAMIC_SYMBOLS) if names else ()):
        if one.section and _text(content, one.name) in names:
            changed[start + number * unit + (4 if content[4] == 2 else 12)] = _UNIQUE << 4 | one.kind
            changed[_SYSTEM] = _GNU
    return bytes(changed)


def used_definitions(content: bytes) -> set[str]:
    """Return the symbols that an ELF object defines and that its own relocations refer to.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    found = sections(content)
    symbols = _symbols(content, found)
    tables = [table for table in found if table.kind in (_RELOCATIONS, _BARE_RELOCATIONS)]
    used = {symbol for table in tables for _, symbol, _, _ in _relocations(content, table)}
    defined = (symbols[number] for number in used if number < len(symbols))
    return {_text(content, one.name) for one in defined if 0 < one.section < len(found)}


def function_sizes(content: bytes) -> dict[bytes, int]:
    """Return the bytes that each function of an ELF object has a part in, by the name of its symbol.

    To its code come, where it has a section of its own in a 64-bit object, its entry in the unwind table and its table
    of exception handlers, its jump tables, and the constants that its code refers to.

    Raises:
        NotElf: if the content is not ELF, or cut short.
    """
    found = sections(content)
    sizes, places = {}, {}
    symbols = _symbols(content, found)
    for symbol in symbols:
        if symbol.kind == _FUNCTION and symbol.section:
            places[symbol.section] = function = content[symbol.name : content.find(b"\0", symbol.name)]
            sizes[function] = symbol.size
    if content[4] == 2:
        for section, size in _belongings(content, found, symbols):
            if section in places:
                sizes[places[section]] += size
    return sizes


def _defined_versions(content: bytes, found: Sequence[Section]) -> dict[int, str]:
    """Return the versions of symbols that a linked file defines, by their numbers, without that of all others."""
    versions, order = {}, _order(content)
    for table in (one for one in found if one.kind == _VERSIONS and one.link < len(found)):
        place, step = table.offset, 1
        while step:
            number, name, step = struct.unpack_from(order + "4xH6xII", content, place)
            (start,) = struct.unpack_from(order + "I", content, place + name)
            versions[number] = _text(content, found[table.link].offset + start)
            place += step
    return {number: name for number, name in versions.items() if number != _BASE}


def _needed_by_relocations(content: bytes, found: Sequence[Section], symbols: Sequence[_Symbol]) -> int:
    """Return the bytes of dynamic relocations, and of sections that are not loaded but referred to."""
    wide, machine = content[4] == 2, _half(content, 18)
    words, entry = _WORDS.get(machine, frozenset()), 3 - (machine in _WITHOUT_ADDEND)
    outside = {
        number: symbol.section
        for number, symbol in enumerate(symbols)
        if 0 < symbol.section < len(found) and not found[symbol.section].is_loaded
    }
    size, left_out = 0, set()
    for table in found:
        if table.kind in (_RELOCATIONS, _BARE_RELOCATIONS) and found[table.info].is_loaded:
            for _, symbol, kind, _ in _relocations(content, table):
                size += (kind in words) * entry * (8 if wide else 4)
                if symbol in outside:
                    left_out.add(outside[symbol])
    return size + sum(found[number].size for number in left_out)


def _relocations(content: bytes, table: Section) -> Iterator[tuple[int, int, int, int]]:
    """Yield place, symbol, type and addend (0 where the place has it) of each entry of a table of relocations."""
    wide, order = content[4] == 2, _order(content)
    bare = table.kind == _BARE_RELOCATIONS
    entry = struct.Struct(order + ("QQ" if wide else "II") + ("" if bare else "q" if wide else "i"))
    for place, about, *addend in entry.iter_unpack(_part(content, table, entry.size)):
        symbol, kind = (about >> 32, about & 0xFFFFFFFF) if wide else (about >> 8, about & 0xFF)
        yield place, symbol, kind, addend[0] if addend else 0


def _belongings(content: bytes, found: Sequence[Section], symbols: Sequence[_Symbol]) -> Iterator[tuple[int, int]]:
    """Yield sections of code, and bytes of other sections that belong to each, as relocations tell."""
    constants, handlers = set(), []
    for table in found:
        if table.kind != _RELOCATIONS or table.info >= len(found):
            continue
        source, function = found[table.info], 0
        for place, symbol, _, addend in _relocations(content, table):
            index = symbols[symbol].section
            if index >= len(found):  # one of the reserved numbers, such as that of absolute values
                continue
            target = found[index]
            if source.is_code:
                if target.flags & (_MERGEABLE | _STRINGS) == _MERGEABLE:
                    constants.add((table.info, index, addend, target.unit))
            elif target.flags & _EXECUTABLE and source.is_text:
                function = index
                yield index, _entry_size(content, source, place)
            elif source.kind == _UNWIND and target.is_text and function:
                handlers.append((index, symbols[symbol].value + addend, function))
    for section, _, _, size in constants:
        yield section, size
    for (index, start, function), (following, end, _) in pairwise([*sorted(handlers), (0, 0, 0)]):
        yield function, (end if following == index else found[index].size) - start


def _entry_size(content: bytes, section: Section, place: int) -> int:
    """Return the size of the entry of an unwind table, or else of a jump table, that a relocation is for."""
    if section.kind != _UNWIND:
        return 4
    start = section.offset + place - 4  # after the length
    (length,) = struct.unpack_from(_order(content) + "I", content, start - 4)
    used = len(content[start : start + length].rstrip(b"\0"))  # the last entry is filled up to another multiple
    return 4 + max(_SHORTEST, -(-used // 4) * 4)


def _named(content: bytes) -> list[tuple[str, tuple[int, int], int]]:
    """Return the name, the section and address, and the size of each function and variable."""
    return [
        (_text(content, one.name), (one.section, one.value), one.size)
        for one in _symbols(content, sections(content))
        if one.size and one.section and one.kind in (_OBJECT, _FUNCTION)
    ]


def _symbols(content: bytes, found: Sequence[Section], of: int = _SYMBOLS) -> list[_Symbol]:
    wide = content[4] == 2
    symbol = struct.Struct(_order(content) + ("IBxHQQ" if wide else "IIIBxH"))
    read = []
    for table in (one for one in found if one.kind == of):
        if table.link >= len(found) or table.offset + table.size > len(content):
            raise NotElf("the file is too short for its symbol table")
        names = found[table.link].offset
        for fields in symbol.iter_unpack(_part(content, table, symbol.size)):
            name, info, section, value, size = fields if wide else (fields[i] for i in (0, 3, 4, 1, 2))
            read.append(_Symbol(names + name, info & 15, section, value, size, info >> 4))
    return read


def _sections(content: bytes) -> list[Section]:
    wide, order = content[4] == 2, _order(content)
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), content, 40 if wide else 32)
    stride, count, names = struct.unpack_from(order + "3H", content, 58 if wide else 46)
    if not table:
        return []
    section = struct.Struct(order + ("IIQ8xQQIIQQ" if wide else "III4xIIIIII"))
    first = section.unpack_from(content, table)
    count, names = count or first[4], first[5] if names == _ELSEWHERE else names  # more than the header can say
    if stride < section.size or table + stride * count > len(content):
        raise NotElf(f"the file is too short for its table of {count} sections of {stride} bytes each")
    read = [section.unpack_from(content, table + index * stride) for index in range(count)]
    text = read[names][3] if names < len(read) else 0
    return [Section(_text(content, text + name), *rest) for name, *rest in read]


def _part(content: bytes, section: Section, unit: int) -> memoryview:
    """Return the whole entries of a section, each of `unit` bytes."""
    if section.offset + section.size > len(content):
        raise NotElf(f"the file is too short for its section {section.name}")
    return memoryview(content)[section.offset : section.offset + section.size // unit * unit]


def _half(content: bytes, offset: int) -> int:
    """Return a field of two bytes of the header."""
    return int.from_bytes(content[offset : offset + 2], "little" if content[5] == 1 else "big")


def _order(content: bytes) -> str:
    return "<" if content[5] == 1 else ">"


def _text(content: bytes, start: int) -> str:
    """Return the text at an offset, which ends at a zero byte; it may be anything in a damaged file."""
    return content[start : max(content.find(b"\0", start), start)].decode(errors="replace")
