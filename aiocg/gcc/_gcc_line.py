"""Converting lists of actions to command lines for GCC, and back."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from aiocg.datasets.frontend import LANGUAGES
from aiocg.datasets.source_tree import SourceTree
from aiocg.errors import InvalidAction, NotExpressible
from aiocg.gcc.compiler_spec import DOCKER
from aiocg.gcc.meaning import effects
from aiocg.spaces.actions import ActionLanguage, CommandLine
from aiocg.spaces.actions._command_line import OWN_WORDS
from aiocg.transport.options import UNSET

_STEP = re.compile(r"(.*)\[([+-]\d+)\]")
_MOST = 1000  # steps for one option; an end for numbers in the millions
_FILES = "-c input.c -o output.o"
_IN_IMAGE = 'docker run --rm -v "$PWD":/src -w /src'  # and the image; the folder is the one with the files
_ANY_IMAGE = re.compile(re.escape(_IN_IMAGE) + r" \S+ ")
_DATED = re.compile(rb"__(DATE|TIME)__")
_MAP, _SEED = OWN_WORDS
_DATE = "SOURCE_DATE_EPOCH=0"  # as workers set it


class GccLine:
    """The notation of GCC's actions as a command line that a shell takes::

        gcc -O2 -fno-gcse -c input.c -o output.o

    Writing gives the command line that the actions lead to, starting without options. If the program's files are on
    this machine, it names them, with all that the program needs, and makes the bytes of the environment's object file
    in the working directory. Reading gives one edit for each word and, for options with many values, as many steps as
    necessary. Lines for any compiler are read.

    Args:
        language: of the actions.
        compiler: that the line calls: a name, a path, or `docker:` and an image, which is run by `docker run`.
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

    def write(self, texts: Sequence[str], tree: SourceTree | None = None) -> str:
        """Return the command line that actions lead to.

        Args:
            texts: the actions.
            tree: the program's sources.

        Raises:
            NotExpressible: when one of them is no action.
        """
        _, *words = self._line.write(self.choices(texts)).split(" ")
        if tree is None or not tree.origin.strip("/"):
            return " ".join((self._compiler, *words, _FILES))
        if not all(os.path.isfile(os.path.join(tree.origin, unit)) for unit in tree.units):
            return " ".join((self._compiler, *words, _FILES))
        return " && ".join(commands(self._compiler, words, tree))

    write_exact = write

    def effects(self, texts: Sequence[str]) -> dict[str, str]:
        """Return the words of a line that may change what a program does, and how; raises as `write` does."""
        return dict(effects(self._line.write(self.choices(texts)).split(), self._line.options))

    def without_effects(self, texts: Sequence[str]) -> Sequence[str]:
        """Return a command line without such words; `-O3` stands for `-Ofast`. Raises as `write` does."""
        line = self._line.write(self.choices(texts)).split()
        changing = dict(effects(line, self._line.options))
        kept = ["-O3" if word == "-Ofast" else word for word in line if word == "-Ofast" or word not in changing]
        return [" ".join(kept)]

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
        """Return whether a line is a command line rather than a comma-separated list of edits."""
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


def commands(compiler: str, words: Sequence[str], tree: SourceTree) -> Iterator[str]:
    """Yield the commands for a shell that compile a program on this machine as workers do, and link its units.

    Args:
        compiler: the words by which a shell calls it.
        words: the options.
        tree: the program; its files are in its `origin`.
    """
    calling = compiler
    if compiler.startswith(_IN_IMAGE):
        there = shlex.quote(f"{tree.origin}:{tree.origin}:ro")
        calling = calling.replace(_IN_IMAGE, f"{_IN_IMAGE} -v {there}", 1)
    if any(map(_DATED.search, tree.files.values())):
        inside = calling != compiler
        calling = calling.replace(" -w ", f" -e {_DATE} -w ", 1) if inside else f"{_DATE} {calling}"
    own = [*map(shlex.quote, tree.flags), *(shlex.quote(f"-I{tree.origin}/{folder}") for folder in tree.include)]
    if tree.freestanding:
        own += ["-nostdinc", "-isystem", f'"$({compiler} -print-file-name=include)"']
    objects = []
    for number, unit in enumerate(tree.units):
        path, stem = os.path.join(tree.origin, unit), os.path.splitext(os.path.basename(unit))[0]
        stem = f"./{stem}" if stem.startswith("-") else stem
        objects.append(shlex.quote(f"{stem}.o" if len(tree.units) == 1 else f"{stem}.{number}.o"))
        language = "c" if unit in tree.units_in_c else tree.language
        given = [] if LANGUAGES.get(os.path.splitext(unit)[1]) == language else ["-x", language]
        names = [shlex.quote(f"{_MAP}{tree.origin}/="), shlex.quote(f"{_SEED}{unit}")]
        yield " ".join((calling, *own, *given, *names, *words, "-c", shlex.quote(path), "-o", objects[-1]))
    if len(objects) > 1:
        yield " ".join((calling, *map(shlex.quote, tree.flags), "-r -nostdlib -o program.o", *objects))


def _command(compiler: str) -> str:
    """Return the words by which a shell calls a compiler."""
    if compiler.startswith(DOCKER):
        return f"{_IN_IMAGE} {shlex.quote(compiler.removeprefix(DOCKER))} gcc"
    return shlex.quote(compiler)
