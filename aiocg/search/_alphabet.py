"""The actions that a search chooses from, as the texts that tuners deal in."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from aiocg.search.tuner import Outcome
from aiocg.spaces.actions import ActionSpace, TargetedActions


class Alphabet(Protocol):
    """What actions there are.

    Attributes:
        varies: whether that depends on the state; `Outcome` tells what must be known of it.
    """

    varies: bool

    def texts(self, state: Outcome) -> Sequence[str]:
        """Return the actions worth trying in a state, in a fixed order."""

    def draw(self, rng: np.random.Generator, state: Outcome) -> str:
        """Draw an action for a state."""

    def rank(self, actions: Iterable[str]) -> Any:
        """Return what sorts lists of actions: the same order as that of `texts`."""


class SpaceAlphabet:
    """The actions of an action space."""

    def __init__(self, space: ActionSpace) -> None:
        self._space = space
        self.varies = isinstance(space, TargetedActions)
        self._fixed = () if self.varies else self._texts(space)

    def texts(self, state: Outcome) -> Sequence[str]:
        """Return what the space suggests for the state."""
        return self._texts(self._at(state)) if self.varies else self._fixed

    def draw(self, rng: np.random.Generator, state: Outcome) -> str:
        """Draw any action of the space, with all its parameters."""
        space = self._at(state)
        return space.text(space.draw(rng))

    def rank(self, actions: Iterable[str]) -> Any:
        """Return the places of texts in the order of the space."""
        return tuple(map(self._space.rank, actions))

    def _at(self, state: Outcome) -> ActionSpace:
        space = self._space
        return space.with_targets(state.targets or ()) if isinstance(space, TargetedActions) else space

    @staticmethod
    def _texts(space: ActionSpace) -> tuple[str, ...]:
        return tuple([space.language.text(action) for action in space.encode(space.candidates())])
