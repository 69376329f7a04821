"""The base of all spaces."""

import gymnasium

__all__ = ["Space"]

Space = gymnasium.Space
