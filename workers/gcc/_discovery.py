"""Discovering a compiler's options: proposed from its help, checked by compiling, and cached in a file."""

import contextlib
import hashlib
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from aiocg.transport.messages import FailureCode
from aiocg.transport.options import Option
from aiocg.workers.compilation import CompilationError
from aiocg.workers.files import replace_file
from aiocg.workers.gcc._compilation import failure, problem
from aiocg.workers.gcc._runner import CommandRunner
from aiocg.workers.shared_table import locked

# --------------------------------------------------------------------------- Parsing GCC's help on options into entries

# `gcc --help=optimizers -Q` and `gcc --help=params -Q` print a line for each option: its name, a placeholder for its
# value, and its setting. Without `-Q` a wrapped description takes the place of the setting.
# Versions differ:
#
#     -fgcse                              [disabled]
#     -ffp-contract=[off|on|fast]         fast
#     -flifetime-dse=<0,2>                2
#     -fpack-struct=<number>
#     -frtti                              [available in C++, D, ObjC++]
#     -fhandle-exceptions                 -fexceptions
#     --param=align-threshold=<1,65536>   100
#     --param=max-unroll-times=           8
#     max-unroll-times                    default 8 minimum 0 maximum 0            (GCC 9, where a maximum of 0 is none)
#
# A line that cannot be parsed becomes an entry without a name.

_NUMBER = "-?[0-9]{1,12}"
_LINE = re.compile(r"  (?P<word>\S+)(?P<rest>(?:\s.*)?)")
_CONTINUED = re.compile(r"\s{12,}(?P<rest>\S.*)")
_OLD = re.compile(rf"default (?P<value>{_NUMBER}) minimum (?P<low>{_NUMBER}) maximum (?P<high>{_NUMBER})")
_WORD = re.compile(
    r"(?P<name>(?:--param=|-)[A-Za-z0-9][A-Za-z0-9_+.-]*)(?P<equals>=?)"
    rf"(?:<(?P<low>{_NUMBER}),(?P<high>{_NUMBER})>|\[(?P<values>[A-Za-z0-9_+.-]+(?:\|[A-Za-z0-9_+.-]+)*)\]|<number>)?"
)


class Entry(NamedTuple):
    """One parsed line.

    Attributes:
        line: the line's first word, verbatim.
        name: the option up to its value, such as `-fgcse`, `-falign-loops=` or `--param=max-unroll-times=`; "" if the
            line could not be parsed.
        values: the words that it accepts, if listed.
        low, high: the range of numbers that it accepts, if listed.
        setting: its current setting, verbatim; "" if not shown.
        description: one line; "" if there is none.
    """

    line: str
    name: str
    values: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    setting: str = ""
    description: str = ""


def read_help(settings: str, descriptions: str = "") -> tuple[Entry, ...]:
    """Return an entry for each option of a help text.

    Args:
        settings: the compiler's output with `-Q`.
        descriptions: its output without `-Q`.
    """
    described = {word: " ".join(text.split()) for word, text in _lines(descriptions)}
    return tuple([_entry(word, text, described.get(word, "")) for word, text in _lines(settings)])


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first word of each option's line, and all text up to the next option."""
    word, parts = "", list[str]()
    for line in text.splitlines():
        if found := _CONTINUED.fullmatch(line):
            parts.append(found["rest"])
            continue
        if word:
            yield word, " ".join(parts).strip()
        found = _LINE.fullmatch(line)
        word, parts = (found["word"], [found["rest"].strip()]) if found else ("", [])
    if word:
        yield word, " ".join(parts).strip()


def _entry(line: str, setting: str, description: str) -> Entry:
    if description == "This option lacks documentation.":
        description = ""
    unknown = Entry(line, "", setting=setting, description=description)
    old = _OLD.fullmatch(setting)
    found = _WORD.fullmatch(f"--param={line}=" if old else line)
    if found is None:
        return unknown
    if not found["equals"] and (found["values"] or found["low"] or line.startswith("--param=")):
        return unknown
    values = tuple(found["values"].split("|")) if found["values"] else ()
    low, high = (int(found["low"]), int(found["high"])) if found["low"] else (None, None)
    if old:
        setting = old["value"]
        least, greatest = int(old["low"]), int(old["high"])
        low, high = min(least, int(setting)), greatest if greatest > least else None
    if low is not None and high is not None and low > high:
        return unknown
    return Entry(line, found["name"] + found["equals"], values, low, high, setting, description)


# -------------- Proposing options from help entries, except those excluded from the space; `checking` asks the compiler


class Dropped(msgspec.Struct, array_like=True, frozen=True):
    """An option, or one of its words, that is not in the space, with the reason."""

    name: str
    reason: str


class CompilerOptions(msgspec.Struct, frozen=True):
    """The options of one compiler.

    Attributes:
        version: the first line of `gcc --version`.
        options: the options in the space, in command-line order.
        dropped: options in the help that are not in the space.
    """

    version: str
    options: tuple[Option, ...]
    dropped: tuple[Dropped, ...] = ()

    @property
    def size(self) -> int:
        """The number of command lines: each option is unset or one of its choices."""
        return math.prod(len(option) + 1 for option in self.options)


_EXCLUSIONS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("excluded.toml").read_text(encoding="utf-8"))

# The compiler accepts any number, and allocates that much memory if another option makes it use the number.
_CEILINGS = {"--param=selsched-max-lookahead": 2**16}


def exclusion(name: str) -> str:
    """Return why an option is excluded from the space; "" if it is not."""
    found = (why for why, patterns in _EXCLUSIONS.items() if any(re.fullmatch(one, name) for one in patterns))
    return next(found, "")


Kind = Literal["level", "flag", "enum", "integer", "alignment", "param"]

_PARAM = "--param="
GREATEST = 2**31 - 1  # of a number without an upper end in the help: the largest int
_LEVELS = ("-O0", "-O1", "-O2", "-O3")  # the meanings of `-O<number>`
_ALIAS = re.compile(r"-{1,2}[A-Za-z].*")  # a setting that is another option
# Bytes; after colons, the maximal bytes to skip plus 1, and the alignment to use if that is not enough.
_ALIGNMENTS = ("1", "2", "4", "8", "16", "32", "64", "16:8", "32:8", "32:16", "64:16", "64:32", "16:11:8")


class Proposal(NamedTuple):
    """An option from the help; `ask` means that the compiler must list its values."""

    option: Option
    ask: bool = False


def propose(entries: Iterable[Entry]) -> tuple[list[Proposal], list[Dropped]]:
    """Merge entries that are forms of one option; also return the dropped ones. Parameters come last.

    `-falign-loops` and `-falign-loops=`, or `-O<number>` and `-Os`, are forms of one option.
    """
    families: dict[str, list[Entry]] = {}
    dropped: list[Dropped] = []
    for entry in entries:
        if not entry.name:
            dropped.append(Dropped(entry.line, "this line of the help could not be read"))
        else:
            family = families.setdefault(_stem(entry.name), [])
            if entry not in family:
                family.append(entry)
    proposals = []
    for stem, family in sorted(families.items(), key=lambda item: item[0].startswith(_PARAM)):
        proposal = _proposal(stem, family)
        if isinstance(proposal, Dropped):
            dropped.append(proposal)
        else:
            proposals.append(proposal)
    return proposals, dropped


def _stem(name: str) -> str:
    """Return the common stem of all forms of an option."""
    if name.startswith("-O"):
        return "-O"
    name = name.removesuffix("=")
    return f"-f{name[5:]}" if name.startswith("-fno-") else name


def _proposal(stem: str, family: list[Entry]) -> Proposal | Dropped:
    description = next((entry.description for entry in family if entry.description), "")
    initial = next((entry.setting for entry in reversed(family) if entry.setting), "")
    if stem == "-O":
        names = [name for entry in family for name in (_LEVELS if entry.name == stem else (entry.name,))]
        return Proposal(Option(stem, "level", "Set the optimization level.", tuple(names), initial="-O0"))
    alias = next((entry.setting for entry in family if _ALIAS.fullmatch(entry.setting)), "")
    valued = next((entry for entry in family if entry.name.endswith("=")), None)
    if alias and valued is None:
        return Dropped(stem, f"another name of {alias}")
    texts: tuple[str, ...] = ()
    if len(family) > 1 or valued is None:
        negative = f"-{stem[1]}no-{stem[2:]}"
        texts = (negative,) if alias else (stem, negative)
    if valued is None:
        return Proposal(Option(stem, "flag", description, texts, initial=initial))
    param = stem.startswith(_PARAM)
    values = valued.values or (_ALIGNMENTS if "align" in stem and not param else ())
    if values:
        kind: Kind = "param" if param else "enum" if valued.values else "alignment"
        texts += tuple([f"{stem}={value}" for value in values])
        return Proposal(Option(stem, kind, description, texts, initial=initial))
    number = re.fullmatch(r"-?[0-9]{1,12}", valued.setting) is not None
    low = valued.low if valued.low is not None else min(0, int(valued.setting)) if number else 0
    high = valued.high if valued.high is not None else GREATEST
    if low > high:
        return Dropped(stem, f"takes numbers from {low}, which are too large")
    kind = "param" if param else "integer"
    option = Option(stem, kind, description, texts, f"{stem}={{}}", low, high, initial)
    return Proposal(option, ask=valued.low is None and not number)


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
    helps = [(question(runner, f"--help={topic}", "-Q"), question(runner, f"--help={topic}")) for topic in _TOPICS]
    entries = [entry for settings, descriptions in helps for entry in read_help(settings, descriptions)]
    proposals, dropped = propose(entries)
    wanted = []
    for option, ask in proposals:
        if reason := exclusion(option.name):
            dropped.append(Dropped(option.name, reason))
            continue
        highest = _CEILINGS.get(option.name, option.high)  # that there is memory for
        if option.template and highest < option.high:
            dropped.append(Dropped(option.template.replace("{}", str(option.high)), "too much memory"))
            option = msgspec.structs.replace(option, high=highest)
        wanted.append(Proposal(option, ask))
    options, refused = check(wanted, trials)
    if not options:
        raise CompilationError(FailureCode.COMPILER, f"{runner.name} has no options that GCC has: is it {version!r}?")
    return CompilerOptions(version, tuple(options), (*dropped, *refused))
