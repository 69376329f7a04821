"""What a command line makes of a program's sources: assembly, RTL and machine code, each when it is asked for.

One run of the compiler for each unit serves all: it writes assembly, and what an object file is asked for is assembled
from that, byte by byte what the compiler's driver would have made of the sources. Nothing in it tells where and when it
was made. Whatever is known of a program, a command line and a compiler is remembered, and so are failures that would be
there the next time.
"""

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.elf import NotElf, text_size
from aiocg.workers.gcc.assembly import instruction_counts
from aiocg.workers.gcc.failures import LASTING, failure, problem
from aiocg.workers.gcc.place import Completed, Place
from aiocg.workers.gcc.results import Results
from aiocg.workers.gcc.sources import Sources
from aiocg.workers.programs import scratch
from aiocg.workers.programs.linking import MARGIN, no_place, temporary_folder, write_files
from aiocg.workers.programs.recipe import Program as Recipe

__all__ = ["FACTS", "Benchmark", "Compilation", "Compiler", "Limits"]

VERSION = 3  # of what results are made by
LARGEST = 256 << 20  # bytes of a file that a compiler has written
_RTL_DUMP = "-fdump-rtl-dfinish"  # after the last pass that changes it
_SOURCES = "src"
_QUESTION_TIMEOUT = 60.0  # seconds


class Limits(NamedTuple):
    """What a compile may use.

    Attributes:
        timeout: seconds for each process.
        memory: bytes of memory for each process.
        deadline: when all must be done, in seconds of the monotonic clock.
    """

    timeout: float
    memory: int
    deadline: float

    def seconds(self) -> float:
        """Return for how long a process may run that is started now; it may be less than nothing."""
        return min(self.timeout, self.deadline - MARGIN - time.monotonic())


class Benchmark:
    """A program that was loaded: its sources, and a folder that has them as soon as they are compiled.

    Args:
        sources: of the program.
        recipe: how to link and run it.
    """

    def __init__(self, sources: Sources, recipe: Recipe | None = None) -> None:
        self.sources = sources
        self.recipe = recipe
        self._lock = threading.Lock()
        self._root = ""
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def folder(self, root: str) -> str:
        """Return a folder below another one that has the sources in `src`.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when they cannot be written; with `FailureCode.COMPILER`
                when somebody has removed that folder.
        """
        if not os.path.isdir(root):
            said = f"the folder {root}, in which the compiler works, was removed. Reset to have another one"
            raise CompilationError(FailureCode.COMPILER, said, reason="gone")
        with self._lock:
            if self._folder is None or self._root != root:
                folder = temporary_folder("program-", root)
                files = {f"{_SOURCES}/{name}": content for name, content in self.sources.files.items()}
                write_files(Path(folder.name), files, time=0)  # `__TIMESTAMP__` tells it
                self._folder, self._root = folder, root
            return self._folder.name


class Compiler:
    """A compiler at its place, and what is known of what it makes.

    Args:
        place: where it runs.
        results: where it is remembered.

    Attributes:
        compiles, assemblies: how many units were compiled, and how many assembled.
        seconds: that all its processes took.
        failures: how many of them failed.
    """

    def __init__(self, place: Place, results: Results) -> None:
        self.place = place
        self.results = results
        self.compiles = 0
        self.assemblies = 0
        self.failures = 0
        self.seconds = 0.0
        self._headers: str | None = None
        self._libraries: dict[str, str] = {}

    def libraries(self, language: str, limits: Limits) -> str:
        """Return what changes when the headers of libraries do, as far as their folders tell; "" if the identity does.

        Packages replace a file by another one, which the folder's time tells.

        Raises:
            CompilationError: as `run` does.
        """
        if self.place.is_apart:
            return ""
        if language not in self._libraries:
            command = [self.place.compiler, "-E", "-v", "-x", language, "-"]
            timeout = limits._replace(timeout=_QUESTION_TIMEOUT).seconds()  # what is remembered needs no other
            done = self.place.run(command, folder=self.place.root, timeout=max(timeout, 0.0))
            if (reason := problem(done)) not in ("", "refused", "system", "failed"):  # it may lack the language
                raise failure(reason, self.place.name, "a question for the headers of libraries", done)
            folders = [os.fsdecode(line).strip() for line in done.errors.splitlines() if line.startswith(b" /")]
            self._libraries[language] = hashlib.sha256(repr(_times(folders)).encode()).hexdigest()
        return self._libraries[language]

    def headers(self, limits: Limits) -> str:
        """Return the folder of the compiler's own headers, which no others lie in; "" when it does not say.

        Raises:
            CompilationError: as `run` does.
        """
        if self._headers is None:
            command = [self.place.compiler, "-print-file-name=include"]
            limits = limits._replace(timeout=_QUESTION_TIMEOUT)  # the user's is for compiles
            done = self.place.run(command, folder=self.place.root, timeout=max(limits.seconds(), 0.0))
            if reason := problem(done):
                raise failure(reason, self.place.name, "a question for its headers", done)
            said = done.output.decode(errors="replace").strip()
            self._headers = said if os.path.isabs(said) else ""
        return self._headers

    def run(self, command: Sequence[str], what: str, folder: str, limits: Limits, stdin: bytes = b"") -> None:
        """Run the compiler.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when it fails, with what it said, and the reason in its
                fields; with `FailureCode.COMPILER` when it is gone.
        """
        done = self.place.run(
            [self.place.compiler, *command],
            folder=folder,
            timeout=max(limits.seconds(), 0.0),
            stdin=stdin,
            memory=limits.memory,
        )
        self.seconds += done.seconds
        if reason := problem(done):
            self.failures += 1
            raise failure(reason, self.place.name, what, done)


class Compilation:
    """A program and the words of a command line, and all that can be made of them by a compiler within limits.

    Args:
        compiler: at its place.
        benchmark: the program.
        words: of the command line.
        digest: of program and words.
        limits: of each process.
    """

    def __init__(
        self, compiler: Compiler, benchmark: Benchmark, words: Sequence[str], digest: str, limits: Limits
    ) -> None:
        self._compiler = compiler
        self._benchmark = benchmark
        self._words = words
        self._limits = limits._replace(memory=min(limits.memory, compiler.place.memory))
        sources = benchmark.sources
        libraries = ""
        if not sources.freestanding:
            libraries = " ".join([compiler.libraries(language, limits) for language in sources.languages])
        self._key = f"{VERSION} {compiler.place.identity} {libraries} {digest}"

    def assembly(self) -> list[bytes]:
        """Return the assembly of each unit.

        Raises:
            CompilationError: as `Compiler.run` does.
        """
        assembly: list[bytes] = self._product("asm")
        return assembly

    def rtl(self) -> bytes:
        """Return the compiler's last RTL of all units, one after the other.

        Raises:
            CompilationError: as `Compiler.run` does.
        """
        rtl: bytes = self._product("rtl")
        return rtl

    def object_file(self) -> bytes:
        """Return an object file; of several units, one to which they are linked.

        Raises:
            CompilationError: as `Compiler.run` does.
        """
        code: bytes = self._product("obj")
        return code

    def fact(self, name: str) -> Any:
        """Return a small thing that is known of the assembly or of the object file; `FACTS` has their names.

        Raises:
            CompilationError: as `Compiler.run` does.
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
        """Return what is remembered under a name, or make it."""
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
        if facts := {fact: FACTS[fact][1](made) for fact in _CHEAP if FACTS[fact][0] == name}:
            results.put(self._key, "facts", {**self._facts(), **facts})
        return made

    def _fail_again(self, name: str) -> None:
        """Raise the error that there was with limits no lower than ours, if there was one."""
        for limit, (least, code, message, fields) in self._facts().get(f"failure of {name}", {}).items():
            if not limit or getattr(self._limits, limit) <= least:
                raise CompilationError(code, message, **fields)

    def _remember(self, name: str, error: CompilationError) -> None:
        """Keep an error that will be there the next time, with the limit that it has to do with."""
        limit = LASTING.get(error.fields.get("reason", ""))
        if limit is None or (limit == "timeout" and self._limits.seconds() <= 0):  # the caller's deadline has come
            return
        facts, failed = self._facts(), f"failure of {name}"
        one = [getattr(self._limits, limit) if limit else 0, error.code, error.message, dict(error.fields)]
        self._compiler.results.put(self._key, "facts", {**facts, failed: {**facts.get(failed, {}), limit: one}})

    def _compile(self, options: Sequence[str], *, dump: bool = False) -> tuple[list[bytes], list[bytes]]:
        """Return the assembly of each unit, and its RTL if wanted."""
        assembly, rtl = [], []
        sources = self._benchmark.sources
        folder = self._benchmark.folder(self._compiler.place.root)
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

    def _assemble(self, options: Sequence[str]) -> bytes:
        assembly = self.assembly()
        units = self._benchmark.sources.units
        with _outputs(self._benchmark.folder(self._compiler.place.root)) as outputs:
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
        """Return the words that all units are compiled with."""
        sources = self._benchmark.sources
        options = [*sources.flags, *(f"-I{path}" for path in sources.include)]
        if sources.freestanding:
            options.append("-nostdinc")
            if own := self._compiler.headers(self._limits):
                options += ["-isystem", own]
        return [*options, *self._words, "-w"]

    def _read(self, path: str, what: str) -> bytes:
        """Return what the compiler has written, which programs in its container may have replaced."""
        root, name = self._compiler.place.root, self._compiler.place.name
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
    """Make a folder for what a compile writes, below that of the program; it goes at the end of the context.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` when it cannot be made.
    """
    root, name = os.path.split(folder)
    with contextlib.ExitStack() as stack:
        try:
            own = stack.enter_context(scratch.folder_below(Path(root), name, "out-"))
        except OSError as error:
            raise no_place(error) from None
        yield os.path.join(folder, own)


def _times(folders: Iterable[str]) -> list[tuple[str, int]]:
    """Return when folders, and those in them, were changed."""
    found = []
    for folder in folders:
        with contextlib.suppress(OSError):
            found.append((folder, os.stat(folder).st_mtime_ns))
            with os.scandir(folder) as entries:
                found += sorted((entry.path, entry.stat().st_mtime_ns) for entry in entries if entry.is_dir())
    return found


def _as_file(name: str) -> str:
    """Return the name of a file as no compiler takes it for an option."""
    return f"./{name}" if name.startswith(("-", "@")) else name


def _size(product: list[bytes] | bytes) -> int:
    return sum(map(len, product)) if isinstance(product, list) else len(product)


def _hash(product: list[bytes] | bytes) -> str:
    whole = b"".join(product) if isinstance(product, list) else product
    return hashlib.md5(whole, usedforsecurity=False).hexdigest()


def _text_size(code: bytes) -> int:
    try:
        return text_size(code)
    except NotElf as error:
        raise CompilationError(FailureCode.OBSERVATION, str(error)) from None


FACTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "asm_size": ("asm", _size),
    "asm_hash": ("asm", _hash),
    "instruction_counts": ("asm", lambda assembly: instruction_counts(b"".join(assembly))),
    "obj_size": ("obj", _size),
    "obj_hash": ("obj", _hash),
    "obj_text_size": ("obj", _text_size),
}
"""What each fact is a fact of, and how it is computed."""

_CHEAP = frozenset(FACTS) - {"instruction_counts"}  # at once, since they are all that most ever ask for

_MAKERS: dict[str, Callable[[Compilation, Sequence[str]], Any]] = {
    "asm": lambda compilation, options: compilation._compile(options)[0],
    "rtl": Compilation._dump,
    "obj": Compilation._assemble,
}
