"""The old home of `ValidationError`, which moved to `compiler_gym.errors`."""

from aiocg.compat.compiler_gym.errors import ValidationError

__all__ = ["ValidationError"]
