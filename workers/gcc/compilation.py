"""What a command line makes of a program's sources: assembly, RTL and machine code, each when it is asked for."""

import os
import tempfile
import time
from pathlib import Path

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.place import Completed, Place
from aiocg.workers.gcc.sources import Sources

__all__ = ["Compiler", "Program"]


class Program:
    """A program that was loaded: its sources, and a folder that has them once they are compiled.

    Args:
        sources: of the program.
        recipe: how to build and run it; see `aiocg.datasets.recipe`.
    """

    def __init__(self, sources: Sources, recipe: bytes = b"") -> None:
        self.sources = sources
        self.recipe = recipe
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def folder(self, root: str) -> Path:
        """Return a folder below another one that has the sources in `src`."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="p-", dir=root, ignore_cleanup_errors=True)
            for name, content in self.sources.files.items():
                path = Path(self._folder.name, "src", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                os.utime(path, (0, 0))
        return Path(self._folder.name)


class Compiler:
    """Compiles programs at a place, and remembers the results."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._known: dict[tuple[str, tuple[str, ...], str], bytes] = {}

    def product(self, program: Program, words: tuple[str, ...], name: str, timeout: float) -> bytes:
        """Return `asm` or `obj`."""
        key = program.sources.digest, words, name
        if key not in self._known:
            self._known[key] = self._make(program, words, name, timeout)
        return self._known[key]

    def _make(self, program: Program, words: tuple[str, ...], name: str, timeout: float) -> bytes:
        sources = program.sources
        folder = program.folder(self.place.root)
        deadline = time.monotonic() + timeout
        flag = "-S" if name == "asm" else "-c"
        made = []
        with tempfile.TemporaryDirectory(dir=folder) as out:
            for index, unit in enumerate(sources.units):
                output = os.path.join(out, f"{index}.{name}")
                options = [*sources.flags, *(f"-I{path}" for path in sources.include), *words, "-w"]
                language = ["-x", sources.language]
                if sources.freestanding:
                    done = self.place.run(
                        [self.place.compiler, "-print-file-name=include"], folder=str(folder), timeout=60
                    )
                    options += ["-nostdinc", "-isystem", done.output.decode().strip()]
                command = [self.place.compiler, *options, f"-frandom-seed={unit}", flag, *language, unit, "-o", output]
                done = self.place.run(command, folder=str(folder / "src"), timeout=deadline - time.monotonic())
                if done.status:
                    raise _failure(done)
                made.append(output)
            if name == "obj" and len(made) > 1:
                output = os.path.join(out, "all.o")
                done = self.place.run(
                    [self.place.compiler, "-r", "-nostdlib", "-o", output, *made], folder=out, timeout=60
                )
                if done.status:
                    raise _failure(done)
                made = [output]
            return b"".join(Path(path).read_bytes() for path in made)


def _failure(done: Completed) -> CompilationError:
    return CompilationError(FailureCode.OBSERVATION, done.errors.decode(errors="replace"), reason=done.stopped)
