"""Lines as they are typed: several commands, and the words of one. Pure."""

from collections.abc import Container, Iterator

from aiocg.errors import AiocgError

__all__ = ["CommandError", "fragment_of", "split_commands", "split_words"]

_QUOTES = "'\""


class CommandError(AiocgError):
    """A command that cannot be carried out as it was given."""


def split_commands(text: str, raw: Container[str] = ()) -> list[str]:
    """Split lines at line ends and at semicolons outside of quotes and brackets; drop what is empty or a comment.

    Args:
        text: one line, or several. A line that begins with `#` is a comment.
        raw: names of commands whose argument is the rest of the line, whatever is in it.
    """
    return [command for line in text.splitlines() for command in _split_line(line, raw)]


def _split_line(line: str, raw: Container[str]) -> Iterator[str]:
    rest = line.strip()
    while rest and not rest.startswith("#"):
        if rest.split(maxsplit=1)[0] in raw:
            yield rest
            return
        end = _end_of_command(rest)
        if command := rest[:end].strip():
            yield command
        rest = rest[end + 1 :].strip()


def _end_of_command(text: str) -> int:
    depth, quote = 0, ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character == '"' or (character == "'" and _begins_word(text, position)):
            quote = character
        elif character in "<({[":
            depth += 1
        elif character in ">)}]":
            depth = max(depth - 1, 0)
        elif character == ";" and depth == 0:
            return position
    return len(text)


def _begins_word(text: str, position: int) -> bool:
    return position == 0 or text[position - 1].isspace() or text[position - 1] == ";"


def split_words(command: str) -> list[str]:
    """Split a command at white space outside of quotes.

    Quotes around a whole word are dropped; others belong to the word, as in `@"odd name"(sroa)`.

    Raises:
        CommandError: when a quote is not closed.
    """
    words, word, quote = [], "", ""
    for character in command:
        if quote:
            quote = "" if character == quote else quote
            word += character
        elif character.isspace():
            words.append(word)
            word = ""
        else:
            if character == '"' or (character == "'" and not word):
                quote = character
            word += character
    if quote:
        raise CommandError(f"there is a {quote} without another that closes it")
    return [_unquoted(word) for word in [*words, word] if word]


def _unquoted(word: str) -> str:
    whole = len(word) >= 2 and word[0] in _QUOTES and word.find(word[0], 1) == len(word) - 1
    return word[1:-1] if whole else word


def fragment_of(text: str) -> tuple[list[str], str]:
    """Return what is being typed: the finished words of the last command, and what there is of the next word."""
    command = text.lstrip()
    while (end := _end_of_command(command)) < len(command):
        command = command[end + 1 :].lstrip()
    words = command.split()
    if not words or command[-1].isspace():
        return words, ""
    return words[:-1], words[-1]
