"""Action and observation spaces, in terms of Gymnasium."""

from aiocg.spaces.action import ActionSpace
from aiocg.spaces.observation import ObservationSpace
from aiocg.spaces.scalar import Scalar
from aiocg.spaces.sequence import Binary, Json, Text, Texts, VariableArray

__all__ = ["ActionSpace", "Binary", "Json", "ObservationSpace", "Scalar", "Text", "Texts", "VariableArray"]
