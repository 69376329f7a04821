"""Discovering a compiler's options: they are read from its help, checked by compiling, and cached in a file."""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec

from aiocg.transport.messages import FailureCode
from aiocg.transport.options import Option
from aiocg.workers.compilation import CompilationError
from aiocg.workers.files import replace_file
from aiocg.workers.gcc._compilation import failure, problem
from aiocg.workers.gcc._proposals import CompilerOptions, Dropped, Proposal, ceiling, exclusion, propose, read_help
from aiocg.workers.gcc._runner import CommandRunner
from aiocg.workers.shared_table import locked

PATIENCE = 120.0  # seconds to wait for another process's discovery; less than a worker's start timeout
_FORMAT = 1  # increase when discovery finds other options for the same compiler, or the file format changes


# ------------------------------------------------------------- Asking a compiler which words it accepts, many at a time

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


# ----------------------------- Checking proposed options against the compiler: rejected ones are removed from the space


def check(proposals: Sequence[Proposal], trials: Trials) -> tuple[list[Option], list[Dropped]]:
    """Return the options and choices that the compiler accepts, and those that it rejects.

    Each word of an option and both ends of each range are tried. A flag whose positive form is rejected is dropped. If
    an end of a range is rejected, the range is cut at the next accepted power of two.
    """
    answers = trials.values([f"{proposal.option.name}=" for proposal in proposals if proposal.ask])
    options = [_with_values(proposal.option, answers.get(f"{proposal.option.name}=", ())) for proposal in proposals]
    refused = _refused(options, trials)
    kept, dropped = [], []
    for option in options:
        found, lost = _kept(option, refused, trials)
        kept += found
        dropped += lost
    return kept, dropped


def _with_values(option: Option, values: tuple[str, ...]) -> Option:
    """Turn an option into one with words, if the compiler lists its words."""
    if not values:
        return option
    kind = "param" if option.kind == "param" else "enum"
    texts = (*option.texts, *[f"{option.name}={value}" for value in values])
    return msgspec.structs.replace(option, kind=kind, texts=texts, template="", low=0, high=-1)


def _refused(options: Iterable[Option], trials: Trials) -> dict[str, str]:
    """Return the words and range ends that the compiler rejects, with its reasons.

    One compile tries one word of each option at once. Flags and parameters are tried separately: a flag that disables
    a pass would hide what the pass says about a parameter.
    """
    refused: dict[str, str] = {}
    groups: dict[bool, list[list[str]]] = {}
    for option in options:
        groups.setdefault(option.kind == "param", []).append(list(_words(option)))
    for group in groups.values():
        for turn in zip_longest(*group):
            refused |= trials.refused([word for word in turn if word is not None])
    if trials.for_cxx and trials.compiles_cxx():
        refused |= trials.refused(sorted(trials.for_cxx), "c++")
    return refused


def _words(option: Option) -> Iterator[str]:
    """Yield the words to try for an option."""
    yield from option.texts
    if option.template:
        yield _number(option, option.low)
        yield _number(option, option.high)


def _number(option: Option, number: int) -> str:
    return option.template.replace("{}", str(number))


def _kept(option: Option, refused: dict[str, str], trials: Trials) -> tuple[list[Option], list[Dropped]]:
    lost = [Dropped(text, refused[text]) for text in option.texts if text in refused]
    if option.kind == "flag" and option.texts[0] in refused:
        return [], [Dropped(option.name, refused[option.texts[0]])]
    texts = tuple([text for text in option.texts if text not in refused])
    low, high, template = option.low, option.high, option.template
    if template:
        ends = [_number(option, low), _number(option, high)]
        lost += [Dropped(end, refused[end]) for end in ends if end in refused]
        if ends[0] in refused:
            low = _first_taken(option, _upwards(low, high), trials)
        if ends[1] in refused:
            high = _first_taken(option, _downwards(low, high), trials) if low <= high else low - 1
        if low > high:
            low, high, template = 0, -1, ""
    if not texts and not template:
        return [], [Dropped(option.name, lost[0].reason if lost else "has no choices")]
    return [msgspec.structs.replace(option, texts=texts, template=template, low=low, high=high)], lost


def _upwards(low: int, high: int) -> list[int]:
    return [number for number in (0, *[2**power for power in range(31)]) if low < number <= high] + [high + 1]


def _downwards(low: int, high: int) -> list[int]:
    return [number for number in [2**power for power in range(30, -1, -1)] if low <= number < high] + [low - 1]


def _first_taken(option: Option, numbers: Sequence[int], trials: Trials) -> int:
    """Return the first number that the compiler accepts, or the last one if it accepts none."""
    for number in numbers[:-1]:
        if not trials.refused([_number(option, number)]):
            return number
    return numbers[-1]


# ------------------------------------------------------------------------------------- Discovering a compiler's options


class _Content(msgspec.Struct, frozen=True):
    """The file's content; `format`, `compiler` and `version` must match."""

    format: int
    compiler: str
    version: str
    found: CompilerOptions


class OptionsFile:
    """JSON files in a folder, one for each compiler and version.

    A file that is damaged, empty, or for another compiler or format is ignored, and a failed write is not an error.
    """

    def __init__(self, folder: str, compiler: str, version: str) -> None:
        self._folder = folder
        self._compiler = compiler
        self._version = version
        name = hashlib.sha256(f"{compiler}\n{version}".encode(errors="surrogateescape")).hexdigest()[:24]
        self._path = os.path.join(folder, f"gcc-options-{name}.json") if folder else ""

    def get(self, discover: Callable[[], CompilerOptions]) -> CompilerOptions:
        """Return the cached options, or discover and cache them under a lock.

        A process that holds the lock for longer than `PATIENCE`, perhaps because it is stopped, is not waited for.
        """
        if found := self._read():
            return found
        with locked(f"{self._path}.lock", PATIENCE) if self._path else contextlib.nullcontext():
            if found := self._read():
                return found
            found = discover()
            self._write(found)
            return found

    def _read(self) -> CompilerOptions | None:
        if not self._path:
            return None
        try:
            with open(self._path, "rb") as file:
                content = msgspec.json.decode(file.read(), type=_Content)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        wanted = (_FORMAT, self._compiler, self._version)
        is_right = (content.format, content.compiler, content.version) == wanted and content.found.options
        return content.found if is_right else None

    def _write(self, found: CompilerOptions) -> None:
        if not self._path:
            return
        content = msgspec.json.encode(_Content(_FORMAT, self._compiler, self._version, found))
        with contextlib.suppress(OSError):
            replace_file(Path(self._path), msgspec.json.format(content, indent=1))


_TOPICS = ("optimizers", "params")


def discover(runner: CommandRunner, cache_dir: str = "") -> CompilerOptions:
    """Return the options of a compiler.

    The first call takes about a hundred small compiles, later ones a single run of the compiler. If several processes
    start at once, one discovers the options and the others wait.

    Args:
        runner: runs the compiler.
        cache_dir: the folder for the cached options; "" for none. A folder that cannot be written is not an error.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if there is no GCC, or it does not list its options.
    """
    version = question(runner, "--version").partition("\n")[0].strip()
    return OptionsFile(cache_dir, runner.identity, version).get(lambda: _discovered(runner, version))


def _discovered(runner: CommandRunner, version: str) -> CompilerOptions:
    trials = Trials(runner)
    entries = [
        entry
        for topic in _TOPICS
        for entry in read_help(question(runner, f"--help={topic}", "-Q"), question(runner, f"--help={topic}"))
    ]
    proposals, dropped = propose(entries)
    wanted = []
    for option, ask in proposals:
        if reason := exclusion(option.name):
            dropped.append(Dropped(option.name, reason))
            continue
        highest = ceiling(option.name)
        if option.template and highest is not None and highest < option.high:
            dropped.append(Dropped(option.template.replace("{}", str(option.high)), "too much memory"))
            option = msgspec.structs.replace(option, high=highest)
        wanted.append(Proposal(option, ask))
    options, refused = check(wanted, trials)
    if not options:
        raise CompilationError(FailureCode.COMPILER, f"{runner.name} has no options that GCC has: is it {version!r}?")
    return CompilerOptions(version, tuple(options), (*dropped, *refused))
