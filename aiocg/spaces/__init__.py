"""Action and observation spaces, in terms of Gymnasium."""

from aiocg.spaces._named import Commandline, CommandlineFlag, NamedDiscrete
from aiocg.spaces._observation import ObservationSpace
from aiocg.spaces._sequence import Binary, Json, SpaceSequence, Text, Texts, VariableArray
from aiocg.spaces.actions import (
    ActionSpace,
    ChoiceActions,
    CommandLineActions,
    DiscreteActions,
    LimitedChoiceActions,
    MappingActions,
    OptionActions,
    ParametrizedActions,
    TargetedActions,
    TextActions,
)
from aiocg.spaces.scalar import NoObservation, Permutation, Scalar

__all__ = [
    "ActionSpace",
    "Binary",
    "ChoiceActions",
    "CommandLineActions",
    "Commandline",
    "CommandlineFlag",
    "DiscreteActions",
    "Json",
    "LimitedChoiceActions",
    "MappingActions",
    "NamedDiscrete",
    "NoObservation",
    "ObservationSpace",
    "OptionActions",
    "ParametrizedActions",
    "Permutation",
    "Scalar",
    "SpaceSequence",
    "TargetedActions",
    "Text",
    "TextActions",
    "Texts",
    "VariableArray",
]
