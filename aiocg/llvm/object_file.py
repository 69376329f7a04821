"""Reading from an ELF object how much machine code it has."""

import struct

__all__ = ["text_size"]

_EXECUTABLE = 0x4  # SHF_EXECINSTR
_FORMATS = {  # by the class of the file: where e_shoff and e_shentsize are, and where sh_flags and sh_size are
    1: (("I", 32), 46, ("I", 8), ("I", 20)),
    2: (("Q", 40), 58, ("Q", 8), ("Q", 32)),
}


def text_size(content: bytes) -> int:
    """Return the bytes of all sections of an ELF file that hold machine code: `.text`, `.text.hot`, `.init` and so on.

    Raises:
        ValueError: when it is no ELF file.
    """
    if content[:4] != b"\x7fELF" or content[4] not in _FORMATS or content[5] not in (1, 2):
        raise ValueError(f"not an ELF object: it begins with {content[:6]!r}")
    order = "<" if content[5] == 1 else ">"
    (offset_format, offset_at), entry_at, (flags_format, flags_at), (size_format, size_at) = _FORMATS[content[4]]
    (table,) = struct.unpack_from(order + offset_format, content, offset_at)
    entry, count = struct.unpack_from(order + "HH", content, entry_at)
    if table and count == 0:  # more than fit into 16 bits: the first section says how many
        (count,) = struct.unpack_from(order + size_format, content, table + size_at)
    total = 0
    for section in range(table, table + entry * count, entry or 1):
        (flags,) = struct.unpack_from(order + flags_format, content, section + flags_at)
        if flags & _EXECUTABLE:
            total += struct.unpack_from(order + size_format, content, section + size_at)[0]
    return total
