"""Parsing typed lines into commands and words. Pure."""

from collections.abc import Container, Iterator

from aiocg.cli.output import CommandError

__all__ = ["CommandError", "fragment_of", "split_commands", "split_words"]


def split_commands(text: str, raw: Container[str] = ()) -> list[str]:
    """Split at line ends and at semicolons outside of quotes and brackets; drop empty lines and comments.

    Args:
        text: one or more lines. Comments begin with `#`.
        raw: names of commands whose argument is the unparsed rest of the line.
    """
    return [command for line in text.splitlines() for command in _split_line(line, raw)]


def _split_line(line: str, raw: Container[str]) -> Iterator[str]:
    rest = line.strip()
    while rest and not rest.startswith("#"):
        end = len(rest) if rest.split(maxsplit=1)[0] in raw else _end_of_command(rest)
        if command := rest[:end].strip():
            yield command
        rest = rest[end + 1 :].strip()


def _end_of_command(text: str) -> int:
    depth = 0
    for position, (character, inside) in enumerate(zip(text, _quoted(text)[0], strict=True)):
        if inside:
            continue
        if character in "<({[":
            depth += 1
        elif character in ">)}]":
            depth = max(depth - 1, 0)
        elif character == ";" and depth == 0:
            return position
    return len(text)


def _quoted(text: str) -> tuple[list[bool], str]:
    """Return which characters are quoted, and the quote open at the end, if any."""
    inside, quote = [], ""
    for position, character in enumerate(text):
        inside.append(bool(quote))
        if quote:
            quote = "" if character == quote else quote
        elif character == '"' or (character == "'" and (position == 0 or text[position - 1] in " \t;")):
            quote = character  # not an apostrophe within a word
    return inside, quote


def split_words(command: str) -> list[str]:
    """Split a command at white space outside of quotes.

    Quotes around a whole word are dropped; others belong to the word, as in `@"odd name"(sroa)`.

    Raises:
        CommandError: when a quote is not closed.
    """
    quoted, quote = _quoted(command)
    if quote:
        raise CommandError(f"there is a {quote} without another that closes it")
    spaced = "".join("\n" if one.isspace() and not inside else one for one, inside in zip(command, quoted, strict=True))
    return [word[1:-1] if _is_quoted(word) else word for word in spaced.split("\n") if word]


def _is_quoted(word: str) -> bool:
    return len(word) >= 2 and word[0] in "'\"" and word.find(word[0], 1) == len(word) - 1


def fragment_of(text: str) -> tuple[list[str], str]:
    """Return the finished words of the last command, and the beginning of the next word."""
    command = text.lstrip()
    while (end := _end_of_command(command)) < len(command):
        command = command[end + 1 :].lstrip()
    words = command.split()
    if not words or command[-1].isspace():
        return words, ""
    return words[:-1], words[-1]
