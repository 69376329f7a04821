"""Spaces of actions that can be listed."""

import abc
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import gymnasium
import msgspec
import numpy as np

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces.actions._command_line import PROGRAM
from aiocg.spaces.actions._language import ActionLanguage
from aiocg.spaces.actions._space import ActionSpace, check_order
from aiocg.transport.messages import Action, ActionSpaceSpec, ActionSpec


class CommandlineFlag(NamedTuple):
    """A flag of a command line.

    Attributes:
        name: such as `"LoopUnroll"`.
        flag: such as `"--unroll"`; it may have several words.
        description: one line.
    """

    name: str
    flag: str
    description: str


class DiscreteActions(ActionSpace, gymnasium.spaces.Discrete):
    """A discrete space whose actions have names; an action is an index into them, or a name.

    Attributes:
        names: the actions' names.
        descriptions: one line for each.
    """

    kind = "discrete"

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage | None = None) -> None:
        """Make the space; without a language it is the first one of its compiler."""
        gymnasium.spaces.Discrete.__init__(self, len(spec.actions))
        self.spec = spec
        self._declare(spec, language or ActionLanguage(spec))
        self._encoded: tuple[Action, ...] | None = None  # where indices travel as they are
        if spec.actions != self.language.actions:
            self._encoded = tuple(self.language.encode(_text(action)) for action in spec.actions)
        self._decoded = {action: i for i, action in reversed(list(enumerate(self._encoded or ())))}
        self._alone = tuple((action,) for action in self._encoded or range(len(spec.actions)))

    @classmethod
    def of_texts(cls, name: str, texts: Sequence[str], language: ActionLanguage) -> Self:
        """Make a space of actions given by their texts, which are their names as well.

        Raises:
            InvalidAction: when there is none, or one twice.
        """
        twice = {text for text in texts if texts.count(text) > 1}
        if twice or not texts:
            problem = f"has {sorted(twice)[0]!r} twice" if twice else "is empty"
            raise InvalidAction(f"the list of actions {problem}")
        return cls(ActionSpaceSpec(name, tuple(_described(text, language) for text in texts)), language)

    def extended(self, texts: Iterable[str]) -> Self:
        """Return a space with more actions behind its own, given by their texts; those that it has are left out."""
        more = [text for text in dict.fromkeys(texts) if text not in self._indices]
        actions = (*self.spec.actions, *(_described(text, self.language) for text in more))
        return type(self)(msgspec.structs.replace(self.spec, actions=actions), self.language)

    def index(self, action: Any) -> int:
        """Return the index of an action given by index or by name.

        Raises:
            UnknownName: when no action has the name.
            InvalidAction: when the index is out of range, or the action is neither a name nor an index.
        """
        if isinstance(action, str):
            try:
                return self._indices[action]
            except KeyError:
                return self._by_text(action)
        try:
            index = operator.index(action)
        except TypeError:
            raise InvalidAction(f"an action is an index or a name, not {type(action).__name__}: {action!r}") from None
        if isinstance(action, bool) or not 0 <= index < self.n:
            raise InvalidAction(f"action {action!r} is not in the range 0 to {self.n - 1}")
        return int(index)

    def _by_text(self, text: str) -> int:
        index: int | None = self._decoded.get(self.language.encode(text))
        if index is None:
            line = self.language.line
            hint = self.language.hint(text, self.name, self.names)
            if line is not None and line.begins(text):
                hint = "(this is a whole command line, an action of other spaces: action_space='command_line')"
                if line.program != PROGRAM:
                    hint = f"(this is a whole {line.program}, an action of another space)"
            raise UnknownName("action", text, self._indices, hint)
        return index

    def indices(self, actions: Any) -> tuple[int, ...]:
        """Return the indices of one action, or of several in a list or tuple."""
        if isinstance(actions, str) or not isinstance(actions, Iterable):
            return (self.index(actions),)
        if getattr(actions, "ndim", None) == 0:  # an array without dimensions, NumPy's or another library's
            return (self.index(actions[()]),)  # type: ignore[index]
        check_order(actions)
        return tuple([self.index(action) for action in actions])

    def encode(self, actions: Any) -> tuple[Action, ...]:
        if type(actions) is int and 0 <= actions < len(self._alone):  # most calls by far
            return self._alone[actions]
        indices = self.indices(actions)
        if self._encoded is None:
            return indices
        return tuple([self._encoded[index] for index in indices])

    def decode(self, action: Action) -> int | str:
        """Return the index of an action that travelled, or its text if the space does not have it.

        Of several actions with the same text it is the first.
        """
        if self._encoded is None:
            return action  # type: ignore[no-any-return]  # an index here, or a text of the language
        index = self._decoded.get(action)
        return index if index is not None else self.language.text(action)

    def decode_all(self, actions: Sequence[Action]) -> list[Any]:
        return list(actions) if self._encoded is None else super().decode_all(actions)

    def candidates(self) -> list[Any]:
        """List all actions."""
        return list(range(len(self.names)))

    def draw(self, rng: np.random.Generator) -> int:
        """Draw an index."""
        return int(rng.integers(len(self.names)))

    def contains(self, x: Any) -> bool:
        """Is `x` an index of an action?"""
        return not isinstance(x, bool) and gymnasium.spaces.Discrete.contains(self, x)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __repr__(self) -> str:
        return f"DiscreteActions({self.name!r}, {self.n} actions)"


def _text(action: ActionSpec) -> str:
    return action.name if action.text is None else action.text


def _described(text: str, language: ActionLanguage) -> ActionSpec:
    index = language.indices.get(text)
    return ActionSpec(text, language.actions[index].description if index is not None else "given by its text")


class Vectors(gymnasium.spaces.MultiDiscrete):
    """Gymnasium's space of vectors, which nothing that is asked about can break."""

    def contains(self, x: Any) -> bool:
        """Is `x` a vector within the ranges?"""
        try:
            return super().contains(x)
        except (ValueError, TypeError, OverflowError):  # lists of different lengths, or of anything but numbers
            return False


class VectorActions(ActionSpace, Vectors):
    """A space of vectors of int64, shape (length,), each element with a range of its own.

    One action is such a vector, as an array or a list of ints, or a text; several are a list of those, or an array of
    two dimensions.
    """

    @abc.abstractmethod
    def encode_vector(self, vector: Sequence[int]) -> Action:
        """Return an action whose vector is in the ranges, in the form that travels."""

    @abc.abstractmethod
    def encode_text(self, text: str) -> Action:
        """Return an action given as text in the form that travels.

        Raises:
            UnknownName, InvalidAction: when it is not an action of this space.
        """

    def _is_one(self, actions: Any) -> bool:
        if isinstance(actions, np.ndarray):
            return actions.ndim == 1 and actions.size > 0 and actions.dtype.kind in "iu"
        if isinstance(actions, Sequence) and not isinstance(actions, str):
            return len(actions) > 0 and all(isinstance(element, (int, np.integer)) for element in actions)
        return super()._is_one(actions)

    def _encode(self, action: Any) -> Action:
        return self.encode_text(action) if isinstance(action, str) else self.encode_vector(self._vector(action))

    def _vector(self, action: Any) -> list[int]:
        """Return the elements of an action."""
        try:
            vector = [operator.index(element) for element in action]
        except TypeError:
            raise InvalidAction(f"an action of {self.name} is a vector or a text, not {action!r}") from None
        ranges = self.nvec.tolist()
        if len(vector) != len(ranges):
            raise InvalidAction(f"an action of {self.name} has {len(ranges)} elements, not {len(vector)}: {action!r}")
        for position, (element, count) in enumerate(zip(vector, ranges, strict=True)):
            if not 0 <= element < count:
                raise InvalidAction(f"element {position} of {action!r} is not in the range 0 to {count - 1}")
        return vector

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Draw a vector, as a tuple."""
        return tuple(int(rng.integers(count)) for count in self.nvec)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.nvec.tolist()})"
