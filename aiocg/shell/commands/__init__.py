"""All commands of the shell; one module per section of the help."""

from aiocg.shell.command import CommandTable
from aiocg.shell.commands.acting import COMMANDS as ACTING
from aiocg.shell.commands.files import COMMANDS as FILES
from aiocg.shell.commands.general import COMMANDS as GENERAL
from aiocg.shell.commands.looking import COMMANDS as LOOKING
from aiocg.shell.commands.programs import COMMANDS as PROGRAMS
from aiocg.shell.commands.searching import COMMANDS as SEARCHING
from aiocg.shell.commands.settings import COMMANDS as SETTINGS

__all__ = ["COMMANDS"]

COMMANDS: CommandTable = CommandTable(
    [
        *GENERAL,
        *PROGRAMS,
        *ACTING,
        *SEARCHING,
        *LOOKING,
        *SETTINGS,
        *FILES,
    ]
)
"""The commands of `aiocg shell`, in the order of the help."""
