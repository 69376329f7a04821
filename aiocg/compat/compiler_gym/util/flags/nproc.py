"""The flag `--nproc`."""

from multiprocessing import cpu_count

from aiocg.compat.command_flags import define

define("integer", "nproc", cpu_count(), "How much is done at the same time.")
