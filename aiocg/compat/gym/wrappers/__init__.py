"""Gym's wrappers, those that CompilerGym's scripts use."""

from aiocg.compat.gym.wrappers.time_limit import TimeLimit

__all__ = ["TimeLimit"]
