"""The flag `--episodes`."""

from aiocg.compat.command_flags import define

define("integer", "episodes", 2000, "The number of episodes to run.")
