"""Files of state transitions: logged once, read without a compiler."""

from aiocg.transitions.log import TransitionLog
from aiocg.transitions.merging import merge
from aiocg.transitions.reading import Conflict, Transition, Transitions
from aiocg.transitions.schema import TransitionsError

__all__ = ["Conflict", "Transition", "TransitionLog", "Transitions", "TransitionsError", "merge"]
