"""The page about the shell: its conversation is what the shell says, and its table has all commands."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

import aiocg
from aiocg.cli.shell._commands import COMMANDS
from aiocg.cli.shell.interpreter import Shell
from aiocg.cli.shell.session import ShellSession

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "shell.md").read_text(encoding="utf-8")
PROMPT = "aiocg programs-v0/gcd> "


def conversation() -> list[tuple[str, str]]:
    """Return the lines that are typed on the page, and what comes of each."""
    said = []
    for block in re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for part in block.split(PROMPT)[1:]:
            line, _, answer = part.partition("\n")
            said.append((line, answer))
    return [(line, answer) for line, answer in said if answer]


@pytest.mark.slow
async def test_the_conversation_of_the_page_is_what_the_shell_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = conversation()
    assert len(said) > 10
    async with aiocg.Runtime(workers=2) as runtime:
        session = await ShellSession.open(runtime, "llvm-ic-v0", benchmark="programs-v0/gcd")
        if "23.1" not in session.env.compiler_version:
            pytest.skip(f"the page is of LLVM 23.1, this is {session.env.compiler_version}")
        for line, answer in said:
            out = io.StringIO()
            console = Console(file=out, width=88, highlight=False)
            errors = Console(file=out, width=88, highlight=False, soft_wrap=True)
            await Shell(session, console, errors).run(line)
            assert [text.rstrip() for text in out.getvalue().splitlines()] == answer.splitlines(), line


def test_the_table_of_the_page_has_every_command_as_the_help_has_it() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{command.usage}` | {', '.join(f'`{name}`' for name in command.aliases)} | {command.summary} |"
        for command in COMMANDS
    ]
