"""Gym's wrappers, those that scripts for CompilerGym use."""

from aiocg.compat.gym.wrappers.statistics import RecordEpisodeStatistics
from aiocg.compat.gym.wrappers.time_limit import TimeLimit
from aiocg.compat.gym.wrappers.transformations import FlattenObservation, TransformObservation, TransformReward

__all__ = ["FlattenObservation", "RecordEpisodeStatistics", "TimeLimit", "TransformObservation", "TransformReward"]
