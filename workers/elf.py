"""The sizes of ELF objects and programs.

The size is the one that CompilerGym measured: the `text` column of `llvm-size`, which is code together with
read-only data, as neither changes while the program runs.
"""

import struct

__all__ = ["NotElf", "sections", "text_size"]

_OTHER_FORMATS = {b"\xcf\xfa\xed\xfe": "Mach-O", b"\xce\xfa\xed\xfe": "Mach-O", b"\0asm": "WebAssembly"}

# Section types and flags of the ELF specification.
_NULL, _SYMBOLS = 0, 2
_WRITABLE, _ALLOCATED, _EXECUTABLE = 1, 2, 4


class NotElf(ValueError):
    """A file is no ELF object or program, or not a whole one."""


def text_size(binary: bytes) -> int:
    """Return the `text` size of an ELF object or executable in bytes, as `llvm-size` defines it.

    That is the sum of all sections which are loaded into memory and are executable or cannot be written: code,
    constants, string literals, unwind tables and, in a linked program, what the dynamic loader reads.

    Raises:
        NotElf: when the content is not ELF.
    """
    if not binary.startswith(b"\x7fELF"):
        kind = next((name for magic, name in _OTHER_FORMATS.items() if binary.startswith(magic)), "this format")
        raise NotElf(f"sizes are known of ELF objects and programs only, not of {kind} ones")
    return sum(size for kind, flags, size in sections(binary) if _is_text(kind, flags))


def _is_text(kind: int, flags: int) -> bool:
    if kind in (_NULL, _SYMBOLS):
        return False
    return bool(flags & _ALLOCATED) and (bool(flags & _EXECUTABLE) or not flags & _WRITABLE)


def sections(binary: bytes) -> list[tuple[int, int, int]]:
    """Return type, flags and size of every section of an ELF object or executable.

    Raises:
        NotElf: when it is cut short, or says that it has more sections than there is room for.
    """
    try:
        wide, order = binary[4] == 2, "<" if binary[5] == 1 else ">"
        (table,) = struct.unpack_from(order + ("Q" if wide else "I"), binary, 40 if wide else 32)
        stride, count = struct.unpack_from(order + "2H", binary, 58 if wide else 46)
        if not table:
            return []
        section = struct.Struct(order + ("4xIQ16xQ" if wide else "4xII8xI"))
        first = section.unpack_from(binary, table)
        if not count:  # there are too many for the header, and the first section, which is none, has the number
            count = first[2]
        if stride < section.size or table + stride * count > len(binary):
            raise NotElf(f"a table of {count} sections of {stride} bytes each is not in the file")
        return [section.unpack_from(binary, table + index * stride) for index in range(count)]
    except (struct.error, IndexError, OverflowError) as error:
        raise NotElf(f"the file is no whole ELF object or program: {error}") from None
