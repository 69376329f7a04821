"""Lists of actions as command lines for GCC: those that they lead to, and back."""

import re
import shlex
from collections.abc import Iterator, Sequence

from aiocg.errors import InvalidAction, NotExpressible
from aiocg.gcc.images import DOCKER
from aiocg.spaces.actions import ActionLanguage, CommandLine
from aiocg.transport.options import UNSET

__all__ = ["GccLine"]

_STEP = re.compile(r"(.*)\[([+-]\d+)\]")
_MOST = 1000  # steps for one option; an end for numbers in the millions
_FILES = "-c input.c -o output.o"
_IN_IMAGE = 'docker run --rm -v "$PWD":/src -w /src'  # and the image; the folder is the one with the files
_ANY_IMAGE = re.compile(re.escape(_IN_IMAGE) + r" \S+ ")


class GccLine:
    """The notation of GCC's actions as a command line that a shell takes::

        gcc -O2 -fno-gcse -c input.c -o output.o

    It is the command line that the actions lead to, from no option given. Read as a list of actions it is one edit for
    each word and, for a number of an option with many, as many steps as lead there. A line of any compiler is read.

    Args:
        language: of the actions.
        compiler: that the line calls: a name, a path, or `docker:` and an image, which is run by `docker run` then.
    """

    def __init__(self, language: ActionLanguage, compiler: str = "gcc") -> None:
        self._compiler = _command(compiler)
        self._line = language.line if language.line is not None else CommandLine(())
        self._edits = frozenset(language.names)
        self._indices = {option.name: i for i, option in enumerate(self._line.options)}
        steps = [found for name in language.names if (found := _STEP.fullmatch(name)) is not None]
        self._steps: dict[str, list[int]] = {}  # upwards, by the name of the option, the greatest first
        for name, step in sorted(((found[1], int(found[2])) for found in steps), reverse=True):
            if step > 0:
                self._steps.setdefault(name, []).append(step)

    def write(self, texts: Sequence[str]) -> str:
        """Return the command line that actions lead to.

        Raises:
            NotExpressible: when one of them is no action.
        """
        _, *words = self._line.write(self.choices(texts)).split(" ")
        return " ".join((self._compiler, *words, _FILES))

    def choices(self, texts: Sequence[str]) -> list[int]:
        """Return the choice for every option that actions lead to.

        Raises:
            NotExpressible: when one of them is no action.
        """
        choices = [UNSET] * len(self._line.options)
        for text in texts:
            try:
                choices = self._after(choices, text)
            except InvalidAction as error:
                raise NotExpressible(f"{text!r} is no action of this compiler: {error}") from error
        return choices

    def _after(self, choices: list[int], text: str) -> list[int]:
        """Return the choices after an action, as a worker does it."""
        if text not in self._edits:
            if not self._line.begins(text):
                raise InvalidAction("it is no edit, and does not begin with gcc")
            return self._line.read(text)
        if (step := _STEP.fullmatch(text)) is not None:
            index = self._indices[step[1]]
            choice = min(max(choices[index] + int(step[2]), UNSET), len(self._line.options[index]) - 1)
        else:
            index, choice = self._line.read_word(text)
        return [*choices[:index], choice, *choices[index + 1 :]]

    def recognises(self, line: str) -> bool:
        """Is a line a command line, rather than a list of edits with commas between?"""
        begun = line.startswith((f"{self._compiler} ", f"{_IN_IMAGE} ")) or self._line.begins(line)
        return begun or (" " in line.strip() and "," not in line)

    def read(self, line: str) -> list[Sequence[str]]:
        """Return the edits that lead to a command line.

        Raises:
            InvalidAction: when it has a word that is no option.
        """
        line = line.removeprefix(f"{self._compiler} ")  # which may have a name that no other compiler has
        choices = enumerate(self._line.read(_ANY_IMAGE.sub("", line, count=1)))
        return [(text,) for index, choice in choices if choice != UNSET for text in self._edits_of(index, choice)]

    def _edits_of(self, index: int, choice: int) -> Iterator[str]:
        option = self._line.options[index]
        word = option.word(choice)
        left = choice - UNSET
        counts = []
        for step in self._steps.get(option.name, ()):
            count, left = divmod(left, step)
            counts.append((f"{option.name}[{step:+}]", count))
        if left or word in self._edits or sum(count for _, count in counts) > _MOST:
            yield word
        else:
            for name, count in counts:
                yield from [name] * count


def _command(compiler: str) -> str:
    """Return the words by which a shell calls a compiler."""
    if compiler.startswith(DOCKER):
        return f"{_IN_IMAGE} {shlex.quote(compiler.removeprefix(DOCKER))} gcc"
    return shlex.quote(compiler)
