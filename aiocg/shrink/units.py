"""Compiling the units of a build, each at most once at each level."""

import os
from collections.abc import Sequence
from pathlib import Path

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.linking import run_linker
from aiocg.datasets.toolchain import compile_flags, find_toolchain, loader_environment
from aiocg.programs.project.commands import Unit
from aiocg.programs.project.compilation import compile_unit, each

LEVEL = "-Oz"  # what the front end marks functions for, and what generates code
BITCODE = "bitcode"
FLTO = "-Oz -flto"
LEVELS = {"-Os": ("-Os",), "-Oz": ("-Oz",), FLTO: ("-Oz", "-flto")}
"""What results are compared with, beside the build's own: names, and the words that compile so."""

SECTIONS = ("-ffunction-sections", "-fdata-sections")
TIMEOUT = 600.0  # seconds for one command


class Units:
    """The compiled units of a build.

    Args:
        scratch: an empty folder.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._objects: dict[tuple[Unit, str], Path | BenchmarkInitError] = {}
        self._left_out: dict[Unit, tuple[str, ...]] = {}

    def objects(self, units: Sequence[Unit], level: str) -> dict[Unit, Path]:
        """Return the objects of units at one of `LEVELS`, or as bitcode that no pass has touched.

        Raises:
            BenchmarkInitError: when one does not compile; it has clang's diagnostics.
        """
        missing = [unit for unit in units if (unit, level) not in self._objects]
        folder = self._scratch / level.replace(" ", "")
        folder.mkdir(exist_ok=True)
        jobs = [(unit, folder / f"{len(self._objects) + number}.o") for number, unit in enumerate(missing)]
        for (unit, path), error in zip(jobs, each(f"Compiling {level}", self._work(level), jobs), strict=True):
            self._objects[unit, level] = path if error is None else error
        found = {}
        for unit in units:
            result = self._objects[unit, level]
            if isinstance(result, BenchmarkInitError):
                raise result
            found[unit] = result
        return found

    def generate(self, unit: Unit, module: Path, words: Sequence[str], output: Path) -> None:
        """Generate code for an optimised module with the options of a unit and no passes over its IR.

        Args:
            unit: any that went into the module.
            module: a file of bitcode.
            words: more options.
            output: the object to write.

        Raises:
            BenchmarkInitError: when that fails.
        """
        options = self._known(unit, unit.command.object_words(LEVEL))
        self._clang(unit, [*options, *SECTIONS, *words, "-w", "-c", "-o", str(output), "-x", "ir", str(module)])

    def _work(self, level: str):  # type: ignore[no-untyped-def]
        def bitcode(job: tuple[Unit, Path]) -> None:
            unit, path = job
            compiled = compile_unit(unit, LEVEL)
            self._left_out[unit] = compiled.left_out
            path.write_bytes(compiled.bitcode)

        def machine_code(job: tuple[Unit, Path]) -> None:
            unit, path = job
            options = self._known(unit, unit.command.options("level", "linking", "dependency"))
            words = [*options, *LEVELS[level], "-g0", "-w", "-Qunused-arguments", *SECTIONS]
            self._clang(unit, [*words, "-c", "-o", str(path), "-x", unit.input.language, unit.input.path])

        return bitcode if level == BITCODE else machine_code

    def _known(self, unit: Unit, words: Sequence[str]) -> list[str]:
        """Leave out what clang does not know."""
        unknown = self._left_out.get(unit, ())
        return [word for word in words if word not in unknown]

    def _clang(self, unit: Unit, words: Sequence[str]) -> None:
        language = "c++" if unit.input.language.startswith("c++") else "c"
        toolchain = find_toolchain()
        line = [*toolchain.command(language), *compile_flags(toolchain.clang, language), *words]
        environment = {**os.environ, **loader_environment(), "LC_ALL": "C"}
        run_linker(line, str(unit.directory), environment, unit.input.path, TIMEOUT)
