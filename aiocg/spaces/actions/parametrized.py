"""Spaces of actions with parameters."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from aiocg.errors import UnknownName
from aiocg.spaces.actions.language import ActionLanguage, split_list
from aiocg.spaces.actions.vector import VectorActions
from aiocg.transport.messages import Action, ActionParameter, ActionSpaceSpec, ActionSpec

__all__ = ["ParametrizedActions"]

_PLACE = re.compile(r"\$(<>|\{\})")


class ParametrizedActions(VectorActions):
    """A space of vectors: which action, and which choice for each of its parameters.

    The space is as long as the most parameters that an action has, and as wide as the most choices, so most actions do
    not use all of a vector. Elements behind an action's last parameter mean nothing; a choice is taken modulo the
    number of choices that the parameter has. So every vector in the ranges is an action, and all choices are about
    equally frequent among samples.

    An action can be given as text too, `simplifycfg<bonus-inst-threshold=2>`, or as a mapping from `"pass"` to its name
    and from names of parameters to choices. What a mapping leaves out is the first choice; a name alone leaves out all.

    Attributes:
        actions: their declarations, with parameters.
    """

    kind = "parametrized"

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        self.name = spec.name
        self.description = spec.description
        self.language = language
        self.actions = spec.actions
        self.names = tuple(action.name for action in spec.actions)
        self.descriptions = tuple(action.description for action in spec.actions)
        self._indices = {alias: i for i, action in enumerate(spec.actions) for alias in action.aliases}
        self._indices |= {name: i for i, name in enumerate(self.names)}
        self._templates = [_Template.of(action) for action in spec.actions]
        gymnasium.spaces.MultiDiscrete.__init__(self, [len(spec.actions), *_widths(spec.actions)])

    def encode_vector(self, vector: Sequence[int]) -> Action:
        """Return an action whose vector is in the ranges, in the form that travels."""
        action = self.actions[vector[0]]
        choices = [
            parameter.choices[element % len(parameter.choices)]
            for parameter, element in zip(action.parameters, vector[1:], strict=False)
        ]
        return self.language.encode(self._templates[vector[0]].fill(choices))

    def encode_text(self, text: str) -> Action:
        """Return an action given as text in the form that travels.

        Raises:
            UnknownName: when it is not an action of this space.
        """
        vector = self._from_mapping({"pass": text}) if text in self._indices else self._read(text)
        if vector is None:
            raise UnknownName("action", text, self._indices)
        return self.encode_vector(vector)

    def _encode(self, action: Any) -> Action:
        if isinstance(action, Mapping):
            return self.encode_vector(self._from_mapping(action))
        return super()._encode(action)

    def _from_mapping(self, action: Mapping[str, Any]) -> list[int]:
        chosen = dict(action)
        name = chosen.pop("pass", None)
        if name not in self._indices:
            raise UnknownName("action", str(name), self._indices)
        index = self._indices[name]
        vector = [index]
        for parameter in self.actions[index].parameters:
            choice = chosen.pop(parameter.name, parameter.choices[0])
            if choice not in parameter.choices:
                raise UnknownName(f"choice for {parameter.name} of {name}", str(choice), parameter.choices)
            vector.append(parameter.choices.index(choice))
        if chosen:
            known = [parameter.name for parameter in self.actions[index].parameters]
            raise UnknownName(f"parameter of {name}", str(next(iter(chosen))), known)
        return vector

    def decode(self, action: Action) -> tuple[int, ...] | str:
        """Return the vector of an action that travelled, as a tuple, or its text if the space does not have it."""
        text = self.language.text(action)
        vector = self._read(text)
        return text if vector is None else (*vector, *[0] * (len(self.nvec) - len(vector)))

    def _read(self, text: str) -> list[int] | None:
        """Return action and choices that a text stands for, None if it is not of this space."""
        for index, template in enumerate(self._templates):
            choices = template.read(text)
            if choices is not None:
                return [index, *choices]
        return None

    def candidates(self) -> list[Any]:
        """List each action with the first choices, and with each other choice for one of its parameters.

        All combinations would be too many to try: millions for some passes.
        """
        found = []
        for index, action in enumerate(self.actions):
            first = [index, *[0] * (len(self.nvec) - 1)]
            found.append(tuple(first))
            for position, parameter in enumerate(action.parameters, 1):
                for choice in range(1, len(parameter.choices)):
                    found.append((*first[:position], choice, *first[position + 1 :]))
        return found


class _Template(NamedTuple):
    """The text of an action, with a place for choices in it.

    Attributes:
        before, after: what is around the place; without a place, `before` is all.
        brackets: around the choices made; empty without a place.
    """

    before: str
    after: str
    brackets: str
    parameters: tuple[ActionParameter, ...]

    @classmethod
    def of(cls, action: ActionSpec) -> "_Template":
        text = action.name if action.text is None else action.text
        place = _PLACE.search(text)
        if place is None:
            return cls(text, "", "", ())
        return cls(text[: place.start()], text[place.end() :], place[1], action.parameters)

    def fill(self, choices: Sequence[str]) -> str:
        """Return the text with these choices."""
        made = ";".join(choice for choice in choices if choice) if self.brackets else ""
        inner = f"{self.brackets[0]}{made}{self.brackets[1]}" if made else ""
        return f"{self.before}{inner}{self.after}"

    def read(self, text: str) -> list[int] | None:
        """Return the positions of the choices in a text, None if it is not made from this template."""
        if not self.brackets:
            return [] if text == self.before else None
        end = len(text) - len(self.after)
        if not text.startswith(self.before) or not text.endswith(self.after) or end < len(self.before):
            return None
        inner = text[len(self.before) : end]
        if inner and (len(inner) < 2 or inner[0] + inner[-1] != self.brackets):
            return None
        return self._positions(split_list(inner[1:-1], ";"))

    def _positions(self, made: list[str]) -> list[int] | None:
        """Assign each choice made to a parameter that has it, in any order."""
        left = list(made)
        positions = []
        for parameter in self.parameters:
            choice = next((choice for choice in left if choice in parameter.choices), "")
            if choice not in parameter.choices:
                return None
            if choice:
                left.remove(choice)
            positions.append(parameter.choices.index(choice))
        return None if left else positions


def _widths(actions: Sequence[ActionSpec]) -> list[int]:
    """Return the most choices that any action has for its first, second, ... parameter."""
    length = max(len(action.parameters) for action in actions)
    counts = np.ones((len(actions), length), dtype=np.int64)
    for row, action in zip(counts, actions, strict=True):
        row[: len(action.parameters)] = [len(parameter.choices) for parameter in action.parameters]
    return [int(count) for count in counts.max(axis=0)]
