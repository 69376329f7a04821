"""Spaces as flat arrays."""

from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten

__all__ = ["flatdim", "flatten", "flatten_space", "unflatten"]
