"""Gym's registry of environments."""

from aiocg.compat.gym.envs import registration
from aiocg.compat.gym.envs.registration import make, register, registry, spec

__all__ = ["make", "register", "registration", "registry", "spec"]
