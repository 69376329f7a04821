"""Names of types, and the value that says that an argument was not given."""

from enum import Enum
from typing import Any, TypeVar

__all__ = [
    "ActionType",
    "DoneType",
    "InfoType",
    "JsonDictType",
    "ObservationType",
    "OptionalArgumentValue",
    "RewardType",
    "StepType",
]


class OptionalArgumentValue(Enum):
    """What an argument is that was not given, where None says something."""

    UNCHANGED = 1


JsonDictType = dict[str, Any]
ObservationType = TypeVar("ObservationType")
ActionType = TypeVar("ActionType")
RewardType = float
DoneType = bool
InfoType = JsonDictType
StepType = tuple[Any, Any, DoneType, InfoType]
