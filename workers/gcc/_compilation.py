"""Compiling a program with a command line: assembly, RTL and machine code, each produced on demand.

The compiler runs once for each unit and writes assembly; object files are assembled from it, and equal the output of
the compiler's driver byte for byte. The output does not depend on place and time. Results are cached by program,
command line and compiler, and so are reproducible failures.
"""

import contextlib
import hashlib
import os
import re
import signal
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from aiocg.transport.elf import NotElf, image_size, text_size
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._runner import CommandRunner, Completed
from aiocg.workers.gcc._store import Results
from aiocg.workers.programs import scratch
from aiocg.workers.programs.linking import MARGIN, no_place, temporary_folder, write_files
from aiocg.workers.programs.recipe import Program as Recipe
from aiocg.workers.programs.recipe import problem_of_names

# ---------------------------------------------------- Classifying failures of a compiler, and warnings, by its messages

MESSAGES = 4096  # limit in characters for a compiler's messages

LASTING = {"refused": "", "internal compiler error": "memory", "memory": "memory", "timeout": "timeout"}
"""Reproducible reasons, with the limit that must not be higher for them to recur; "" if no limit matters.

Compilers that get no memory break in many ways.
"""

_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

# GCC's and its assembler's messages about their input. All other failures may be the machine's fault.
_REFUSAL = re.compile(r"\b[Ee]rror: |sorry, unimplemented")

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("failures.toml").read_text(encoding="utf-8"))
_REASONS: dict[str, re.Pattern[str]] = {reason: re.compile(pattern) for reason, pattern in _TABLES["patterns"].items()}
WARNING = ("-Wall", "-Wshift-negative-value", "-fno-diagnostics-show-caret")
_UNDEFINED = re.compile(
    r"warning: .*\[-W(aggressive-loop-optimizations|array-bounds|dangling-pointer|div-by-zero|format|format-overflow"
    r"|free-nonheap-object|nonnull|restrict|return-local-addr|return-type|sequence-point|shift-[a-z-]+"
    r"|stringop-overflow|stringop-overread|uninitialized|use-after-free)=?\d*\]$"
)


def problem(done: Completed) -> str:
    """Return why a command failed; "" if it succeeded."""
    if done.stopped:
        return done.stopped
    if done.status == 0:
        return ""
    said = done.errors.decode(errors="replace")
    for reason, pattern in _REASONS.items():
        if pattern.search(said):
            return reason
    if done.status < 0:
        return "killed" if -done.status in _FROM_OUTSIDE else "crashed"
    return "refused" if _REFUSAL.search(said) else "failed"


def failure(
    reason: str, name: str, what: str, done: Completed, code: str = FailureCode.OBSERVATION
) -> CompilationError:
    """Return the error for a failed command.

    Args:
        reason: the reason, also put into the error's fields.
        name: the compiler's name.
        what: describes what was compiled.
        done: how the command ended.
        code: the error's code.
    """
    text = _TABLES["texts"][reason].format(
        name=name, what=what, seconds=done.seconds, status=done.status, signal=-done.status
    )
    said = done.errors[: 4 * MESSAGES].decode(errors="replace").strip()[:MESSAGES]
    return CompilationError(code, f"{text}\n{said}".rstrip(), reason=reason)


def _undefined(messages: bytes) -> list[str]:
    """Return the warnings of undefined behaviour among a compiler's messages, which was called with `WARNING`."""
    return [line for line in messages.decode(errors="replace").splitlines() if _UNDEFINED.search(line)]


# ---------------------------------------- Reading the sources of a program, as `aiocg.datasets.source_tree` writes them

SOURCES_VERSION = 1
LANGUAGES = ("c", "c++")


class Sources(msgspec.Struct, frozen=True):
    """The files of a program and how to compile them; see `aiocg.datasets.source_tree.SourceTree`.

    Attributes:
        digest: SHA-256 of everything, in hexadecimal.
    """

    version: int
    units: tuple[str, ...]
    files: dict[str, bytes]
    include: tuple[str, ...]
    flags: tuple[str, ...]
    language: str
    freestanding: bool
    units_in_c: tuple[str, ...] = ()
    digest: str = ""

    def language_of(self, unit: str) -> str:
        """Return "c" or "c++"."""
        return "c" if unit in self.units_in_c else self.language

    @property
    def languages(self) -> list[str]:
        """The languages of all units, without duplicates, in a fixed order."""
        return sorted({self.language_of(unit) for unit in self.units})

    @property
    def text(self) -> str:
        """The translation units, concatenated."""
        return "".join(self.files[unit].decode(errors="replace") for unit in self.units)


def read_sources(content: bytes) -> Sources:
    """Read the content of a benchmark.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK` if it is not the sources of a program.
    """
    try:
        sources = msgspec.msgpack.decode(content, type=Sources)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_sources(str(error)) from None
    if sources.version != SOURCES_VERSION:
        raise _not_sources(f"their version is {sources.version}, not {SOURCES_VERSION}")
    if sources.language not in LANGUAGES:
        raise _not_sources(f"their language is {sources.language!r}, not one of {', '.join(LANGUAGES)}")
    if not sources.units:
        raise _not_sources("there is no unit to compile")
    for unit in sources.units:
        if unit not in sources.files:
            raise _not_sources(f"the unit {unit!r} is not among the files")
    if problem := problem_of_names(sources.files, (*sources.flags, *sources.include)):
        raise _not_sources(problem)
    return msgspec.structs.replace(sources, digest=hashlib.sha256(content).hexdigest())


def _not_sources(reason: str) -> CompilationError:
    return CompilationError(
        FailureCode.BENCHMARK, f"these are not the sources of a program, which is what GCC takes: {reason}"
    )


# --------------------- Compiling a program with a command line: assembly, RTL and machine code, each produced on demand

# Prefixes that modify an x86 instruction.
_PREFIXES = frozenset({"lock", "rep", "repe", "repz", "repne", "repnz", "notrack", "bnd", "xacquire", "xrelease"})

_COMMENT = re.compile(rb"/\*.*?\*/|(?://|[#@]\s|^\s*[#@!|]).*", re.DOTALL)
_STATEMENT = re.compile(
    rb"""\s* (?:[\w.$]+: \s*)*                  # labels
    (?P<name>[A-Za-z][\w.]*) (?![\w.:]) (?!\s*=)  # an instruction, or a prefix; directives begin with a dot
    (?:\s+ (?P<next>[A-Za-z][\w.]*))?""",
    re.VERBOSE,
)


def instruction_counts(assembly: bytes) -> dict[str, int]:
    """Count the instructions in assembly by name, most frequent first.

    Names are as written: `movl` is not `mov`. A prefix is part of the name, as in `rep stosq`. Labels, directives and
    comments do not count.
    """
    counts: Counter[str] = Counter()
    for line in assembly.splitlines():
        if not line or line.lstrip()[:1] in (b".", b"#", b""):  # cheaply skips most lines without an instruction
            continue
        for statement in _COMMENT.sub(b"", line).split(b";"):
            found = _STATEMENT.match(statement)
            if found is None:
                continue
            name, following = found["name"].decode(), found["next"]
            counts[f"{name} {following.decode()}" if name in _PREFIXES and following else name] += 1
    return dict(counts.most_common())


def _size(product: list[bytes] | bytes) -> int:
    return sum(map(len, product)) if isinstance(product, list) else len(product)


def _hash(product: list[bytes] | bytes) -> str:
    whole = b"".join(product) if isinstance(product, list) else product
    return hashlib.md5(whole, usedforsecurity=False).hexdigest()


def _of_elf(measure: Callable[[bytes], int]) -> Callable[[bytes], int]:
    def measured(code: bytes) -> int:
        try:
            return measure(code)
        except NotElf as error:
            raise CompilationError(FailureCode.OBSERVATION, str(error)) from None

    return measured


FACTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "asm_size": ("asm", _size),
    "asm_hash": ("asm", _hash),
    "instruction_counts": ("asm", lambda assembly: instruction_counts(b"".join(assembly))),
    "obj_size": ("obj", _size),
    "obj_hash": ("obj", _hash),
    "obj_image_size": ("obj", _of_elf(lambda code: image_size(code).stored)),
    "obj_bss_size": ("obj", _of_elf(lambda code: image_size(code).zeroed)),
    "obj_text_size": ("obj", _of_elf(text_size)),
}
"""For each fact the product that it describes, and the function that computes it."""

CHEAP = frozenset(FACTS) - {"instruction_counts"}  # computed together, since most sessions ask for nothing else


VERSION = 3  # of the code that computes results

LARGEST = 256 << 20  # bytes of a compiler's output file
_RTL_DUMP = "-fdump-rtl-dfinish"  # after the last pass that changes the RTL
_SOURCES = "src"
_QUESTION_TIMEOUT = 60.0  # seconds


class Limits(NamedTuple):
    """The limits of one compile.

    Attributes:
        timeout: the time limit of each process in seconds.
        memory: the memory limit of each process in bytes.
        deadline: the deadline of the whole compile, in seconds of the monotonic clock.
    """

    timeout: float
    memory: int
    deadline: float

    def seconds(self) -> float:
        """Return how long a process started now may run, in seconds; may be negative."""
        return min(self.timeout, self.deadline - MARGIN - time.monotonic())


class Benchmark:
    """A loaded program: its sources, and a folder to which they are written on first compilation.

    Args:
        sources: the program's sources.
        recipe: how to link and run it.
    """

    def __init__(self, sources: Sources, recipe: Recipe | None = None) -> None:
        self.sources = sources
        self.recipe = recipe
        self._lock = threading.Lock()
        self._root = ""
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def folder(self, root: str) -> str:
        """Return a folder below `root` that has the sources in `src`.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if they cannot be written; with `FailureCode.COMPILER` if
                `root` was removed.
        """
        if not os.path.isdir(root):
            said = f"the folder {root}, in which the compiler works, was removed. Reset to have another one"
            raise CompilationError(FailureCode.COMPILER, said, reason="gone")
        with self._lock:
            if self._folder is None or self._root != root:
                folder = temporary_folder("program-", root)
                files = {f"{_SOURCES}/{name}": content for name, content in self.sources.files.items()}
                write_files(Path(folder.name), files, time=0)  # visible in `__TIMESTAMP__`
                self._folder, self._root = folder, root
            return self._folder.name


class Compiler:
    """A compiler, with a cache of its results.

    Args:
        runner: runs its commands.
        results: the cache.

    Attributes:
        compiles, assemblies: the numbers of units compiled and assembled.
        seconds: the total run time of its processes.
        failures: the number of failed processes.
    """

    def __init__(self, runner: CommandRunner, results: Results) -> None:
        self.runner = runner
        self.results = results
        self.compiles = 0
        self.assemblies = 0
        self.failures = 0
        self.seconds = 0.0
        self._headers: str | None = None
        self._libraries: dict[str, str] = {}

    def libraries(self, language: str, limits: Limits) -> str:
        """Return a key that changes with the library headers; "" if the compiler's identity already does.

        Installing a package replaces files, which changes the modification times of folders.

        Raises:
            CompilationError: as `run`.
        """
        if self.runner.is_apart:
            return ""
        if language not in self._libraries:
            done = self._ask(["-E", "-v", "-x", language, "-"], limits)
            if (reason := problem(done)) not in ("", "refused", "system", "failed"):  # it may lack the language
                raise failure(reason, self.runner.name, "a question for the headers of libraries", done)
            folders = [os.fsdecode(line).strip() for line in done.errors.splitlines() if line.startswith(b" /")]
            self._libraries[language] = hashlib.sha256(repr(_times(folders)).encode()).hexdigest()
        return self._libraries[language]

    def headers(self, limits: Limits) -> str:
        """Return the folder that has only the compiler's own headers; "" if unknown.

        Raises:
            CompilationError: as `run`.
        """
        if self._headers is None:
            done = self._ask(["-print-file-name=include"], limits)
            if reason := problem(done):
                raise failure(reason, self.runner.name, "a question for its headers", done)
            said = done.output.decode(errors="replace").strip()
            self._headers = said if os.path.isabs(said) else ""
        return self._headers

    def _ask(self, words: Sequence[str], limits: Limits) -> Completed:
        """Ask the compiler for what is then remembered: the user's timeout, which is for compiles, does not count."""
        timeout = limits._replace(timeout=_QUESTION_TIMEOUT).seconds()
        return self.runner.run([self.runner.compiler, *words], folder=self.runner.root, timeout=max(timeout, 0.0))

    def run(self, command: Sequence[str], what: str, folder: str, limits: Limits, stdin: bytes = b"") -> Completed:
        """Run the compiler and return how it ended.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if it fails, with its messages, and the reason in the
                fields; with `FailureCode.COMPILER` if it is gone.
        """
        line, timeout = [self.runner.compiler, *command], max(limits.seconds(), 0.0)
        done = self.runner.run(line, folder=folder, timeout=timeout, stdin=stdin, memory=limits.memory)
        self.seconds += done.seconds
        if reason := problem(done):
            self.failures += 1
            raise failure(reason, self.runner.name, what, done)
        return done


class Compilation:
    """A program with a command line: everything that the compiler produces from them within limits.

    Args:
        compiler: the compiler.
        benchmark: the program.
        words: the words of the command line.
        digest: a hash of program and words.
        limits: the limits of each process.
    """

    def __init__(
        self, compiler: Compiler, benchmark: Benchmark, words: Sequence[str], digest: str, limits: Limits
    ) -> None:
        self._compiler = compiler
        self._benchmark = benchmark
        self._words = words
        self._limits = limits._replace(memory=min(limits.memory, compiler.runner.memory))
        sources = benchmark.sources
        libraries = ""
        if not sources.freestanding:
            libraries = " ".join([compiler.libraries(language, limits) for language in sources.languages])
        self._key = f"{VERSION} {compiler.runner.identity} {libraries} {digest}"

    def assembly(self) -> list[bytes]:
        """Return the assembly of each unit.

        Raises:
            CompilationError: as `Compiler.run`.
        """
        return cast(list[bytes], self._product("asm"))

    def rtl(self) -> bytes:
        """Return the compiler's final RTL of all units, concatenated.

        Raises:
            CompilationError: as `Compiler.run`.
        """
        return cast(bytes, self._product("rtl"))

    def undefined(self) -> list[str]:
        """Return the compiler's warnings of undefined behaviour.

        Raises:
            CompilationError: as `Compiler.run`.
        """
        return cast(list[str], self._product("undefined"))

    def object_file(self) -> bytes:
        """Return the object file; several units are linked into one.

        Raises:
            CompilationError: as `Compiler.run`.
        """
        return cast(bytes, self._product("obj"))

    def fact(self, name: str) -> Any:
        """Return one of the `FACTS` about the assembly or the object file.

        Raises:
            CompilationError: as `Compiler.run`.
        """
        facts = self._facts()
        if name not in facts:
            product, compute = FACTS[name]
            value = compute(self._product(product))
            facts = {**self._facts(), name: value}
            self._compiler.results.put(self._key, "facts", facts)
        return facts[name]

    def _facts(self) -> dict[str, Any]:
        return self._compiler.results.get(self._key, "facts") or {}

    def _product(self, name: str) -> Any:
        """Return a product from the cache, or compute it."""
        results = self._compiler.results
        made = results.get(self._key, name)
        if made is not None:
            return made
        self._fail_again(name)
        options = self._options()
        try:
            made = _MAKERS[name](self, options)
        except CompilationError as error:
            self._remember(name, error)
            raise
        results.put(self._key, name, made)
        if facts := {fact: FACTS[fact][1](made) for fact in CHEAP if FACTS[fact][0] == name}:
            results.put(self._key, "facts", {**self._facts(), **facts})
        return made

    def _fail_again(self, name: str) -> None:
        """Raise the cached error, if there was one under limits at least as high."""
        for limit, (least, code, message, fields) in self._facts().get(f"failure of {name}", {}).items():
            if not limit or getattr(self._limits, limit) <= least:
                raise CompilationError(code, message, **fields)

    def _remember(self, name: str, error: CompilationError) -> None:
        """Cache a reproducible error, with the limit that caused it."""
        limit = LASTING.get(error.fields.get("reason", ""))
        if limit is None or (limit == "timeout" and self._limits.seconds() <= 0):  # the caller's deadline has passed
            return
        facts, failed = self._facts(), f"failure of {name}"
        one = [getattr(self._limits, limit) if limit else 0, error.code, error.message, dict(error.fields)]
        self._compiler.results.put(self._key, "facts", {**facts, failed: {**facts.get(failed, {}), limit: one}})

    def _compile(self, options: Sequence[str], *, dump: bool = False) -> tuple[list[bytes], list[bytes]]:
        """Compile all units; return the assembly of each, and its RTL if requested."""
        assembly, rtl = [], []
        sources = self._benchmark.sources
        folder = self._benchmark.folder(self._compiler.runner.root)
        with _outputs(folder) as outputs:
            out = os.path.join(os.pardir, os.path.basename(outputs))
            for index, unit in enumerate(sources.units):
                command = [*options, f"-frandom-seed={unit}", "-x", sources.language_of(unit)]
                command += ["-S", _as_file(unit), "-o", f"{out}/{index}.s"]
                if dump:
                    command += ["-fdump-noaddr", f"{_RTL_DUMP}={out}/{index}.rtl"]
                self._compiler.compiles += 1
                self._compiler.run(command, unit, f"{folder}/{_SOURCES}", self._limits)
                assembly.append(self._read(f"{outputs}/{index}.s", unit))
                if dump:
                    rtl.append(self._read(f"{outputs}/{index}.rtl", unit))
        return assembly, rtl

    def _dump(self, options: Sequence[str]) -> bytes:
        assembly, rtl = self._compile(options, dump=True)
        if self._compiler.results.get(self._key, "asm") is None:
            self._compiler.results.put(self._key, "asm", assembly)
        return b"".join(rtl)

    def _warnings(self, options: Sequence[str]) -> list[str]:
        """Compile all units for the sake of warnings; `-w`, which silences them, is the last of the options."""
        sources, said = self._benchmark.sources, b""
        folder = self._benchmark.folder(self._compiler.runner.root)
        for unit in sources.units:
            command = [*options[:-1], *WARNING, "-x", sources.language_of(unit), "-S", _as_file(unit), "-o", os.devnull]
            self._compiler.compiles += 1
            said += self._compiler.run(command, unit, f"{folder}/{_SOURCES}", self._limits).errors
        return _undefined(said)

    def _assemble(self, options: Sequence[str]) -> bytes:
        assembly = self.assembly()
        units = self._benchmark.sources.units
        with _outputs(self._benchmark.folder(self._compiler.runner.root)) as outputs:
            for index, (unit, text) in enumerate(zip(units, assembly, strict=True)):
                self._compiler.assemblies += 1
                command = [*options, "-c", "-x", "assembler", "-", "-o", f"{index}.o"]
                self._compiler.run(command, unit, outputs, self._limits, text)
            if len(units) == 1:
                return self._read(f"{outputs}/0.o", units[0])
            parts = [f"{index}.o" for index in range(len(units))]
            command = [*self._benchmark.sources.flags, "-r", "-nostdlib", "-o", "program.o", *parts]
            self._compiler.run(command, "all units together", outputs, self._limits)
            return self._read(f"{outputs}/program.o", "all units together")

    def _options(self) -> list[str]:
        """Return the options for compiling all units."""
        sources = self._benchmark.sources
        options = [*sources.flags, *(f"-I{path}" for path in sources.include)]
        if sources.freestanding:
            options.append("-nostdinc")
            if own := self._compiler.headers(self._limits):
                options += ["-isystem", own]
        return [*options, *self._words, "-w"]

    def _read(self, path: str, what: str) -> bytes:
        """Return a file that the compiler wrote; programs in its container may have replaced it."""
        root, name = self._compiler.runner.root, self._compiler.runner.name
        nothing = Completed(0, b"", b"", 0.0)
        try:
            content = scratch.read(Path(root), os.path.relpath(path, root), LARGEST)
        except scratch.TooLarge:
            raise failure("output", name, what, nothing) from None
        if content is None:
            raise failure("nothing", name, what, nothing)
        return content


@contextlib.contextmanager
def _outputs(folder: str) -> Iterator[str]:
    """Create a folder for compiler output below the program's; it is removed at the end of the context.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if it cannot be created.
    """
    root, name = os.path.split(folder)
    with contextlib.ExitStack() as stack:
        try:
            own = stack.enter_context(scratch.folder_below(Path(root), name, "out-"))
        except OSError as error:
            raise no_place(error) from None
        yield os.path.join(folder, own)


def _times(folders: Iterable[str]) -> list[tuple[str, int]]:
    """Return the modification times of folders and their subfolders."""
    found = []
    for folder in folders:
        with contextlib.suppress(OSError):
            found.append((folder, os.stat(folder).st_mtime_ns))
            with os.scandir(folder) as entries:
                found += sorted((entry.path, entry.stat().st_mtime_ns) for entry in entries if entry.is_dir())
    return found


def _as_file(name: str) -> str:
    """Return a file name that no compiler mistakes for an option."""
    return f"./{name}" if name.startswith(("-", "@")) else name


_MAKERS: dict[str, Callable[[Compilation, Sequence[str]], Any]] = {
    "asm": lambda compilation, options: compilation._compile(options)[0],
    "rtl": Compilation._dump,
    "obj": Compilation._assemble,
    "undefined": Compilation._warnings,
}
