"""Brings results to the terminal, long ones through a pager, or as they are to wherever the output goes."""

import asyncio
import contextlib
import os
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Paged", "Source", "show"]

HIGHLIGHTED = 300_000  # characters: what is longer is not worth the seconds that colours take


@dataclass(frozen=True, slots=True)
class Paged:
    """A result that may be longer than a screen.

    Attributes:
        content: what is to be shown.
    """

    content: "RenderableType"

    def __rich__(self) -> "RenderableType":
        return self.content


@dataclass(frozen=True, slots=True)
class Source:
    """Text that is shown as it is, down to the last character; on a terminal in colours.

    Attributes:
        text: the text.
        language: what Pygments calls its language; empty for none.
    """

    text: str
    language: str = ""

    def rendered(self) -> "RenderableType":
        """Return it in colours."""
        if not self.language or len(self.text) > HIGHLIGHTED:
            return Text(self.text)
        text = Syntax(self.text, self.language, background_color="default", theme="ansi_dark").highlight(self.text)
        text.rstrip()  # it ends in a line end, whether the text does or not
        return text

    def __rich__(self) -> "RenderableType":
        return self.rendered()


async def show(console: Console, result: "RenderableType | None", *, paging: bool = False) -> None:
    """Print what a command returned.

    Args:
        console: where to.
        result: None for nothing.
        paging: there is somebody who can turn pages.
    """
    if result is None:
        return
    if isinstance(result, Source) and not console.is_terminal:
        console.file.write(result.text if result.text.endswith("\n") else f"{result.text}\n")
        console.file.flush()
        return
    if not isinstance(result, (Paged, Source)) or not (paging and console.is_terminal):
        console.print(result, soft_wrap=isinstance(result, Source | Text))
        return
    with console.capture() as capture:
        console.print(result, soft_wrap=isinstance(result, Source))
    text = capture.get()
    if text.count("\n") < console.height - 1 or not await _page(text):
        console.file.write(text)
        console.file.flush()


async def _page(text: str) -> bool:
    """Show text in the user's pager; return whether there is one."""
    command = shlex.split(os.environ.get("AIOCG_PAGER") or os.environ.get("PAGER") or "less")
    if not command or shutil.which(command[0]) is None:
        return False
    environment = {"LESS": "FRX", **os.environ}  # as git does: colours, and no page for what fits on the screen
    pager = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, env=environment)
    assert pager.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it was left early
        pager.stdin.write(text.encode())
        await pager.stdin.drain()
    pager.stdin.close()
    await pager.wait()
    return True

