"""The shell on a terminal: a prompt that completes and remembers, and a line below it that says where one is."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from aiocg.shell.completion import ShellCompleter
from aiocg.shell.interpreter import Shell
from aiocg.shell.rendering import actions

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

__all__ = ["Prompt", "history_file"]

SHOWN = 4  # of the latest actions

STYLE = Style.from_dict(
    {
        "prompt": "bold ansigreen",
        "bottom-toolbar": "noreverse bg:ansibrightblack ansiwhite",
        "toolbar.benchmark": "bold",
        "toolbar.good": "bold ansigreen",
        "toolbar.bad": "bold ansired",
        "toolbar.dim": "nobold",
    }
)


def history_file() -> Path:
    """Return where the lines that were typed are kept, for the next time."""
    return platformdirs.user_state_path("aiocg") / "shell_history"


class Prompt:
    """Asks for lines and has a shell carry them out.

    Args:
        shell: whose lines they are.
        history: where lines are kept; nowhere if None.
        input, output: the terminal, if it is not that of the process.
    """

    def __init__(
        self,
        shell: Shell,
        history: Path | None = None,
        *,
        input: "Input | None" = None,
        output: "Output | None" = None,
    ) -> None:
        self._shell = shell
        self._session: PromptSession[str] = PromptSession(
            history=_history(history),
            auto_suggest=AutoSuggestFromHistory(),
            completer=ShellCompleter(shell),
            complete_while_typing=True,
            enable_suspend=True,
            complete_in_thread=True,  # a folder, or a list of names, may be slow to read
            bottom_toolbar=self.toolbar,
            style=STYLE,
            input=input,
            output=output,
        )

    async def run(self) -> None:
        """Ask and carry out, until somebody leaves."""
        while not self._shell.finished:
            try:
                with patch_stdout(raw=True):
                    line = await self._session.prompt_async(self.message(), handle_sigint=False)
            except KeyboardInterrupt:
                continue  # Ctrl-C clears the line
            except EOFError:
                return
            await self._shell.run(line)
            await asyncio.sleep(0)

    def message(self) -> StyleAndTextTuples:
        """Return the prompt: the program."""
        return [("class:prompt", f"aiocg {self._shell.session.benchmark_name}> ")]

    def toolbar(self) -> Any:
        """Return the line at the bottom: the program, what the actions earned, and the latest of them."""
        session = self._shell.session
        texts = session.actions
        latest = ", ".join(action if len(action) <= 20 else f"{action[:19]}…" for action in texts[-SHOWN:])
        done = actions(len(texts))
        if texts:
            done += f": {'… ' if len(texts) > SHOWN else ''}{latest}"
        parts: StyleAndTextTuples = [("class:toolbar.benchmark", f" {session.benchmark_name}")]
        total = session.present.total
        if session.env.reward_space is not None and total is not None:
            style = "class:toolbar.good" if total > 0 else "class:toolbar.bad" if total < 0 else "class:toolbar.dim"
            parts += [("class:toolbar.dim", f"  {session.env.reward_space} "), (style, f"{total:.4f}")]
        parts.append(("class:toolbar.dim", f"  {done}"))
        return parts


def _history(path: Path | None) -> History:
    """Return the history in a file, or one that is forgotten where that file cannot be written."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
