"""A build by the lock file: sources become bitcode, and images are linked from it at once, with nothing compiled twice.

As with link-time optimisation, the objects of such a build are bitcode, but for those that are to stay as they are.
That takes an image by the search's passes; with others, the build is done as always, and its images are made once more.

The compilers of the build (`compiler`) ask this process to link, and to compile what clang does not read by itself: it
has everything imported, and LLVM loaded beside it.
"""

import asyncio
import itertools
import os
import socketserver
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aiocg.build.commands import Start, Unit, object_name, recording_environment, run_build, units_of
from aiocg.build.compilation import ALWAYS, OLD_C, compile_unit
from aiocg.build.proof import NO_EXCEPTIONS, SHARED, THROWING, UNALIASED, UNTHROWING, gcc_words, is_gcc, retold
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.datasets.locking import replacing
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import compile_flags, find_toolchain
from aiocg.errors import AiocgError
from aiocg.llvm.command_line import UNTYPED_LEVELS, level_words, parse
from aiocg.llvm.recording import compilers
from aiocg.llvm.tools import LoadedTool
from aiocg.shrink import compiler
from aiocg.shrink._linking import Form, Linker
from aiocg.shrink._tools import Clang, searched_with
from aiocg.shrink._tuning import optimised
from aiocg.shrink._units import LEVEL, Units, run
from aiocg.shrink.image import read_image
from aiocg.shrink.inputs import Inputs, Module, Part, read_inputs
from aiocg.shrink.lock import Entry, Lock, digest
from aiocg.shrink.record import Build, understand

_OTHER = "another image than the lock file was written with: --update makes it anew"


@dataclass(frozen=True, slots=True)
class _Linked:
    """An image that was linked.

    Attributes:
        bytes: that count.
        note: what went otherwise than the lock file says; "" for nothing.
    """

    name: str
    bytes: int
    note: str


def build(text: str, lock: Lock, commands: Path, scratch: Path) -> tuple[int, list[_Linked]]:
    """Build by a lock file, and return the build's exit status and its images.

    Args:
        text: of the build, for the shell.
        lock: all its entries are repeatable; names are relative to the working directory.
        commands: a folder for the commands that take the places of compilers.
        scratch: an empty folder.
    """
    environment = {**os.environ, **recording_environment(commands, compiler.__file__)}
    plan = scratch / "plan"
    plan.write_text(compiler.plan_text(_plan(lock, scratch)), errors="surrogateescape")
    with LoadedTool(), _Requests(lock, scratch).served() as requests:
        environment[compiler.VARIABLE] = str(plan)
        return run_build(["/bin/sh", "-c", text], environment), requests.done


def is_repeatable(lock: Lock) -> bool:
    """Say whether everything that a lock file has can be built by it at once."""
    return lock.whole and all(entry.repeatable and entry.units for entry in lock.images.values())


def _plan(lock: Lock, scratch: Path) -> compiler.Plan:
    """Return what the compilers of the build are to do."""
    toolchain = find_toolchain()
    clang = {one: [*toolchain.command(one), *compile_flags(toolchain.clang, one)] for one in ("c", "c++")}
    levels = {f"level{level}": level_words(level) for level in (*UNTYPED_LEVELS, "-O2", "-Os", "-Oz", "-Ofast")}
    for language, level in itertools.product(clang, (*UNTYPED_LEVELS, "-O2")):
        levels[f"gcc {language}{level}"] = gcc_words(level, cplusplus=language == "c++")
    entries = lock.images.values()

    def paths(names: Iterable[tuple[str, ...]]) -> list[str]:
        return sorted({os.path.abspath(name) for some in names for name in some})

    return {
        **clang,
        "bitcode": [LEVEL, "-Xclang", "-disable-llvm-passes", *ALWAYS, "-emit-llvm"],
        "lenient": list(OLD_C),
        **levels,
        "shared": list(SHARED),
        "unaliased": [UNALIASED],
        "throwing": list(THROWING),
        "unthrowing": list(UNTHROWING),
        "no exceptions": [NO_EXCEPTIONS],
        "gnu": [path for path in compilers(os.environ.get("PATH", os.defpath)).values() if is_gcc((path,))],
        "left_out": sorted({word for entry in entries for word in entry.left_out}),
        "retold": paths(entry.retold for entry in entries),
        "kept": paths(entry.kept for entry in entries),
        "units": paths(entry.units for entry in entries),
        "images": [os.path.abspath(name) for name in lock.images],
        "folder": [str(scratch)],
    }


class _Requests:
    """Does what the build's compilers ask for.

    Args:
        lock: the lock file.
        folder: of the plan.
    """

    def __init__(self, lock: Lock, folder: Path) -> None:
        self.done: list[_Linked] = []
        self._lock, self._folder = lock, folder
        self._images = {os.path.abspath(name): name for name in lock.images}

    @contextmanager
    def served(self) -> "Iterator[_Requests]":
        """Answer at the socket in the folder."""
        requests = self

        class Answer(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                text = os.fsdecode(self.rfile.read())
                try:
                    if text.startswith("link"):
                        requests.link(text)
                    else:
                        requests.compile(text)
                except (AiocgError, BenchmarkInitError, OSError, ValueError) as error:
                    self.wfile.write(first_diagnostic(error).encode())

        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            with socketserver.ThreadingUnixStreamServer(compiler.address(descriptor), Answer) as server:
                server.daemon_threads = True
                threading.Thread(target=server.serve_forever, daemon=True).start()
                try:
                    yield self
                finally:
                    server.shutdown()
        finally:
            os.close(descriptor)

    def compile(self, text: str) -> None:
        """Compile a unit to bitcode from the text that the build's compiler reads.

        Raises:
            BenchmarkInitError, OSError, ValueError: when it cannot be done.
        """
        start, mode = _start_of(text)
        unit = _unit_of(start)
        assert unit.object is not None, "it is compiled to an object"
        with scratch_folder() as scratch:
            bitcode = compile_unit(retold(unit, Path(scratch)), LEVEL).bitcode
        with replacing(unit.object, 0o666 & mode) as file:
            file.write(bitcode)
        compiler.record(str(self._folder / compiler.COMPILED), str(unit.object), text)

    def link(self, text: str) -> None:
        """Link an image from bitcode: as the lock file says, or as if there were none.

        Raises:
            AiocgError, BenchmarkInitError, OSError, ValueError: when it cannot be done.
        """
        start, mode = _start_of(text)
        found = understand([_with_files(start)])
        if not found.links:
            raise ValueError(next(iter(found.left_alone.values()), compiler.NOT_OURS))
        (one,) = found.links
        name = self._images.get(str(one.output), "")
        with scratch_folder() as folder:
            scratch = Path(folder)
            inputs = read_inputs(one, self._kept_units(), scratch)
            if not name and not any(isinstance(part, Module) for part in inputs.parts):
                raise ValueError(compiler.NOT_OURS)
            try:
                content = self._locked(self._lock.images[name], inputs, scratch)
                note = "" if self._lock.images[name].image in ("", digest(content)) else _OTHER
            except (AiocgError, BenchmarkInitError, KeyError) as error:
                why = first_diagnostic(error, one.output.name)
                content, how = self._anew(inputs, scratch, shrunk=bool(name))
                note = f"the lock file is of no use for it: {why}; {how}"
            with replacing(one.output, 0o777 & mode) as file:
                file.write(content)
        if name:
            self.done.append(_Linked(name, read_image(content).bytes, note))

    def _locked(self, entry: Entry, inputs: Inputs, scratch: Path) -> bytes:
        """Return the image of an entry of the lock file.

        Raises:
            AiocgError, BenchmarkInitError: when the program is another one.
        """
        (units := scratch / "units").mkdir()
        kept = {part: path for part in inputs.parts if (path := inputs.own(part, scratch)) is not None}
        linker = Linker(inputs, Units(units, plain=True), scratch, Form(entry.code, entry.link), Clang(), kept)
        module = linker.joined()
        if why := entry.staleness(module, searched_with()):
            raise BenchmarkInitError(inputs.link.output.name, why)
        return linker.image(optimised(module, entry.actions, entry.options), entry.options)

    def _compiled(self) -> dict[str, str]:
        """Return what was compiled up to now: requests by the SHA-256 of objects."""
        path = self._folder / compiler.COMPILED
        return compiler.compiled_of(path.read_text(errors="surrogateescape") if path.exists() else "")

    def _kept_units(self) -> dict[str, Unit]:
        """Return the units that the build's compiler has compiled, by the SHA-256 of their objects."""
        kept = {one: text for one, text in self._compiled().items() if text.startswith(compiler.KEPT)}
        return {one: _unit_of(_start_of(text)[0]) for one, text in kept.items()}

    def _anew(self, inputs: Inputs, scratch: Path, *, shrunk: bool) -> tuple[bytes, str]:
        """Return the image as if there were no lock file, from objects by the build's own compiler, and what was done.

        Args:
            shrunk: whether the core set is tried; otherwise the image is the build's own.

        Raises:
            BenchmarkInitError, OSError, ValueError: when the build would fail.
        """
        (folder := scratch / "own").mkdir()
        known = self._compiled()
        starts = [_with_files(_start_of(text)[0]) for text in known.values() if text.startswith(compiler.KEPT)]
        objects: dict[Part, Path] = {}
        for number, part in enumerate(inputs.parts):
            if isinstance(part, Unit):
                if (own := inputs.own(part, folder)) is not None:
                    objects[part] = own
                continue
            if (text := known.get(digest(part.path.read_bytes()))) is None:
                raise ValueError(f"{part.path.name} is bitcode of an earlier build: clean the project first")
            objects[part] = folder / f"{number}.o"
            starts.append(_made(_start_of(text)[0], ["-c"], objects[part]))
        link = inputs.link
        assert link.origin is not None, "it was recorded"
        words = inputs.own_words(objects.get, folder)
        for archive in folder.glob("*.a"):
            run(["ranlib", str(archive)], folder, archive.name)
        start = Start((link.command.driver, *words), link.directory)
        start = replace(start, compiler=link.origin.compiler, environment=link.origin.environment)
        starts.append(_made(start, [], folder / link.output.name))
        how = _shrunk(understand(starts), folder, scratch / "work") if shrunk else ""
        return (folder / link.output.name).read_bytes(), how


def _start_of(text: str) -> tuple[Start, int]:
    """Return the start of a compiler that a request is about, and the permissions of the files that it writes."""
    _, directory, mask, own, words, environment = compiler.request_of(text)
    return Start(tuple(words), Path(directory), compiler=(own,), environment=environment), ~mask


def _unit_of(start: Start) -> Unit:
    """Return the only unit that a compiler compiles."""
    whole = parse(start.arguments, str(start.directory))
    (unit,) = units_of(whole.plain(), start.directory)
    return replace(unit, origin=start.origin(whole, ""))


def _made(start: Start, mode: list[str], output: Path) -> Start:
    """Have the build's own compiler do what it was started for, but write another file, and return that start.

    Args:
        mode: "-c" to compile.

    Raises:
        BenchmarkInitError: when it fails.
    """
    whole = parse(start.arguments, str(start.directory))
    tokens = [token for token in whole.tokens if token.kind not in ("output", "dependency", "mode")]
    words = [*(word for token in tokens for word in token.words), *mode, "-o", str(output)]
    run([*start.compiler, *words], start.directory, output.name, start.origin(whole, "").environment)
    return _with_files(replace(start, arguments=(start.arguments[0], *words)))


def _with_files(start: Start) -> Start:
    """Return the start of a compiler with the SHA-256 of its inputs and its output, as far as they are there."""
    whole = parse(start.arguments, str(start.directory))
    names = [one.path for one in whole.inputs]
    names += [object_name(whole, unit) for unit in units_of(whole, start.directory) if whole.mode == "compile"]
    names += [whole.output] if whole.output else []
    files = {name: path for name in names if (path := start.directory / name).is_file()}
    return replace(start, files={name: digest(path.read_bytes()) for name, path in files.items()})


def _shrunk(build: Build, folder: Path, scratch: Path) -> str:
    """Shrink the image of a build in a folder by the core set, and return what was done.

    Raises:
        OSError: when it cannot be written.
    """
    from aiocg.runtime import Runtime  # which a build by the lock file does not need
    from aiocg.shrink.searching import CORE
    from aiocg.shrink.shrinking import Shrinking

    async def search() -> None:
        async with Runtime(workers=1) as runtime:  # builds use `make -j`
            await work.search(runtime, missing, CORE)

    scratch.mkdir()
    work = Shrinking(build, folder, scratch, Lock())
    work.begin()
    if missing := work.compare(locked=True):
        asyncio.run(search())
        work.choose(missing)
    work.place(None)
    left_alone = next(iter(work.left_alone.values()), "")
    return "only the core set was tried" if work.images else f"it is the build's own: {left_alone}"
