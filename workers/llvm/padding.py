"""Padding of bitcode that LLVM's reader refuses to read, though LLVM has written it.

The reader takes an array with more elements than the bitcode has bytes for damage ("Size is not plausible", which it
shows as "Invalid record"). The writer takes as few bits for an element as it needs, so a function with thousands of
parameters of one type, or a table of thousands of references to a few functions, is refused where little else is in the
module. A block that no reader knows makes it long enough: readers skip such.
"""

import struct

MARK = b"too few bytes here; "  # is in bitcode that was padded
MOST = 16 << 20  # bytes that are padded: more is not refused for this reason
_BARE = b"BC\xc0\xde"
_MODULE = 8  # number of the block of a module, as in LLVMBitCodes.h
_UNKNOWN = 127  # of a block that LLVM has not
_BITS = 8  # of a byte: an element takes one bit at least, so this many times as many bytes are enough


def padded(content: bytes) -> bytes:
    """Return bare bitcode with a block of zeros at the end of its module; other content is returned as it is."""
    position = len(_BARE)
    while content.startswith(_BARE) and position + 8 <= len(content) <= MOST:
        word, words = struct.unpack_from("<II", content, position)
        end = position + 8 + 4 * words
        if word >> 2 & 0xFF == _MODULE and content[end - 4 : end] == bytes(4):  # its end, aligned to a word
            width = word >> 10 & 0xF  # bits of an abbreviation's number in the module; 1 begins a block
            size = _BITS * len(content) // 4
            filling = MARK.ljust(4 * size, b"\0")
            block = struct.pack("<II", 1 | _UNKNOWN << width | 2 << width + 8, size) + filling
            header = struct.pack("<II", word, words + len(block) // 4)
            return content[:position] + header + content[position + 8 : end - 4] + block + content[end - 4 :]
        position = end
    return content
