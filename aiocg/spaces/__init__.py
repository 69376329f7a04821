"""Action and observation spaces, in terms of Gymnasium."""

from aiocg.spaces.actions import (
    ActionSpace,
    DiscreteActions,
    ParametrizedActions,
    TargetedActions,
    TextActions,
)
from aiocg.spaces.observation import ObservationSpace
from aiocg.spaces.scalar import Scalar
from aiocg.spaces.sequence import Binary, Json, Text, Texts, VariableArray

__all__ = [
    "ActionSpace",
    "Binary",
    "DiscreteActions",
    "Json",
    "ObservationSpace",
    "ParametrizedActions",
    "Scalar",
    "TargetedActions",
    "Text",
    "TextActions",
    "Texts",
    "VariableArray",
]
