"""Spaces of actions that are applied to one part of the program, such as a function or a loop."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import gymnasium

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces.actions.language import ActionLanguage
from aiocg.spaces.actions.vector import VectorActions
from aiocg.transport.messages import Action, ActionSpaceSpec

__all__ = ["TargetedActions"]


class TargetedActions(VectorActions):
    """A space of vectors of two: which target, and which action for it.

    What targets there are depends on the state. A space is a value: in another state an environment has another space,
    and `info["new_action_space"]` says so. In a state without targets there is one vector for each action, and it does
    nothing.

    An action can be given as text too, `@main(sroa)`. As an index of a target means nothing in another state, what an
    environment remembers of its actions are texts.

    Attributes:
        targets: of the present state, in the order of the indices; None while that is not known.
    """

    kind = "targeted"

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        self.name = spec.name
        self.description = spec.description
        self.language = language
        self.names = tuple(action.name for action in spec.actions)
        self.descriptions = tuple(action.description for action in spec.actions)
        self.targets_from = spec.targets
        self.targets: tuple[str, ...] | None = None
        self._texts = tuple(action.name if action.text is None else action.text for action in spec.actions)
        self._indices = {text: i for i, text in enumerate(self._texts)}
        self._indices |= {alias: i for i, action in enumerate(spec.actions) for alias in action.aliases}
        self._indices |= {name: i for i, name in enumerate(self.names)}
        gymnasium.spaces.MultiDiscrete.__init__(self, [1, len(spec.actions)])

    def with_targets(self, targets: Sequence[str] | None) -> Self:
        """Return the space for a state with these targets; it goes on with the random stream of this one."""
        generator = self.np_random
        space = copy.copy(self)
        space.targets = None if targets is None else tuple(targets)
        gymnasium.spaces.MultiDiscrete.__init__(space, [max(len(targets or ()), 1), len(self.names)], seed=generator)
        return space

    def encode_vector(self, vector: Sequence[int]) -> Action:
        """Return an action whose vector is in the ranges, in the form that travels."""
        if not self.targets:
            return self.language.encode("")
        return self.language.encode(f"{self.targets[vector[0]]}({self._texts[vector[1]]})")

    def _vector(self, action: Any) -> list[int]:
        if self.targets is None:
            raise InvalidAction(f"the targets of {self.name} are not known yet: await a step or a reset first")
        return super()._vector(action)

    def encode_text(self, text: str) -> Action:
        """Return an action given as text in the form that travels; whether there is such a target, the compiler says.

        Raises:
            UnknownName, InvalidAction: when it is not an action of this space.
        """
        parts = self._parts(text)
        if not text:
            return self.language.encode(text)
        if parts is None:
            raise InvalidAction(f"an action of {self.name} is a vector, or a text like {self._example()}, not {text!r}")
        target, name = parts
        if name not in self._indices:
            raise UnknownName("action", name, self._indices)
        return self.language.encode(f"{target}({self._texts[self._indices[name]]})")

    def _parts(self, text: str) -> tuple[str, str] | None:
        """Return the target and the action of a text."""
        start = text.rfind('"') + 1 if text.startswith('@"') else 0
        opening = text.find("(", start)
        return (text[:opening], text[opening + 1 : -1]) if opening > 0 and text.endswith(")") else None

    def _example(self) -> str:
        target = self.targets[0] if self.targets else "@target"
        return f"{target}({self.names[0]})"

    def decode(self, action: Action) -> str:
        """Return the text of an action that travelled."""
        return self.language.text(action)

    def rank(self, text: str) -> tuple[Any, ...]:
        """Return where an action comes: by its target, then in the order of the actions."""
        parts = self._parts(text)
        if parts is None or parts[1] not in self._indices:
            return (1, text, 0)
        return (0, parts[0], self._indices[parts[1]])

    def candidates(self) -> list[Any]:
        """List each action for each target of the present state."""
        return [(target, action) for target in range(len(self.targets or ())) for action in range(len(self.names))]
