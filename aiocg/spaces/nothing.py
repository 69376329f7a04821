"""The space of what is not observed."""

from typing import Any

import gymnasium

__all__ = ["NoObservation"]


class NoObservation(gymnasium.Space[None]):
    """The observation space of an environment that observes nothing by default; its one element is None."""

    def __init__(self) -> None:
        super().__init__(None, None)

    @property
    def is_np_flattenable(self) -> bool:
        """There is nothing to flatten."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> None:
        """Return None."""

    def contains(self, x: Any) -> bool:
        """Is `x` None?"""
        return x is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoObservation)

    def __hash__(self) -> int:
        return hash(NoObservation)

    def __repr__(self) -> str:
        return "NoObservation()"
