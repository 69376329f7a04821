"""Per-visitor limits."""

from dataclasses import dataclass

__all__ = ["Limits", "Refusal"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one application gives to all its visitors.

    Attributes:
        sessions: open at once.
        nodes: of one session's tree.
        snapshots: states of one session that workers keep; others are replayed.
        source_bytes: of a program that somebody sends.
        shown_bytes: of an observation, the program's text among them.
        actions: of one step.
        blocks: of a function that is drawn.
        candidates: of one expand.
        seconds: that the compiler may take for one action.
        searches: that run at once.
        search_seconds: that one may take.
        idle_seconds: after which a session that nobody uses is closed.
        boxed_sources: whether C and C++ that somebody sends is compiled in a box. Without one, clang would include
            files of this machine, which is for its user alone.
    """

    sessions: int = 64
    nodes: int = 10_000
    snapshots: int = 16
    source_bytes: int = MIB
    shown_bytes: int = 8 * MIB
    actions: int = 256
    blocks: int = 400
    candidates: int = 1024
    seconds: float = 30.0
    searches: int = 4
    search_seconds: float = 120.0
    idle_seconds: float = 3600.0
    boxed_sources: bool = False


class Refusal(Exception):
    """Something that a visitor cannot have.

    Attributes:
        status: of the HTTP reply.
        message: what was wrong, what was expected, and what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
