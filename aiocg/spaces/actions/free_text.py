"""The space of all texts of a compiler's language of actions."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from aiocg.errors import InvalidAction
from aiocg.spaces.actions.language import ActionLanguage
from aiocg.spaces.actions.space import ActionSpace, check_order
from aiocg.transport.messages import Action, ActionSpaceSpec


class TextActions(ActionSpace):
    """A space of texts: whatever the compiler understands, such as a whole nested pipeline of LLVM's.

    The compiler decides whether a text is an action; `step` raises InvalidAction if not. Samples are names from the
    compiler's first space.
    """

    kind = "text"

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        super().__init__(None, None)
        self._declare(spec, language)

    def encode(self, actions: Any) -> tuple[Action, ...]:
        if isinstance(actions, str):
            return (self.language.encode(actions),)
        if not isinstance(actions, Iterable):
            raise InvalidAction(f"an action of {self.name} is a text, not {actions!r}")
        check_order(actions)
        texts = list(actions)
        for text in texts:
            if not isinstance(text, str):
                raise InvalidAction(f"an action of {self.name} is a text, not {text!r}")
        return tuple(self.language.encode(text) for text in texts)

    def decode(self, action: Action) -> str:
        """Return the text of an action that travelled."""
        return self.language.text(action)

    def rank(self, text: str) -> tuple[Any, ...]:
        """Return where an action comes: in the order of the first space, then by its text."""
        return (self.language.indices.get(text, len(self.language.names)), text)

    def candidates(self) -> list[Any]:
        """List the names of the compiler's first space."""
        return list(self.language.names)

    def draw(self, rng: np.random.Generator) -> str:
        """Draw a name from the compiler's first space."""
        return self.language.names[int(rng.integers(len(self.language.names)))]

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a name from the compiler's first space."""
        return self.draw(self.np_random)

    def contains(self, x: Any) -> bool:
        """Is `x` text?"""
        return isinstance(x, str)

    @property
    def is_np_flattenable(self) -> bool:
        """Texts are not arrays."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextActions) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, ...]:
        return (self.name, *self.language.names)

    def __repr__(self) -> str:
        return f"TextActions({self.name!r})"
