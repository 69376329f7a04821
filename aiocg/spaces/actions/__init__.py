"""Action spaces: different selections from the one language of actions that a compiler understands."""

from aiocg.spaces.actions.catalog import ActionSpaceLike, ActionSpaces
from aiocg.spaces.actions.command_line import PROGRAM, ChoiceLine, CommandLine
from aiocg.spaces.actions.discrete import DiscreteActions
from aiocg.spaces.actions.free_text import TextActions
from aiocg.spaces.actions.language import (
    ActionLanguage,
    Notation,
    is_name,
    join_texts,
    list_of_texts,
    split_list,
    split_texts,
)
from aiocg.spaces.actions.mapping import MappingActions
from aiocg.spaces.actions.options import ChoiceActions, CommandLineActions, LimitedChoiceActions, OptionActions
from aiocg.spaces.actions.space import ActionSpace
from aiocg.spaces.actions.targeted import ParametrizedActions, TargetedActions

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
    "split_list",
    "split_texts",
]
