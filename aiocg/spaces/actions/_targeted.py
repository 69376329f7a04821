"""Actions with more than a name: with parameters to choose, or at a place of the program."""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import gymnasium
import numpy as np

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces.actions._discrete import VectorActions
from aiocg.spaces.actions._language import ActionLanguage, split_list
from aiocg.transport.messages import Action, ActionParameter, ActionSpaceSpec, ActionSpec


class TargetedActions(VectorActions):
    """A space of vectors of two: which target, and which action for it.

    The targets depend on the state. A space is immutable: in another state an environment has another space, and
    `info["new_action_space"]` says so. In a state without targets there is one vector for each action, without effect.

    An action can be given as text too, `@main(sroa)`. Environments record actions as texts, because the index of a
    target means nothing in another state.

    Attributes:
        targets: of the present state, in the order of the indices; None while that is not known.
    """

    kind = "targeted"

    def __init__(self, spec: ActionSpaceSpec, language: ActionLanguage) -> None:
        self._declare(spec, language)
        self.targets_from = spec.targets
        self.targets: tuple[str, ...] | None = None
        self._texts = tuple(action.name if action.text is None else action.text for action in spec.actions)
        self._indices = {text: i for i, text in enumerate(self._texts)} | self._indices
        gymnasium.spaces.MultiDiscrete.__init__(self, [1, len(spec.actions)])

    def with_targets(self, targets: Sequence[str] | None) -> Self:
        """Return the space for a state with these targets, which continues this one's random stream."""
        generator = self.np_random
        space = copy.copy(self)
        space.targets = None if targets is None else tuple(targets)
        gymnasium.spaces.MultiDiscrete.__init__(space, [max(len(targets or ()), 1), len(self.names)], seed=generator)
        return space

    def encode_vector(self, vector: Sequence[int]) -> Action:
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
            hint = self.language.hint(text, self.name, self.names)
            problem = f"an action of {self.name} is a vector, or a text like {self._example()}, not {text!r}"
            raise InvalidAction(f"{problem} {hint}" if hint else problem)
        target, name = parts
        if name not in self._indices:
            raise UnknownName("action", name, self._indices)
        return self.language.encode(f"{target}({self._texts[self._indices[name]]})")

    def _parts(self, text: str) -> tuple[str, str] | None:
        """Return the target and the action of a text."""
        opening = text.find("(", text.rfind('"') + 1)
        return (text[:opening], text[opening + 1 : -1]) if opening > 0 and text.endswith(")") else None

    def _example(self) -> str:
        target = self.targets[0] if self.targets else "@target"
        return f"{target}({self.names[0]})"

    def rank(self, text: str) -> tuple[Any, ...]:
        """Return where an action comes: by its target, then in the order of the actions."""
        parts = self._parts(text)
        if parts is None or parts[1] not in self._indices:
            return (1, text, 0)
        return (0, parts[0], self._indices[parts[1]])

    def candidates(self) -> list[Any]:
        """List each action for each target of the present state."""
        return [(target, action) for target in range(len(self.targets or ())) for action in range(len(self.names))]


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
        self._declare(spec, language)
        self.actions = spec.actions
        self._templates = [_Template.of(action) for action in spec.actions]
        gymnasium.spaces.MultiDiscrete.__init__(self, [len(spec.actions), *_widths(spec.actions)])

    def encode_vector(self, vector: Sequence[int]) -> Action:
        action = self.actions[vector[0]]
        choices = [
            parameter.choices[element % len(parameter.choices)]
            for parameter, element in zip(action.parameters, vector[1:], strict=False)
        ]
        return self.language.encode(self._templates[vector[0]].fill(choices))

    def encode_text(self, text: str) -> Action:
        vector = self._from_mapping({"pass": text}) if text in self._indices else self._read(text)
        if vector is None:
            raise UnknownName("action", text, self._indices, self.language.hint(text, self.name, self.names))
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
    """The text of an action with a placeholder for choices.

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
    """Return the largest number of choices of any action's first, second, ... parameter."""
    length = max(len(action.parameters) for action in actions)
    counts = np.ones((len(actions), length), dtype=np.int64)
    for row, action in zip(counts, actions, strict=True):
        row[: len(action.parameters)] = [len(parameter.choices) for parameter in action.parameters]
    return [int(count) for count in counts.max(axis=0)]
