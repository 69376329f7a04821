"""What a search knows of one list of actions that it evaluates, and how that is kept in its state."""

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from aiocg.search.tuner import Outcome

__all__ = ["Evaluation", "checksum_of", "effects_of"]


@dataclass(slots=True, eq=False)
class Evaluation:
    """The evaluation of a list of actions.

    Attributes:
        number: its place in the sequence of evaluations; -1 for baselines, looks and lists known to fail.
        form: the list.
        outcome: None until it is known.
        look: whether the state is only looked at.
        judged: whether it was offered to the record.
    """

    number: int
    form: tuple[str, ...]
    outcome: Outcome | None = None
    look: bool = False
    judged: bool = False


def effects_of(form: tuple[str, ...], outcome: Outcome) -> str:
    """Return a digit for each action of a list: 1 if it has an effect, else 0."""
    left = deque(outcome.actions)
    return "".join("1" if left and left[0] == text and left.popleft() else "0" for text in form)


def checksum_of(done: Sequence[Evaluation]) -> int:
    """Return a checksum of the lists of evaluations, in order."""
    found = 0
    for one in done:
        found = zlib.crc32("\0".join((*one.form, "")).encode("utf-8", "surrogatepass"), found)
    return found
