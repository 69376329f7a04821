"""The flag `--episode_length`."""

from aiocg.compat.command_flags import define

define("integer", "episode_length", 5, "The number of steps in each episode.")
