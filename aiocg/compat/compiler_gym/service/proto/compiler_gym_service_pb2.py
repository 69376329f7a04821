"""The messages, by the name of the module that had them."""

from aiocg.compat.compiler_gym.service.proto import messages
from aiocg.compat.compiler_gym.service.proto.messages import *  # noqa: F403

__all__ = [*messages.__all__]
