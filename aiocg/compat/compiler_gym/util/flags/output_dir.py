"""The flag `--output_dir`."""

from aiocg.compat.command_flags import define

define("string", "output_dir", None, "The folder that files are read from and written to.")
