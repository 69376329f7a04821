"""The base of all action spaces, and the space of all texts."""

import abc
import contextlib
import copy
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Self

import gymnasium
import numpy as np

from aiocg.errors import InvalidAction, NotExpressible, UnknownName
from aiocg.spaces.actions._language import ActionLanguage, indices_of, join_texts, split_texts
from aiocg.transport.messages import Action, ActionSpaceSpec


class ActionSpace(gymnasium.Space[Any], abc.ABC):
    """A Gymnasium space of actions: a selection from a compiler's language of actions, and a form for those in it.

    Actions are sent and recorded in a form that does not depend on the space: as text, or as an index into the
    compiler's first space.

    Attributes:
        name: of the space.
        description: one line.
        language: what the space is a selection of.
        names, descriptions: of the actions, where the space has a list of them; without parameters and targets.
        targets_from: the observation that lists the targets of actions, empty without targets.
        targets: in the present state, None while unknown or without targets.
        kind: "discrete", "parametrized", "targeted", "text", "options" or "mapping".
    """

    kind = ""
    name: str
    description: str
    language: ActionLanguage
    names: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()
    targets_from: str = ""
    targets: tuple[str, ...] | None = None

    def _declare(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        """Take over what the compiler says of the space."""
        self.name = spec.name
        self.description = spec.description
        self.language = language
        self.names = tuple(action.name for action in spec.actions)
        self.descriptions = tuple(action.description for action in spec.actions)
        self._indices = indices_of(spec.actions)

    def encode(self, actions: Any) -> tuple[Action, ...]:
        """Return one action, or each of several, in the form that travels.

        Raises:
            UnknownName, InvalidAction: when it is not an action of this space.
        """
        if not isinstance(actions, Mapping):
            check_order(actions)
        return (self._encode(actions),) if self._is_one(actions) else tuple([self._encode(one) for one in actions])

    def _is_one(self, actions: Any) -> bool:
        return isinstance(actions, (str, Mapping)) or not isinstance(actions, Iterable)

    def _encode(self, action: Any) -> Action:
        """Return one action in the form that travels; spaces that do not define `encode` define this."""
        raise NotImplementedError

    def decode(self, action: Action) -> Any:
        """Return an action that travelled in the form of this space, or its text if the space does not have it.

        The result can be stepped, compared and hashed.
        """
        return self.language.text(action)

    def decode_all(self, actions: Sequence[Action]) -> list[Any]:
        """Return actions that travelled in the form of this space."""
        return [self.decode(action) for action in actions]

    @abc.abstractmethod
    def candidates(self) -> list[Any]:
        """List the actions that a search should try in the present state."""

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator) -> Any:
        """Draw an action with a random generator of the caller's."""

    def text(self, action: Any) -> str:
        """Return the text of one action, which every action space of the compiler accepts.

        Raises:
            UnknownName, InvalidAction: when it is not one action of this space.
        """
        (encoded,) = self.encode([action])
        return self.language.text(encoded)

    def rank(self, text: str) -> tuple[Any, ...]:
        """Return a sort key of an action in the order of the space; actions outside of it come last."""
        action = self.decode(self.language.encode(text))
        return (1, text) if isinstance(action, str) else (0, action)

    def to_string(self, actions: Iterable[Any]) -> str:
        """Return actions as text that `from_string` reads.

        For LLVM this is a command line for `opt`, if `opt` supports all of them; for GCC the resulting command line for
        `gcc`. Otherwise it is their texts separated by commas, with `[...]` around texts that are lists themselves.
        """
        texts = [self.text(action) for action in actions]
        if self.language.notation is not None:
            try:
                return self.language.notation.write(texts)
            except NotExpressible:
                pass
        return join_texts(texts)

    def from_string(self, text: str) -> list[Any]:
        """Return the actions that a text lists, in the form of the space; see `to_string`.

        For LLVM, command lines for the old pass manager, `opt -mem2reg -gvn`, are read as well.

        Raises:
            UnknownName, InvalidAction: when one of them is not an action of this space; for a command line all that
                are not are named.
        """
        notation = self.language.notation
        if notation is None or not notation.recognises(text):
            return self.decode_all(self.encode(split_texts(text)))
        actions, unknown = [], []
        for alternatives in notation.read(text):
            found = self._first(alternatives)
            actions.append(found)
            if found is None or (isinstance(found, str) and found.startswith("-")):  # a flag, which no text can be
                unknown.append(alternatives[0])
        if unknown:
            raise InvalidAction(f"not in the action space {self.name}: {', '.join(unknown)}")
        return actions

    def _first(self, texts: Iterable[str]) -> Any:
        """Return the first text that is an action of this space, in its form; None if none is."""
        for text in texts:
            with contextlib.suppress(UnknownName, InvalidAction):
                return self.decode(*self.encode([text]))
        return None

    def unseeded(self) -> Self:
        """Return a space with the same actions and a random stream of its own."""
        space = copy.copy(self)
        space._np_random = None  # type: ignore[assignment]  # Gymnasium makes it on first use
        return space


def check_order(actions: Any) -> None:
    """Raise InvalidAction for iterables that are not lists of actions."""
    if isinstance(actions, (bytes, bytearray, Set, Mapping)):
        raise InvalidAction(f"several actions are given as a list, not as {type(actions).__name__}: {actions!r}")


class TextActions(ActionSpace):
    """A space of texts: whatever the compiler understands, such as a whole nested pipeline of LLVM's.

    The compiler decides whether a text is an action; `step` raises InvalidAction if not. Samples are names from the
    compiler's first space.
    """

    kind = "text"

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        super().__init__(None, None)
        self._declare(spec, language)

    def _encode(self, action: Any) -> Action:
        if not isinstance(action, str):
            raise InvalidAction(f"an action of {self.name} is a text, not {action!r}")
        return self.language.encode(action)

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
        """Draw an action; see `draw`."""
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

    def _key(self) -> tuple[Any, ...]:
        return (self.name, *self.language.names)

    def __repr__(self) -> str:
        return f"TextActions({self.name!r})"
