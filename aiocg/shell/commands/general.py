"""Commands about the shell itself."""

import asyncio
from typing import TYPE_CHECKING

from rich.console import Group
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import aiocg
from aiocg.shell import suggestions
from aiocg.shell.command import Argument, Command, count_of
from aiocg.shell.line import CommandError
from aiocg.shell.output import Paged
from aiocg.shell.python import PythonPrompt
from aiocg.shell.tutorial import TUTORIAL

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.shell.interpreter import Shell

__all__ = ["COMMANDS"]

SECTION = "The shell"


async def tutorial(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show the tutorial."""
    return Paged(Markdown(TUTORIAL) if shell.console.is_terminal else Text(TUTORIAL))


async def show_help(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show all commands, or all about one."""
    if words:
        return _about(shell.table.find(words[0]))
    parts: list[RenderableType] = []
    for section in dict.fromkeys(command.section for command in shell.table):
        grid = Table(title=section, box=None, show_header=False, title_justify="left", title_style="bold")
        grid.add_column(no_wrap=True, min_width=32)
        grid.add_column()
        for command in shell.table:
            if command.section == section:
                grid.add_row(Text(command.usage, style="cyan"), escape(command.summary))
        parts += [grid, ""]
    parts.append(
        "`help COMMAND` tells more of one, `tutorial` shows how they go together. Tab completes, Ctrl-C interrupts, "
        "Ctrl-D leaves; several commands go on a line with ; between."
    )
    return Paged(Group(*parts))


def _about(command: Command) -> Text:
    text = Text(command.usage, style="bold cyan").append(f"\n{command.summary}", style="not bold default")
    if command.details:
        text.append(f"\n\n{command.details}", style="not bold default")
    if command.aliases:
        text.append(f"\n\nalso: {', '.join(command.aliases)}", style="not bold dim default")
    for example in command.examples:
        text.append(f"\nexample: {example}", style="not bold default")
    return text


async def history(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show what was typed."""
    limit = count_of(words, len(shell.lines)) if words else len(shell.lines)
    first = max(len(shell.lines) - limit, 0)
    lines = [f"{number:5}  {line}" for number, line in enumerate(shell.lines[first:], first + 1)]
    return Paged(Text("\n".join(lines)))


async def python(shell: "Shell", words: list[str]) -> None:
    """Run Python on the event loop of the shell, where `env` and the rest can be awaited."""
    session = shell.session
    variables = {"env": session.env, "session": session, "runtime": session.runtime, "shell": shell}
    prompt = PythonPrompt({**variables, "aiocg": aiocg, "asyncio": asyncio}, shell.console)
    try:
        if not words and not shell.interactive:
            raise CommandError("python needs CODE where there is no terminal to type it on")
        if not words:
            shell.progress.stop()
            await prompt.converse()
        elif not await prompt.run(words[0]):
            raise CommandError(f"there must be more of this Python: {words[0]}")
    finally:
        await session.adopt()


async def leave(shell: "Shell", words: list[str]) -> None:
    """Leave the shell."""
    shell.finished = True


COMMANDS: tuple[Command, ...] = (
    Command("tutorial", SECTION, "show how the commands go together", tutorial),
    Command(
        "help",
        SECTION,
        "list the commands, or tell more of one",
        show_help,
        (Argument("COMMAND", suggestions.commands, optional=True),),
        aliases=("?",),
        examples=("help action",),
    ),
    Command("history", SECTION, "show what was typed", history, (Argument("NUMBER", optional=True),)),
    Command(
        "python",
        SECTION,
        "run Python beside the commands, with await",
        python,
        (Argument("CODE", optional=True),),
        aliases=("breakpoint",),
        details=(
            "It has env, session, runtime, shell, and the modules aiocg and asyncio; what is done to env shows in the "
            "stack. Without CODE it asks for lines until Ctrl-D."
        ),
        examples=('python await env.observe("IrInstructionCount")', "python"),
        raw=True,
    ),
    Command("exit", SECTION, "leave; so does Ctrl-D", leave, aliases=("quit", "EOF")),
)
