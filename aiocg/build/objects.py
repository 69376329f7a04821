"""Members of ar archives, and symbols of ELF objects."""

import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aiocg.transport.elf import sections

_ARCHIVE, _THIN = b"!<arch>\n", b"!<thin>\n"
_HEADER = struct.Struct("16s12s6s6s8s10s2s")  # name, date, user, group, mode, size, end

_SYMBOL = struct.Struct("<IBBH16x")  # st_name, st_info, st_other, st_shndx
_SYMBOL_TABLE, _LOCAL, _WEAK, _UNDEFINED = 2, 0, 2, 0
_STATES = {_LOCAL: "local", _WEAK: "weak"}
_TYPE, _NAMELESS = 0xF, (3, 4)  # of sections and files


@dataclass(frozen=True, slots=True)
class Symbols:
    """What an object defines for others, and needs from them.

    Attributes:
        defined: names of definitions; no two objects of a program may have the same.
        weak: names of definitions that give way to others.
        undefined: names that others must define.
        local: names of definitions that no other object sees.
    """

    defined: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    undefined: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_if_there(path: Path) -> str:
    """Return the SHA-256 of a file; "" if there is none."""
    return digest_of(path) if path.is_file() else ""


def beginning(path: Path, count: int) -> bytes:
    """Return the first bytes of a file; nothing if there is none."""
    if not path.is_file():
        return b""
    with open(path, "rb") as file:
        return file.read(count)


def is_archive(path: Path) -> bool:
    """Say whether a file begins like an ar archive."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_ARCHIVE)) in (_ARCHIVE, _THIN)
    except OSError:
        return False


def archive_members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the members of an archive, in order.

    Those of a thin archive, which only names files, are read from there, and have their whole path as a name.

    Raises:
        ValueError: when it is no archive, or a part of one.
        OSError: when it, or a file that it names, cannot be read.
    """
    content = path.read_bytes()
    thin = content.startswith(_THIN)
    if not thin and not content.startswith(_ARCHIVE):
        raise ValueError(f"{path} is no ar archive")
    position, long_names = len(_ARCHIVE), b""
    while position < len(content):
        try:
            field, _, _, _, _, length, end = _HEADER.unpack_from(content, position)
            size = int(length)
        except (struct.error, ValueError):
            raise ValueError(f"the archive {path} is damaged at byte {position}") from None
        start, name = position + _HEADER.size, field.rstrip(b" ")
        special = name in (b"/", b"//", b"/SYM64/")
        stored = 0 if thin and not special else size
        if end != b"`\n" or size < 0 or start + stored > len(content):
            raise ValueError(f"the archive {path} is damaged at byte {position}")
        data = content[start : start + stored]
        position = start + stored + stored % 2
        if name == b"//":
            long_names = data
        elif special:
            continue
        elif thin:
            whole = path.parent / os.fsdecode(_name(name, long_names))
            yield str(whole), whole.read_bytes()
        elif name.startswith(b"#1/"):  # the name stands before the content
            length_of_name = int(name[3:])
            name, data = data[:length_of_name].rstrip(b"\0"), data[length_of_name:]
            if not name.startswith(b"__.SYMDEF"):
                yield os.fsdecode(name), data
        else:
            yield os.fsdecode(_name(name, long_names)), data


def _name(field: bytes, long_names: bytes) -> bytes:
    if field.startswith(b"/") and field[1:2].isdigit():  # GNU's ar may leave the slash of a short name behind it
        return long_names[int(field[1:].split()[0]) :].split(b"\n", 1)[0].removesuffix(b"/")
    return field.removesuffix(b"/")


def elf_symbols(content: bytes) -> Symbols:
    """Return the symbols of an object; none for what is no 64-bit little-endian ELF file, or a damaged one."""
    if content[:6] != b"\x7fELF\x02\x01":
        return Symbols()
    found: dict[str, set[str]] = {"defined": set(), "weak": set(), "undefined": set(), "local": set()}
    try:
        there = sections(content)
        for table in (one for one in there if one.kind == _SYMBOL_TABLE):
            names, end = there[table.link].offset, there[table.link].offset + there[table.link].size
            for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
                start, info, _, section = _SYMBOL.unpack_from(content, at)
                binding = info >> 4
                name = content[names + start : content.index(b"\0", names + start, end)].decode()
                if not name or info & _TYPE in _NAMELESS or (section == _UNDEFINED and binding == _WEAK):
                    continue
                state = "undefined" if section == _UNDEFINED else _STATES.get(binding, "defined")
                found[state].add(name)
    except (struct.error, IndexError, ValueError):
        return Symbols()
    return Symbols(**{state: frozenset(names) for state, names in found.items()})
