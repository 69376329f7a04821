"""A build by the lock file: sources become bitcode, and images are linked from it at once, with nothing compiled twice.

As with link-time optimisation, the objects of such a build are bitcode. That takes an image of nothing but units that
clang compiles, with the search's passes; with others, the build is done as always, and its images are made once more.

The compilers of the build (`compiler`) ask this process to link: it has everything imported, and LLVM loaded beside it.
"""

import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiocg.build.commands import Start, run_build
from aiocg.build.compilation import ALWAYS, OLD_C
from aiocg.build.proof import SHARED, UNALIASED, gcc_words, is_gcc
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.datasets.replacing import replacing
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import compile_flags, find_toolchain, link_flags
from aiocg.errors import AiocgError
from aiocg.llvm.command_line import UNTYPED_LEVELS, level_words
from aiocg.llvm.recording import compilers, recording_commands
from aiocg.llvm.tools import LoadedTool
from aiocg.shrink import compiler
from aiocg.shrink.candidate import Candidates
from aiocg.shrink.image import read_image
from aiocg.shrink.inputs import read_inputs
from aiocg.shrink.linking import Form, Linker
from aiocg.shrink.lock import Lock
from aiocg.shrink.record import understand
from aiocg.shrink.tools import Clang, searched_with
from aiocg.shrink.tuning import optimised
from aiocg.shrink.units import LEVEL, Units


@dataclass(frozen=True, slots=True)
class Linked:
    """An image that was linked.

    Attributes:
        bytes: that count.
        note: what went otherwise than the lock file says; "" for nothing.
    """

    name: str
    bytes: int
    note: str


def build(text: str, lock: Lock, commands: Path, scratch: Path) -> tuple[int, list[Linked]]:
    """Build by a lock file, and return the build's exit status and its images.

    Args:
        text: of the build, for the shell.
        lock: all its entries are repeatable; names are relative to the working directory.
        commands: a folder for the commands that take the places of compilers.
        scratch: an empty folder.
    """
    commands.mkdir(parents=True, exist_ok=True)
    search_path = os.environ.get("PATH", os.defpath)
    recording_commands(str(commands), search_path, compiler.__file__)
    images = {os.path.abspath(name): name for name in lock.images}
    with LoadedTool(), _Links(lock, images).served(scratch) as links:
        variables = {
            compiler.VARIABLE: compiler.plan_text(_plan(lock, list(images), scratch)),
            "PATH": os.pathsep.join((str(commands), search_path)),
            "CCACHE_DISABLE": "1",
        }
        return run_build(["/bin/sh", "-c", text], {**os.environ, **variables}), links.done


def is_repeatable(lock: Lock) -> bool:
    """Say whether everything that a lock file has can be built by it at once."""
    return lock.whole and all(entry.repeatable for entry in lock.images.values())


def _plan(lock: Lock, images: list[str], scratch: Path) -> compiler.Plan:
    """Return what the compilers of the build are to do."""
    toolchain = find_toolchain()
    lld = scratch / "ld.lld"
    lld.symlink_to(Path(toolchain.linker_command()[0]).resolve())
    clang = {
        language: [*toolchain.command(language), *compile_flags(toolchain.clang, language)] for language in ("c", "c++")
    }
    return {
        **clang,
        "bitcode": [LEVEL, "-Xclang", "-disable-llvm-passes", *ALWAYS, "-emit-llvm"],
        "lenient": list(OLD_C),
        "lto": [LEVEL, "-flto", *link_flags(toolchain.clang, "c"), f"--ld-path={lld}", "-w", "-Qunused-arguments"],
        **{f"level{level}": level_words(level) for level in (*UNTYPED_LEVELS, "-O2", "-Os", "-Oz", "-Ofast")},
        **{
            f"gcc {language}{level}": gcc_words(level, cplusplus=language == "c++")
            for language in clang
            for level in (*UNTYPED_LEVELS, "-O2")
        },
        "shared": list(SHARED),
        "unaliased": [UNALIASED],
        "gnu": [path for path in compilers(os.environ.get("PATH", os.defpath)).values() if is_gcc((path,))],
        "left_out": sorted({word for entry in lock.images.values() for word in entry.left_out}),
        "images": images,
        "folder": [str(scratch)],
    }


class _Links:
    """Links the images of a lock file when the build's compilers ask for it.

    Args:
        lock: the lock file.
        images: the names of its images by their paths.
    """

    def __init__(self, lock: Lock, images: dict[str, str]) -> None:
        self.done: list[Linked] = []
        self._lock, self._images = lock, images

    @contextmanager
    def served(self, folder: Path) -> "Iterator[_Links]":
        """Answer at the socket in a folder."""
        links = self

        class Answer(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                directory, mask, *words = os.fsdecode(self.rfile.read()).split(compiler.SEPARATOR)
                try:
                    links.link(words, Path(directory), 0o777 & ~int(mask))
                except (AiocgError, BenchmarkInitError, OSError, ValueError) as error:
                    self.wfile.write(first_diagnostic(error).encode())

        descriptor = os.open(folder, os.O_RDONLY)
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

    def link(self, words: list[str], directory: Path, mode: int) -> None:
        """Link an image from bitcode.

        Args:
            words: the compiler's name and what follows it.
            directory: where it was started.
            mode: of the image.

        Raises:
            AiocgError, BenchmarkInitError, OSError, ValueError: when it cannot be done.
        """
        found = understand([Start(tuple(words), directory)])
        if not found.links:
            raise ValueError("; ".join(found.left_alone.values()) or "it is no link")
        (one,) = found.links
        name = self._images[str(one.output)]
        entry, note = self._lock.images[name], ""
        with scratch_folder() as scratch:
            (units := Path(scratch, "units")).mkdir()
            inputs = read_inputs(one, {}, Path(scratch))
            linker = Linker(inputs, Units(units, plain=True), Path(scratch), Form(entry.code, entry.link), Clang())
            module, actions = linker.joined(), entry.actions
            if why := entry.staleness(module, searched_with()):
                note, actions = f"the lock file is of no use for it: {why}; only the core set was tried", _core(module)
            module = optimised(module, actions, entry.options, subject=name)
            content = linker.image(module, entry.options)
        with replacing(one.output, mode) as file:
            file.write(content)
        self.done.append(Linked(name, read_image(content).bytes, note))


def _core(module: bytes) -> tuple[str, ...]:
    """Return what the core set finds for a module."""
    import asyncio

    from aiocg.runtime import Runtime
    from aiocg.shrink.searching import CORE, search

    async def found() -> tuple[str, ...]:
        async with Runtime(workers=1) as runtime:  # builds use `make -j`
            return await search(runtime, module, CORE) or Candidates.quick

    return asyncio.run(found())
