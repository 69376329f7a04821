"""All commands of the shell."""

from aiocg.cli.shell.command import CommandTable
from aiocg.cli.shell.commands.acting import ACTIONS, SEARCHING
from aiocg.cli.shell.commands.general import GENERAL
from aiocg.cli.shell.commands.looking import LOOKING, SETTINGS
from aiocg.cli.shell.commands.programs import FILES, PROGRAMS

COMMANDS = CommandTable([*GENERAL, *PROGRAMS, *ACTIONS, *SEARCHING, *LOOKING, *SETTINGS, *FILES])
"""The commands of `aiocg shell`, in the order of the help."""
