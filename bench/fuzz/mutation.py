"""Damaging inputs at random, in the ways in which files and messages are damaged, and in those of attackers."""

import random
from collections.abc import Sequence

__all__ = ["damaged"]

_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)


def damaged(rng: random.Random, data: bytes, others: Sequence[bytes] = (b"",)) -> bytes:
    """Return an input with up to four damages.

    Args:
        rng: decides.
        data: what it was.
        others: where pieces of are put in.
    """
    result = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(result) + 1)
        size = min(rng.choice((1, 1, 2, 4, 8, 16, 64, 256)), len(result) - at)
        match rng.randrange(8):
            case 0 if result:  # a bit
                result[at % len(result)] ^= 1 << rng.randrange(8)
            case 1:  # a byte, or several
                result[at : at + size] = rng.randbytes(size)
            case 2:  # the end
                del result[at:]
            case 3:  # a piece
                del result[at : at + size]
            case 4:  # twice
                result[at:at] = result[at : at + size] * rng.choice((1, 2, 20))
            case 5:  # another place
                piece = result[at : at + size]
                to = rng.randrange(len(result) + 1)
                result[to : to + len(piece)] = piece
            case 6:  # something else
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                result[at : at + size] = other[start : start + rng.choice((4, 32, 256))]
            case _:  # a number that programs forget
                count = rng.choice((1, 2, 4, 8))
                number = rng.choice(_NUMBERS) & (1 << 8 * count) - 1
                result[at : at + count] = number.to_bytes(count, rng.choice(("little", "big")))
    return bytes(result)
