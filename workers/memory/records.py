"""Remembered transitions, the next state and its costs, and which answers are trusted.

A key is a hash of the context (the compiler, and all else that decides outcomes), the state before, and the action. A
record begins with a checksum over its key and its content, so that nothing else is taken for one.
"""

import hashlib
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
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


CHECKED = 100  # one of so many answers is computed again
PATIENT = 8  # late answers in a row after which it is not asked for a while
FIRST_REST, LONGEST_REST = 1.0, 64.0  # seconds

_NAME = re.compile(r"[\w-]+")


class Trust:
    """Says of which actions the outcomes may be taken from a memory, and which answers are to be checked.

    Attributes:
        mistrusted: actions whose outcomes were found to be wrong, or to differ between two runs.

    Args:
        salt: random bytes, so that others check other answers.
        unsteady: names of passes whose outcomes are known to differ.
    """

    def __init__(self, salt: bytes, unsteady: Iterable[str] = ()) -> None:
        self.mistrusted: set[str] = set()
        self._salt = int.from_bytes(salt, "little")
        self._unsteady = frozenset(unsteady)
        self._known: dict[str, bool] = {}

    def trusts(self, action: str) -> bool:
        """Return whether outcomes of an action are remembered."""
        known = self._known.get(action)
        if known is None:
            if len(self._known) >= 10_000:
                self._known.clear()
            known = action not in self.mistrusted and self._unsteady.isdisjoint(_NAME.findall(action))
            self._known[action] = known
        return known

    def mistrust(self, action: str) -> bool:
        """Take no outcome of an action from the memory any more; return whether this is new."""
        new = action not in self.mistrusted
        self.mistrusted.add(action)
        self._known[action] = False
        return new

    def is_checked(self, step: Step) -> bool:
        """Return whether the answer for a step is computed again: one in `CHECKED`."""
        fingerprint, action = step
        return (fingerprint ^ zlib.crc32(action.encode()) ^ self._salt) % CHECKED == 0


class Rests:
    """Decides when a memory that answers late is left alone; each rest is twice as long as the last, up to a limit."""

    def __init__(self) -> None:
        self._late = 0
        self._length = FIRST_REST
        self._until = 0.0

    def rests(self, now: float) -> bool:
        """Return whether the memory is left alone now."""
        return now < self._until

    def answered(self) -> None:
        """Handle an answer in time."""
        self._late, self._length = 0, FIRST_REST

    def late(self, now: float) -> None:
        """Handle that there was no answer in time."""
        self._late += 1
        if self._late >= PATIENT:
            self._until, self._length = now + self._length, min(2 * self._length, LONGEST_REST)
