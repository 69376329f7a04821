"""The gain of an action."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Gain:
    """What an action would do.

    Attributes:
        action: its text.
        costs: of the state that it leads to; empty after an error.
        gain: by how much it lowers the first cost.
        state: fingerprint of that state; 0 after an error.
        effect: whether that is another state.
        error: why there is no such state.
    """

    action: str
    costs: Mapping[str, float]
    gain: float
    state: int
    effect: bool
    error: str = ""

    def rank(self) -> tuple[bool, bool, float, str]:
        """Return what gains are sorted by, the best first."""
        return bool(self.error), not self.effect, -self.gain, self.action


Wanted = Callable[[Sequence[Gain]], bool]
"""Is told what is known, and says whether more is wanted."""

Order = Callable[[str], Any]
"""Sorts actions."""
