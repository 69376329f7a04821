"""A space of mappings from names of options to choices."""

import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import gymnasium
import numpy as np

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces.actions._language import ActionLanguage
from aiocg.spaces.actions._options import OptionActions
from aiocg.spaces.actions._space import ActionSpace
from aiocg.transport.messages import ActionSpaceSpec
from aiocg.transport.options import UNSET, Option


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
