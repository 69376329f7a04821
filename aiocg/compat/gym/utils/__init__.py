"""Gym's helpers."""

from aiocg.compat.gym.utils import seeding
from aiocg.compat.gym.utils.ezpickle import EzPickle

__all__ = ["EzPickle", "seeding"]
