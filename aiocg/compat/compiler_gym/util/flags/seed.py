"""The flag `--seed`."""

from aiocg.compat.command_flags import define

define("integer", "seed", 0xCC, "What random numbers begin with.")
