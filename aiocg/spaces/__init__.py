"""Action and observation spaces, in terms of Gymnasium."""

from aiocg.spaces._observation import Binary, Json, ObservationSpace, SpaceSequence, Text, Texts, VariableArray
from aiocg.spaces.actions import (
    ActionSpace,
    ChoiceActions,
    CommandLineActions,
    CommandlineFlag,
    DiscreteActions,
    LimitedChoiceActions,
    MappingActions,
    OptionActions,
    ParametrizedActions,
    TargetedActions,
    TextActions,
)
from aiocg.spaces.scalar import NoObservation, Scalar

__all__ = [
    "ActionSpace",
    "Binary",
    "ChoiceActions",
    "CommandLineActions",
    "CommandlineFlag",
    "DiscreteActions",
    "Json",
    "LimitedChoiceActions",
    "MappingActions",
    "NoObservation",
    "ObservationSpace",
    "OptionActions",
    "ParametrizedActions",
    "Scalar",
    "SpaceSequence",
    "TargetedActions",
    "Text",
    "TextActions",
    "Texts",
    "VariableArray",
]
