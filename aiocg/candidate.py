"""What one candidate of an `expand` would lead to."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """The result of trying a list of actions without keeping it.

    Attributes:
        actions: indices of its actions.
        observation, reward: as a step would return them; None after an error.
        state: 64-bit hash of the state it leads to; 0 after an error.
        had_no_effect: none of the actions changed the state.
        error: why there is no result, None if there is one.
    """

    actions: tuple[int, ...]
    observation: Any = None
    reward: Any = None
    state: int = 0
    had_no_effect: bool = False
    error: Exception | None = None
