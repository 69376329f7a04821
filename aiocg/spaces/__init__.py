"""Action and observation spaces, in terms of Gymnasium."""

from aiocg.spaces._observation import (
    Binary,
    Json,
    NoObservation,
    ObservationSpace,
    Scalar,
    SpaceSequence,
    Text,
    Texts,
    VariableArray,
)
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
