"""Gymnasium's spaces with the habits of Gym 0.21: `Discrete.sample` gives an int, `seed` a list."""

from aiocg.compat.gym.spaces.box import Box
from aiocg.compat.gym.spaces.dict import Dict
from aiocg.compat.gym.spaces.discrete import Discrete
from aiocg.compat.gym.spaces.multi_binary import MultiBinary
from aiocg.compat.gym.spaces.multi_discrete import MultiDiscrete
from aiocg.compat.gym.spaces.space import Space
from aiocg.compat.gym.spaces.tuple import Tuple
from aiocg.compat.gym.spaces.utils import flatdim, flatten, flatten_space, unflatten

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "MultiBinary",
    "MultiDiscrete",
    "Space",
    "Tuple",
    "flatdim",
    "flatten",
    "flatten_space",
    "unflatten",
]
