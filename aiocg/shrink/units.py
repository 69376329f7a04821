"""Compiling the parts of images, each at most once at each level."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.linking import run_linker
from aiocg.datasets.toolchain import loader_environment
from aiocg.errors import AiocgError
from aiocg.llvm.tools import apply
from aiocg.programs.project.commands import Unit
from aiocg.programs.project.compilation import compile_unit, each
from aiocg.shrink.cross import cross_of
from aiocg.shrink.inputs import Module, Part, name_of
from aiocg.shrink.tools import Clang, Zig, is_zig

LEVEL = "-Oz"  # what the front end marks functions for, and what generates code
BITCODE = "bitcode"
FLTO = "-Oz -flto"
LEVELS = {"-Os": ("-Os",), "-Oz": ("-Oz",), FLTO: ("-Oz", "-flto")}
"""What results are compared with, beside the build's own: names, and the words that compile so."""

SECTIONS = ("-ffunction-sections", "-fdata-sections")
_PLACED = re.compile(
    r'^(?:define (?!internal |private )[^\n]*?)?@(?:"([^"\n]+)"|([\w.$]+))(?:\(| = (?!internal |private |external ))'
    r'[^\n]* section "',
    re.MULTILINE,
)
TIMEOUT = 600.0  # seconds for one command


class Units:
    """The compiled parts of a build.

    Attributes:
        left_out: the options that clang does not know, of each unit that was compiled to bitcode.

    Args:
        scratch: an empty folder.
        plain: whether bitcode that the build has made is as ours; rustc's has a summary, with which the linker would
            leave it a module of its own.
    """

    def __init__(self, scratch: Path, *, plain: bool = False) -> None:
        self._scratch = scratch
        self._plain = plain
        self._made = 0
        self._objects: dict[tuple[Part, str], Path | BenchmarkInitError] = {}
        self.left_out: dict[Part, tuple[str, ...]] = {}

    def objects(self, parts: Sequence[Part], level: str) -> dict[Part, Path]:
        """Return the objects of parts at one of `LEVELS`, or as bitcode that no pass has touched.

        Raises:
            BenchmarkInitError: when one does not compile; it has clang's diagnostics.
        """
        missing = [part for part in parts if (part, level) not in self._objects]
        jobs = [(part, self._scratch / f"{self._made + number}.o") for number, part in enumerate(missing)]
        self._made += len(jobs)
        done = each(f"Compiling {level}", lambda job: self._compile(*job, level), jobs)
        for (part, _), result in zip(jobs, done, strict=True):
            self._objects[part, level] = result
        found = {}
        for part in parts:
            one = self._objects[part, level]
            if isinstance(one, BenchmarkInitError):
                raise one
            found[part] = one
        return found

    def forget(self, level: str) -> None:
        """Remove the objects of a level."""
        for key in [key for key in self._objects if key[1] == level]:
            one = self._objects.pop(key)
            if isinstance(one, Path):
                one.unlink()

    def placed(self, parts: Sequence[Part]) -> list[str]:
        """Return the functions and variables of parts that are to stand in sections of their own, if others see them.

        Raises:
            AiocgError, BenchmarkInitError: when a part cannot be compiled or read.
        """
        found: dict[str, None] = {}
        for path in self.objects(parts, BITCODE).values():
            text = apply(path.read_bytes(), [], text=True).decode(errors="replace")
            found |= dict.fromkeys(one or other for one, other in _PLACED.findall(text))
        return list(found)

    def code(self, unit: Unit) -> list[str]:
        """Return the options of a unit that say how code is generated."""
        options = self._known(unit, unit.command.options("level", "linking", "dependency"))
        kinds = ("-f",) if is_zig(unit.command) else ("-m", "-f")  # zig names processors in its own way
        return [word for word in options if word.startswith(kinds)]

    def _compile(self, part: Part, path: Path, level: str) -> Path:
        """Compile a part to a file at a level, and return where the result is."""
        if level == BITCODE and isinstance(part, Module):
            if self._plain:
                return part.path
            try:
                path.write_bytes(apply(part.path.read_bytes(), [], subject=name_of(part)))
            except AiocgError as error:
                raise BenchmarkInitError(name_of(part), str(error)) from error
            return path
        cross = cross_of(part.command, part.directory) if isinstance(part, Unit) else None
        if isinstance(part, Unit) and (cross or (level == BITCODE and not is_zig(part.command))):
            front = LEVEL if level == BITCODE else level
            compiled = compile_unit(cross.unit(part) if cross else part, front)
            self.left_out[part] = compiled.left_out
            path.write_bytes(compiled.bitcode)
            if cross is None or level == BITCODE:
                return path
            source, path = path, path.with_suffix(".code.o")
            words = [*self.code(part), level, *SECTIONS, "-Qunused-arguments", "-w", "-c", "-o", str(path)]
            run([*cross.generator(), *words, "-x", "ir", str(source)], part.directory, name_of(part))
            return path
        how = (LEVEL, "-Xclang", "-disable-llvm-passes", "-emit-llvm") if level == BITCODE else LEVELS[level]
        words = [*how, "-g0", "-w", "-Qunused-arguments", *SECTIONS, "-c", "-o", str(path), "-x"]
        if isinstance(part, Module):
            self._run(part, [*words, "ir", str(part.path)])
        else:
            options = self._known(part, part.command.options("level", "linking", "dependency"))
            self._run(part, [*options, *words, part.input.language, part.input.path])
        return path

    def _known(self, part: Part, words: Sequence[str]) -> list[str]:
        """Leave out what clang does not know."""
        unknown = self.left_out.get(part, ())
        return [word for word in words if word not in unknown]

    def _run(self, part: Part, words: Sequence[str]) -> None:
        if isinstance(part, Module):
            run([*Clang().generator(), *words], part.path.parent, name_of(part))
            return
        tools = Zig.find() if is_zig(part.command) else Clang()
        run([*tools.compiler(part.input.language.startswith("c++")), *words], part.directory, name_of(part))


def run(line: Sequence[str], directory: Path, name: str) -> None:
    """Run a compiler or a linker.

    Raises:
        BenchmarkInitError: when it fails; it has the messages.
    """
    environment = {**os.environ, **loader_environment(), "LC_ALL": "C"}
    run_linker(line, str(directory), environment, name, TIMEOUT)
