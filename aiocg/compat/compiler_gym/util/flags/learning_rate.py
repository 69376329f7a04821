"""The flag `--learning_rate`."""

from aiocg.compat.command_flags import define

define("float", "learning_rate", 0.008, "The learning rate for training.")
