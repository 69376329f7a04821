"""Files of state transitions: logged once, read without a compiler."""

from aiocg.transitions._merging import merge
from aiocg.transitions._schema import TransitionsError
from aiocg.transitions.log import TransitionLog
from aiocg.transitions.reading import Conflict, Transition, Transitions

__all__ = ["Conflict", "Transition", "TransitionLog", "Transitions", "TransitionsError", "merge"]
