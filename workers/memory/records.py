"""Remembered transitions: the next state and its costs.

A key is a hash of the context (the compiler, and all else that decides outcomes), the state before, and the action. A
record begins with a checksum over its key and its content, so that nothing else is taken for one.
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

FORMAT = 2  # increase when keys or records change
COUNTS = ("inst_count", "autophase")  # facts that are little-endian int64
# Beginnings of the names of sizes; others, such as those of programs, depend on the machine.
TEXT_SIZE, IMAGE_SIZE, BSS_SIZE = SIZES = ("object_text_size", "object_image_size", "object_bss_size")

Step = tuple[int, str]
"""The fingerprint of a state, and an action."""

_Content = tuple[bytes, int, dict[str, int | list[int]]]

_decoder = msgspec.msgpack.Decoder(_Content)
_encoder = msgspec.msgpack.Encoder()


class Record(NamedTuple):
    """The outcome of an action.

    Attributes:
        after: fingerprint of the state that it leads to; that of the state before if it has no effect.
        instructions: number of instructions there.
        facts: what else is known of that state, by name.
    """

    after: int
    instructions: int
    facts: Mapping[str, int | bytes]

    def agrees(self, other: "Record") -> bool:
        """Return whether two records of one step do not contradict each other."""
        common = self.facts.keys() & other.facts.keys()
        return self[:2] == other[:2] and all(self.facts[name] == other.facts[name] for name in common)


def facts_of(memo: Mapping[str, object]) -> dict[str, int | bytes]:
    """Return the facts of a state that are remembered: those that are the same on all machines."""
    return {
        name: value
        for name, value in memo.items()
        if (name in COUNTS or name.startswith(SIZES)) and isinstance(value, (int, bytes))
    }


def key_of(context: bytes, step: Step) -> bytes:
    """Return the key of a step."""
    fingerprint, action = step
    return hashlib.blake2b(context + fingerprint.to_bytes(16, "little") + action.encode(), digest_size=20).digest()


def encode(key: bytes, record: Record) -> bytes:
    """Write a record."""
    facts = {name: _numbers(value) if isinstance(value, bytes) else value for name, value in record.facts.items()}
    content = _encoder.encode((record.after.to_bytes(16, "little"), record.instructions, facts))
    return _checksum(key, content) + content


def decode(key: bytes, written: bytes) -> Record | None:
    """Read a record; return None if it is damaged, or that of another key."""
    checksum, content = written[:8], written[8:]
    if checksum != _checksum(key, content):
        return None
    try:
        after, instructions, facts = _decoder.decode(content)
        return Record(
            int.from_bytes(after, "little"),
            instructions,
            {name: _packed(value) if isinstance(value, list) else value for name, value in facts.items()},
        )
    except (msgspec.DecodeError, struct.error):
        return None


def _checksum(key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8, key=key).digest()


def _numbers(packed: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(packed) // 8}q", packed))


def _packed(numbers: list[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)
