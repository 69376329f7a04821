"""Commands about the shell itself."""

import asyncio
from importlib.resources import files

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import aiocg
from aiocg.cli.output import CommandError
from aiocg.cli.shell import suggestions
from aiocg.cli.shell.command import Command, Context, Result, Section, count_of
from aiocg.cli.shell.python import PythonPrompt

GENERAL = Section("The shell")
TUTORIAL = files("aiocg.cli.shell").joinpath("tutorial.md").read_text(encoding="utf-8")


@GENERAL.command("tutorial")
async def _tutorial(shell: Context, words: list[str]) -> Result:
    """Show how the commands go together."""
    return Markdown(TUTORIAL) if shell.console.is_terminal else Text(TUTORIAL)


@GENERAL.command("help [COMMAND]", "?", complete=suggestions.commands)
async def _show_help(shell: Context, words: list[str]) -> Result:
    """List the commands, or tell more of one.

    Example: help action
    """
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
    return Group(*parts)


def _about(command: Command) -> Text:
    text = Text(command.usage, style="bold cyan").append(f"\n{command.summary}", style="not bold default")
    if command.details:
        text.append(f"\n\n{command.details}", style="not bold default")
    if command.aliases:
        text.append(f"\n\nalso: {', '.join(command.aliases)}", style="not bold dim default")
    for example in command.examples:
        text.append(f"\nexample: {example}", style="not bold default")
    return text


@GENERAL.command("history [NUMBER]")
async def _history(shell: Context, words: list[str]) -> Result:
    """Show what was typed."""
    first = max(len(shell.lines) - count_of(words, len(shell.lines)), 0)
    lines = [f"{number:5}  {line}" for number, line in enumerate(shell.lines[first:], first + 1)]
    return Text("\n".join(lines))


@GENERAL.command("python [CODE]", "breakpoint", raw=True)
async def _python(shell: Context, words: list[str]) -> None:
    """Run Python beside the commands, with await.

    It has env, session, runtime, shell, and the modules aiocg and asyncio; what is done to env shows in the stack.
    Without CODE it asks for lines until Ctrl-D.

    Example: python await env.observe("IrInstructionCount"); python
    """
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


@GENERAL.command("exit", "quit", "EOF")
async def _leave(shell: Context, words: list[str]) -> None:
    """Leave; so does Ctrl-D."""
    shell.finished = True
