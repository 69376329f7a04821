"""Spaces in which an action is a choice for every option of a compiler: a vector, a command line or a mapping."""

import abc
import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import gymnasium
import numpy as np

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces.actions._command_line import choice_line
from aiocg.spaces.actions._discrete import Vectors
from aiocg.spaces.actions._language import ActionLanguage
from aiocg.spaces.actions._space import ActionSpace, TextActions
from aiocg.transport.messages import Action, ActionSpaceSpec
from aiocg.transport.options import UNSET, Option

_ALL = 10  # options with fewer choices have all of them among the candidates


class OptionActions(ActionSpace):
    """The base of these spaces: an action replaces all choices, and unsets options that it leaves out.

    Every space takes an action as text, too: a command line, such as `gcc -O2 -fno-gcse`, as `CommandLine.read` takes
    it. The effect of an action does not depend on the state, so of several only the last one counts.

    Attributes:
        options: in the order of the choices.
    """

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        """Make the space; the options may be declared with another space of the same compiler."""
        self.name = spec.name
        self.description = spec.description
        self.language = language
        self.line = language.line if language.line is not None else choice_line(spec.options, spec.program)
        self.options: tuple[Option, ...] = self.line.options
        self.counts = tuple(len(option) + 1 for option in self.options)

    @abc.abstractmethod
    def choices(self, action: Any) -> list[int]:
        """Return the choices of one action that is not text, -1 for an option that is not given.

        Raises:
            UnknownName, InvalidAction: when it is not an action of this space.
        """

    @abc.abstractmethod
    def form(self, choices: Sequence[int]) -> Any:
        """Return choices in the form of this space."""

    def _encode(self, action: Any) -> Action:
        if isinstance(action, str):
            return self.line.canonical(action)
        return self.line.write(self.choices(action))

    def decode(self, action: Action) -> Any:
        text = self.language.text(action)
        if isinstance(action, int) or not self.line.begins(text):
            return text
        return self.form(self.line.read(text))

    def from_string(self, text: str) -> list[Any]:
        """Return the action that a command line is, in the form of the space, as a list of one.

        Raises:
            InvalidAction: for a word that is no option.
        """
        return self.decode_all([self.line.canonical(text)]) if text.strip() else []

    def rank(self, text: str) -> tuple[Any, ...]:
        """Return a sort key of an action: its choices; actions outside of the space come last."""
        return (0, *self.line.read(text)) if self.line.begins(text) else (1, text)

    def candidates(self) -> list[Any]:
        """List the command lines with a single option: all its choices or, if there are many, the first and the last.

        There are far too many command lines to list them all.
        """
        found = [[UNSET] * len(self.options)]
        for index, option in enumerate(self.options):
            for choice in range(len(option)) if len(option) < _ALL else (0, len(option) - 1):
                found.append([*found[0][:index], choice, *found[0][index + 1 :]])
        return [self.form(choices) for choices in found]

    def draw_choices(self, rng: np.random.Generator) -> list[int]:
        """Draw a choice for every option; -1, for an unset option, is as likely as each choice."""
        drawn: list[int] = rng.integers(0, np.array(self.counts, dtype=np.int64)).tolist()
        return [number - 1 for number in drawn]

    def draw(self, rng: np.random.Generator) -> Any:
        return self.form(self.draw_choices(rng))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self.options)} options)"


class ChoiceActions(OptionActions, Vectors):
    """A space of vectors of int64, shape (options,): for each option 0 if it is not given, else 1 + its choice.

    One action is such a vector, as an array or a list of ints, or a command line; several are a list of those, or an
    array of two dimensions.
    """

    kind = "options"

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        OptionActions.__init__(self, spec, language)
        gymnasium.spaces.MultiDiscrete.__init__(self, list(self.counts))

    def choices(self, action: Any) -> list[int]:
        try:
            vector = [operator.index(element) - 1 for element in action]
        except TypeError:
            what = f"an action of {self.name} is a vector of ints or a command line"
            raise InvalidAction(f"{what}, not {type(action).__name__}: {action!r:.80}") from None
        if len(vector) != len(self.options):
            raise InvalidAction(f"an action of {self.name} has {len(self.options)} elements, not {len(vector)}")
        for option, choice, count in zip(self.options, vector, self.counts, strict=True):
            if not UNSET <= choice < count - 1:
                raise InvalidAction(f"the element for {option.name} is not in the range 0 to {count - 1}: {choice + 1}")
        return vector

    def form(self, choices: Sequence[int]) -> tuple[int, ...]:
        """Return choices as a vector, which is a tuple."""
        return tuple([choice + 1 for choice in choices])

    def _is_one(self, actions: Any) -> bool:
        if isinstance(actions, np.ndarray):
            return actions.ndim == 1 and actions.dtype.kind in "iu"
        if super()._is_one(actions):
            return True
        return isinstance(actions, Sequence) and isinstance(next(iter(actions), None), (int, np.integer))

    def limited(self, most: int) -> "LimitedChoiceActions":
        """Return a space of vectors with a limited number of numeric choices; see `LimitedChoiceActions`.

        Raises:
            ValueError: when that is less than two.
        """
        return LimitedChoiceActions(self, most)

    __repr__ = OptionActions.__repr__


class LimitedChoiceActions(ChoiceActions):
    """A space of vectors, as `ChoiceActions`, in which options with a range have some of its numbers only::

        env.action_space = env.action_spaces["choices"].limited(16)

    Learners with an output for each choice, such as those of Stable-Baselines3, need this: a parameter can have
    billions of values. All words are kept and, of numbers, the least, the greatest, and some geometrically spaced
    between.

    Attributes:
        kept: for each option, the choices that it has here.
    """

    def __init__(self, whole: ChoiceActions, most: int) -> None:
        if most < 2:
            raise ValueError(f"of an option's numbers two are kept at least, not {most}")
        self.__dict__.update(whole.unseeded().__dict__)
        self.kept = tuple(some_choices(option, most) for option in self.options)
        self._places = tuple({choice: place for place, choice in enumerate(kept)} for kept in self.kept)
        self.counts = tuple(len(kept) + 1 for kept in self.kept)
        gymnasium.spaces.MultiDiscrete.__init__(self, list(self.counts))

    def choices(self, action: Any) -> list[int]:
        places = super().choices(action)
        return [UNSET if place == UNSET else kept[place] for kept, place in zip(self.kept, places, strict=True)]

    def form(self, choices: Sequence[int]) -> Any:
        """Return choices as a vector, which is a tuple, or as a command line if one of them is not kept."""
        try:
            places = zip(self._places, choices, strict=True)
            return tuple([0 if choice == UNSET else known[choice] + 1 for known, choice in places])
        except KeyError:
            return self.line.write(choices)

    def draw_choices(self, rng: np.random.Generator) -> list[int]:
        """Draw a choice that is kept for every option, or -1."""
        drawn = super().draw_choices(rng)
        return [UNSET if place == UNSET else kept[place] for kept, place in zip(self.kept, drawn, strict=True)]

    def candidates(self) -> list[Any]:
        """List the command lines with one option and a choice that is kept."""
        none = (0,) * len(self.options)
        each = [(*none[:i], place, *none[i + 1 :]) for i, count in enumerate(self.counts) for place in range(1, count)]
        return [none, *each]


def some_choices(option: Option, most: int) -> tuple[int, ...]:
    """Return the choices of an option that are words, and at most `most` of its numbers."""
    words, numbers = len(option.texts), len(option) - len(option.texts)
    if numbers <= most:
        return tuple(range(len(option)))
    distances = {round(numbers ** (step / (most - 1))) - 1 for step in range(most)}
    return (*range(words), *(words + distance for distance in sorted(distances)))


class CommandLineActions(OptionActions, TextActions):
    """A space of texts: command lines, of which samples are those with a random choice for every option.

    Every text is a complete command line, with or without `gcc` in front: `-O2` means only `-O2`.
    """

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        gymnasium.Space.__init__(self, None, None)
        OptionActions.__init__(self, spec, language)

    def choices(self, action: Any) -> list[int]:
        """Refuse what is not text."""
        raise InvalidAction(f"an action of {self.name} is a command line, not {action!r}")

    def form(self, choices: Sequence[int]) -> str:
        """Return choices as a command line."""
        return self.line.write(choices)

    def contains(self, x: Any) -> bool:
        """Is `x` a command line, spelt in any way?"""
        if not isinstance(x, str):
            return False
        try:
            self.line.read(x)
        except InvalidAction:
            return False
        return True

    def _key(self) -> tuple[Any, ...]:
        return (self.name, *(option.name for option in self.options))


def _plain(space: ChoiceActions) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(np.zeros_like(space.nvec), space.nvec - 1, dtype=np.int64)


# Gymnasium flattens to an element for each choice: billions here.
gymnasium.spaces.utils.flatdim.register(ChoiceActions, lambda space: len(space.options))
gymnasium.spaces.utils.flatten.register(ChoiceActions, lambda space, x: np.asarray(x, dtype=np.int64))
gymnasium.spaces.utils.unflatten.register(ChoiceActions, lambda space, x: np.asarray(x, dtype=np.int64))
gymnasium.spaces.utils.flatten_space.register(ChoiceActions, _plain)


class MappingActions(OptionActions, gymnasium.spaces.Dict):
    """A space of mappings from names of options to numbers; an option that is left out is not given.

    For an option with a range of numbers, such as a parameter, its number is what it is set to, and for `-O` the level.
    For others it is 1 + the choice; where values are numbers without a range, such as alignments, it is a negative
    number, so that 16 can mean 16. The least number there is means that the option is not given.

    `step` takes more: a word (`"-fno-gcse"`), what stands behind the name (`"30"`, `"s"`), True and False where there
    is a word for it, and None for an option that is not given. An action can also be a command line, and that is what
    is remembered.
    """

    kind = "mapping"

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        OptionActions.__init__(self, spec, language)
        self._starts = tuple(_start(option) for option in self.options)
        self._indices = {option.name: i for i, option in enumerate(self.options)}
        bounds = zip(self.options, self.counts, self._starts, strict=True)
        parts = [(option.name, gymnasium.spaces.Discrete(count, start=start)) for option, count, start in bounds]
        gymnasium.spaces.Dict.__init__(self, parts)  # a list keeps its order in every release

    def choices(self, action: Any) -> list[int]:
        if not isinstance(action, Mapping):
            raise InvalidAction(f"an action of {self.name} is a mapping or a command line, not {action!r}")
        found = [UNSET] * len(self.options)
        for name, value in action.items():
            index = self._indices.get(name)
            if index is None:
                raise UnknownName("option", str(name), self._indices)
            found[index] = self._choice(index, value)
        return found

    def _choice(self, index: int, value: Any) -> int:
        """Return the index of a choice."""
        option = self.options[index]
        if value is None:
            return UNSET
        if isinstance(value, (bool, np.bool_)):
            word = option.name if value else f"-fno-{option.name.removeprefix('-f')}"
            if word not in option.texts:
                raise InvalidAction(f"{option.name} cannot be {bool(value)}: {_range(option)}")
            return option.texts.index(word)
        if isinstance(value, str):
            return self._of_text(index, value)
        try:
            number = operator.index(value)
        except TypeError:
            raise InvalidAction(f"{option.name} cannot be {value!r}: {_range(option)}") from None
        if number >= 0 and _has_numbers(option):
            return self._of_text(index, str(number))
        choice = number - self._starts[index] - 1
        if not UNSET <= choice < len(option):
            raise InvalidAction(f"{option.name} cannot be {value}: {_range(option)}")
        return choice

    def _of_text(self, index: int, value: str) -> int:
        option = self.options[index]
        for word in (value, f"{option.name}={value}", f"{option.name}{value}" if option.kind == "level" else ""):
            try:
                found, choice = self.line.read_word(word)
            except InvalidAction:
                continue
            if found == index:
                return choice
        raise InvalidAction(f"{option.name} cannot be {value!r}: {_range(option)}")

    def form(self, choices: Sequence[int]) -> dict[str, int]:
        """Return choices as a mapping, without unset options."""
        return {
            option.name: choice + start + 1
            for option, start, choice in zip(self.options, self._starts, choices, strict=True)
            if choice != UNSET
        }

    decode = ActionSpace.decode  # mappings cannot be hashed

    def contains(self, x: Any) -> bool:
        """Return whether `x` maps names of options, not necessarily all, to valid numbers."""
        if not isinstance(x, Mapping):
            return False
        return all(isinstance(name, str) and name in self.spaces and x[name] in self.spaces[name] for name in x)

    def unseeded(self) -> Self:
        space = super().unseeded()
        space.spaces = {name: copy.copy(one) for name, one in self.spaces.items()}
        for one in space.spaces.values():
            one._np_random = None  # type: ignore[assignment]  # Gymnasium makes it on first use
        return space

    __repr__ = OptionActions.__repr__


def _start(option: Option) -> int:
    """Return the number for an unset option, which is below those of its choices."""
    if option.template:
        return option.low - len(option.texts) - 1
    if _has_numbers(option):
        return -len(option) - 1
    return -1 if option.kind == "level" else 0


def _has_numbers(option: Option) -> bool:
    """Return whether an option has numeric values that are not a range."""
    return any(text.removeprefix(f"{option.name}=").isdecimal() for text in option.texts)


def _range(option: Option) -> str:
    """Describe the values of an option."""
    texts = ", ".join(option.texts)
    if not option.template:
        return f"it can be {texts}; or the number of one of these, from {_start(option) + 1} on"
    return f"it can be a number from {option.low} to {option.high}{f', or {texts}' if texts else ''}"


def _flat(space: MappingActions) -> gymnasium.spaces.Box:
    low = np.array(space._starts, dtype=np.int64)
    return gymnasium.spaces.Box(low, low + np.array(space.counts, dtype=np.int64) - 1, dtype=np.int64)


def _flatten(space: MappingActions, x: Mapping[str, Any]) -> Any:
    pairs = zip(space.options, space._starts, strict=True)
    return np.array([x.get(option.name, start) for option, start in pairs], dtype=np.int64)


def _unflatten(space: MappingActions, x: Any) -> dict[str, np.int64]:
    return {option.name: np.int64(value) for option, value in zip(space.options, x, strict=True)}


# As for vectors of choices: an element for each option, not for each choice.
gymnasium.spaces.utils.flatdim.register(MappingActions, lambda space: len(space.options))
gymnasium.spaces.utils.flatten.register(MappingActions, _flatten)
gymnasium.spaces.utils.unflatten.register(MappingActions, _unflatten)
gymnasium.spaces.utils.flatten_space.register(MappingActions, _flat)
