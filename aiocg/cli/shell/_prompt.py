"""The shell on a terminal: a prompt with completion and history, and a status line."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from aiocg.cli.output import counted
from aiocg.cli.shell._command import Suggestion, fragment_of
from aiocg.cli.shell._suggestions import commands, matching
from aiocg.cli.shell.interpreter import Shell

SHOWN = 4  # latest actions
WIDTH = 48  # of a name in the menu, leaving room for its description

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
    """Return the path of the history of typed lines."""
    return platformdirs.user_state_path("aiocg") / "shell_history"


def suggest(shell: Shell, text: str) -> list[Suggestion]:
    """Return completions of the last word of an incomplete line, best first."""
    words, word = fragment_of(text)
    if not words:
        return matching(word.replace("_", "-"), commands(shell, word))
    if words[0] not in shell.table:
        return []
    return matching(word, shell.table.find(words[0]).suggestions(shell, len(words) - 1, word))


class ShellCompleter(Completer):
    """Completes the lines of a shell."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Return the completions at the cursor."""
        text = document.text_before_cursor
        _, word = fragment_of(text)
        for suggestion in suggest(self._shell, text):
            shown = suggestion.text if len(suggestion.text) <= WIDTH else f"{suggestion.text[: WIDTH - 1]}…"
            yield Completion(suggestion.text, -len(word), display=shown, display_meta=suggestion.description)


class Prompt:
    """Reads lines, keeps them in a history file, if any, and executes them in a shell."""

    def __init__(
        self, shell: Shell, history: Path | None = None, *, input: Input | None = None, output: Output | None = None
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
        """Read and execute lines until the user leaves."""
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
        """Return the status line: the program, the reward, and the latest actions."""
        session = self._shell.session
        texts = session.actions
        latest = ", ".join(action if len(action) <= 20 else f"{action[:19]}…" for action in texts[-SHOWN:])
        done = counted(len(texts), "action")
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
    """Return the history in a file, or in memory if it cannot be written."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
