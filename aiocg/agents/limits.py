"""Per-agent limits."""

from dataclasses import dataclass

from aiocg.errors import AiocgError

__all__ = ["GRACE", "LONGEST_ERROR", "Limits", "Refused"]

GRACE = 5.0  # seconds that a call may spend in the queue
LONGEST_ERROR = 4000  # characters


@dataclass(frozen=True, slots=True)
class Limits:
    """What one agent may have.

    Attributes:
        sessions: open at once.
        actions: of one step, or of one candidate of an expand.
        candidates: of one expand.
        undo: calls of step that can be undone.
        listed: entries of one list.
        name_characters: of the name of a program, an action or an observation.
        shown_characters: of one observation.
        seconds: that the compiler may take for the actions of a step, or for a candidate; a whole call may take
            `GRACE` more, which it spends in the queue.
        reset_seconds: that a reset may take, which may have to compile the program.
    """

    sessions: int = 8
    actions: int = 100
    candidates: int = 256
    undo: int = 100
    listed: int = 200
    name_characters: int = 10_000
    shown_characters: int = 20_000
    seconds: float = 30.0
    reset_seconds: float = 300.0


class Refused(AiocgError):
    """An agent asked for more than it may have, or for what there is not."""
