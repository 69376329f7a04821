"""Action spaces: different selections from the one language of actions that a compiler understands."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces.actions._command_line import PROGRAM, ChoiceLine, CommandLine
from aiocg.spaces.actions._discrete import CommandlineFlag, DiscreteActions
from aiocg.spaces.actions._language import (
    ActionLanguage,
    Notation,
    is_name,
    join_texts,
    list_of_texts,
    split_list,
    split_texts,
)
from aiocg.spaces.actions._options import (
    ChoiceActions,
    CommandLineActions,
    LimitedChoiceActions,
    MappingActions,
    OptionActions,
    some_choices,
)
from aiocg.spaces.actions._space import ActionSpace, TextActions
from aiocg.spaces.actions._targeted import ParametrizedActions, TargetedActions
from aiocg.transport.messages import ActionSpaceSpec

__all__ = [
    "PROGRAM",
    "ActionLanguage",
    "ActionSpace",
    "ActionSpaceLike",
    "ActionSpaces",
    "ChoiceActions",
    "ChoiceLine",
    "CommandLine",
    "CommandLineActions",
    "CommandlineFlag",
    "DiscreteActions",
    "LimitedChoiceActions",
    "MappingActions",
    "Notation",
    "OptionActions",
    "ParametrizedActions",
    "TargetedActions",
    "TextActions",
    "is_name",
    "join_texts",
    "list_of_texts",
    "some_choices",
    "split_list",
    "split_texts",
]


ActionSpaceLike = str | ActionSpace | Sequence[str]  # the name of one, one, or the texts of its actions

_KINDS: dict[str, Callable[[ActionSpaceSpec, ActionLanguage], ActionSpace]] = {
    "discrete": DiscreteActions,
    "parametrized": ParametrizedActions,
    "targeted": TargetedActions,
    "text": TextActions,
    "options": ChoiceActions,
    "mapping": MappingActions,
}


class ActionSpaces(Mapping[str, ActionSpace]):
    """The action spaces that a compiler declares, by name, in its order.

    Environments share them, and take a copy to sample from.

    Attributes:
        language: what they are selections of.
    """

    def __init__(
        self, specs: Sequence[ActionSpaceSpec], notation: Callable[[ActionLanguage], Notation | None] | None = None
    ) -> None:
        # All spaces of a compiler with options have the same options.
        options, program = next(((one.options, one.program) for one in specs if one.options), ((), ""))
        self.language = ActionLanguage(specs[0], options=options, program=program)
        for spec in specs[1:]:
            self.language.learn(spec)
        if notation is not None:
            self.language.notation = notation(self.language)
        kinds = {**_KINDS, "text": CommandLineActions} if options else _KINDS
        self._spaces = {spec.name: kinds[spec.kind](spec, self.language) for spec in specs}

    @property
    def first(self) -> ActionSpace:
        """The compiler's first space, which is the default."""
        return next(iter(self._spaces.values()))

    def choose(self, choice: ActionSpaceLike | None) -> ActionSpace:
        """Return a space with a random stream of its own: one by name, a given one, the first one if None.

        A list of texts becomes a discrete space; the caller checks that the compiler knows them.

        Raises:
            UnknownName: when there is no space of that name.
            InvalidAction: for a list of texts that is empty, or has one twice.
        """
        if choice is None:
            return self.first.unseeded()
        if isinstance(choice, ActionSpace):
            return choice.unseeded()
        if isinstance(choice, str):
            if choice not in self._spaces:
                raise UnknownName("action space", choice, self._spaces)
            return self._spaces[choice].unseeded()
        return DiscreteActions.of_texts("custom", list_of_texts(choice), self.language)

    def check(self, space: ActionSpace) -> None:
        """Raise InvalidAction for a space of another compiler, whose actions have other indices."""
        if space.language is not self.language and space.language.actions != self.language.actions:
            raise InvalidAction(f"the action space {space.name} is of another compiler, or another version of it")

    def __getitem__(self, name: str) -> ActionSpace:
        return self._spaces[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spaces)

    def __len__(self) -> int:
        return len(self._spaces)

    def __repr__(self) -> str:
        return f"ActionSpaces({', '.join(self._spaces)})"
