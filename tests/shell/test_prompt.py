"""The prompt: what keys do. Its terminal is a pipe and a screen that nobody sees."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from aiocg.cli.shell._prompt import Prompt

from .conftest import Spoken

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one runtime for all of them


@pytest_asyncio.fixture(loop_scope="module")
async def converse(say: Spoken, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Type keys, one string after the other when what was typed before has been done, until the prompt ends."""
    with create_pipe_input() as keys:

        async def run(*typed: str) -> Prompt:
            prompt = Prompt(say.shell, tmp_path / "state" / "history", input=keys, output=DummyOutput())
            task = asyncio.create_task(prompt.run())
            async with asyncio.timeout(60):
                for text in typed:
                    await type_when_idle(keys, text)
                await task
            return prompt

        async def type_when_idle(keys: PipeInput, text: str) -> None:
            lines = len(say.shell.lines)
            keys.send_text(text)
            for _ in range(1000):
                await asyncio.sleep(0.02)
                if not say.shell.running and (not text.endswith("\r") or len(say.shell.lines) > lines):
                    break
            await asyncio.sleep(0.05)

        yield run


@pytest.mark.slow
async def test_lines_are_carried_out_and_ctrl_d_leaves(say: Spoken, converse: Callable[..., Any]) -> None:
    await converse("action double\r", "action increment\r", "\x04")
    assert say.shell.session.actions == ("double", "increment")


async def test_ctrl_c_clears_the_line(say: Spoken, converse: Callable[..., Any]) -> None:
    await converse("action doub", "\x03", "action increment\r", "exit\r")
    assert say.shell.session.actions == ("increment",)


async def test_a_line_that_fails_is_followed_by_the_next_prompt(say: Spoken, converse: Callable[..., Any]) -> None:
    await converse("acton double\r", "action crash\r", "action double\r", "exit\r")
    assert say.shell.session.actions == ("double",)
    assert "unknown command" in say.err
    assert "SIGSEGV" in say.err


async def test_lines_are_remembered_for_the_next_time(
    say: Spoken, converse: Callable[..., Any], tmp_path: Path
) -> None:
    await converse("action double\r", "\x04")
    assert "+action double" in (tmp_path / "state" / "history").read_text(encoding="utf-8")
    assert (tmp_path / "state" / "history").stat().st_mode & 0o077 == 0
    await converse("\x1b[A\r", "\x04")  # the arrow that goes up
    assert say.shell.session.actions == ("double", "double")


async def test_a_history_that_cannot_be_written_is_no_error(say: Spoken, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with create_pipe_input() as keys:
        prompt = Prompt(say.shell, tmp_path / "file" / "history", input=keys, output=DummyOutput())
        keys.send_text("\x04")
        await prompt.run()


@pytest.mark.slow
async def test_the_bottom_line_says_where_one_is(say: Spoken) -> None:
    with create_pipe_input() as keys:
        prompt = Prompt(say.shell, input=keys, output=DummyOutput())
    assert fragment_list_to_text(prompt.message()) == "aiocg scripted-v0/5> "
    assert fragment_list_to_text(prompt.toolbar()) == " scripted-v0/5  value 0.0000  0 actions"
    await say("action double nothing increment nothing increment")
    shown = fragment_list_to_text(prompt.toolbar())
    assert shown == " scripted-v0/5  value -7.0000  5 actions: … nothing, increment, nothing, increment"
    await say("set-default-reward")
    assert "value" not in fragment_list_to_text(prompt.toolbar())
