"""Which answers of a memory are trusted, and when it is not asked."""

import re
import zlib
from collections.abc import Iterable

from aiocg.workers.memory.records import Step

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
