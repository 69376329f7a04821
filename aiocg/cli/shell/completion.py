"""Completion of the word at the cursor, with a line about each suggestion."""

from collections.abc import Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from aiocg.cli.shell.command import Suggestion
from aiocg.cli.shell.interpreter import Shell
from aiocg.cli.shell.line import fragment_of
from aiocg.cli.shell.suggestions import commands, matching

WIDTH = 48  # of a name in the menu, leaving room for its description


def suggest(shell: Shell, text: str) -> list[Suggestion]:
    """Return completions of the last word of an incomplete line, best first."""
    words, word = fragment_of(text)
    if not words:
        return matching(word.replace("_", "-"), commands(shell, word))
    if words[0] not in shell.table:
        return []
    argument = shell.table.find(words[0]).argument(len(words) - 1)
    if argument is None or argument.complete is None:
        return []
    return matching(word, argument.complete(shell, word))


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
