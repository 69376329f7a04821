"""The `aiocg` command; one module per group of subcommands."""

from aiocg.cli.app import main

__all__ = ["main"]
