"""Asking a compiler which words it accepts, many at a time."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._failures import failure, problem
from aiocg.workers.gcc.runner import CommandRunner

_SECONDS = 20.0  # for a run of 20 ms: longer than under any load, less than a worker's start timeout
_TRIES = 3
_UNRELATED = frozenset({"crashed", "killed", "disk", "system", "timeout"})  # reasons that may be unrelated to the words
_LIKELY = frozenset({"crashed", "timeout"})  # of these, reasons that the words may cause if they persist

_PROGRAM = Path(__file__).with_name("trial.c").read_bytes()

# Words that have an effect only with others; alone the compiler reports that it disables them.
_COMPANIONS = {"-fassociative-math": ("-fno-signed-zeros", "-fno-trapping-math")}
_FOR_CXX = re.compile(r".*'(?P<word>[^']+)' is valid for (?:.*/)?C\+\+(?:/.*)? but not for C")
_VALUES = re.compile(r".*'(?P<name>[^']+)' are: (?P<values>[^;\n]+)")


class Trials:
    """Runs a compiler on a small program with words that it may reject.

    Failures unrelated to the words, such as a killed compiler, are retried, and raised if they persist.

    Attributes:
        for_cxx: words that the compiler reported as valid for C++ but not for C.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if it does not compile the program without any words.
    """

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner
        self.for_cxx: set[str] = set()
        status, usual = self._run([], "c")
        if status:
            said = f"{runner.name} cannot compile a small program: {usual.strip()}"
            raise CompilationError(FailureCode.COMPILER, said)
        self._usual = frozenset(_plain(usual).splitlines())  # messages that it prints without any words

    def refused(self, words: Sequence[str], language: str = "c") -> dict[str, str]:
        """Return the words that the compiler rejects on their own, with its messages.

        A warning counts as a rejection.
        """
        said = self._compile(words, language)
        if not said:
            return {}
        if len(words) == 1:
            return {words[0]: said}
        named = set(re.findall(r"-[\w.+:=-]*\w=?", said))
        suspects = [word for word in words if word in named or word[: word.find("=") + 1] in named]
        if not suspects:
            half = len(words) // 2
            return self.refused(words[:half], language) | self.refused(words[half:], language)
        guilty = {word: reason for word in suspects if (reason := self._compile([word], language))}
        rest = [word for word in words if word not in suspects]
        return guilty | (self.refused(rest, language) if rest else {})

    def values(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the values of options whose values are words; options are named up to their `=`."""
        said = _plain(self._run([f"{name}?" for name in names], "c")[1]) if names else ""
        found = (_VALUES.fullmatch(line) for line in said.splitlines())
        return {line["name"]: tuple(line["values"].split()) for line in found if line}

    def compiles_cxx(self) -> bool:
        """Return whether the compiler can compile C++."""
        return not self._compile([], "c++")

    def _compile(self, words: Sequence[str], language: str) -> str:
        """Return the compiler's objection to some words in one line; "" if it accepts them."""
        status, said = self._run(words, language)
        lines = []
        for line in _plain(said).splitlines():
            if language == "c" and (found := _FOR_CXX.fullmatch(line)):
                self.for_cxx.add(found["word"])
            elif line.strip() and line not in self._usual:
                lines.append(line.strip())
        return _brief(lines) or (f"the compiler ended with status {status}" if status else "")

    def _run(self, words: Iterable[str], language: str) -> tuple[int, str]:
        companions = [companion for word in words for companion in _COMPANIONS.get(word, ())]
        command = [self._runner.compiler, "-O2", "-S", "-o", "/dev/null", "-x", language, "-", *words, *companions]
        for _ in range(_TRIES):
            done = self._runner.run(command, folder=self._runner.root, timeout=_SECONDS, stdin=_PROGRAM)
            if (reason := problem(done)) not in _UNRELATED:
                break
        else:
            if reason not in _LIKELY:
                raise failure(reason, self._runner.name, "a small program", done, FailureCode.COMPILER)
        if done.stopped:
            return done.status or 1, f"a small program takes it too much {done.stopped}"
        return done.status, done.errors.decode(errors="replace")


def question(runner: CommandRunner, *words: str) -> str:
    """Return a compiler's output for `--help` and similar options.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if it fails.
    """
    done = runner.run([runner.compiler, *words], folder=runner.root, timeout=_SECONDS)
    if done.status != 0 or done.stopped:
        ended = f"no answer in {_SECONDS:g} s" if done.stopped == "timeout" else done.stopped or f"status {done.status}"
        said = done.errors.decode(errors="replace").strip() or ended
        if said.startswith("clang: "):  # such as that of macOS
            said = f"it is clang under another name. Say which GCC to use by gcc_bin, such as gcc-14 ({said})"
        raise CompilationError(FailureCode.COMPILER, f"{runner.name} {' '.join(words)} does not work: {said}")
    return done.output.decode(errors="replace")


def _plain(said: str) -> str:
    """Return a message with ASCII quotation marks, independent of the locale."""
    return said.replace("\u2018", "'").replace("\u2019", "'")


def _brief(lines: list[str]) -> str:
    """Return the line with the error, without the program's name."""
    for line in lines:
        if found := re.search(r"(?:error|warning): (.+)", line):
            return found[1]
    return lines[0] if lines else ""
