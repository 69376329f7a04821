"""Linking again what a build has linked, from objects that the build's own GCC compiles with more options."""

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiocg.build.commands import Unit
from aiocg.build.objects import elf_symbols
from aiocg.build.proof import check_repeatable, has_used
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.llvm.command_line import level_macros
from aiocg.shrink.cross import index_archives
from aiocg.shrink.inputs import STARTING, Part, collects, linker_words, name_of
from aiocg.shrink.linking import Linker
from aiocg.shrink.record import Link
from aiocg.shrink.tools import Clang
from aiocg.shrink.units import SECTIONS, Units, run

COLLECT = "-Wl,--gc-sections"
_NAMING = frozenset(["wrap", "defsym", "init", "fini", "e", "entry"])
"""Options of the linker about symbols that GCC's link-time optimisation does not know, or not well."""
LTO = "-flto"
LEVELS = ("-Os", "-Oz", "-Os -flto", "-Oz -flto")
"""What a search begins with, and what results are compared with, beside the build's own."""

_LOST = re.compile(
    r"-fstack-protector.*|-fcf-protection.*|-fzero-call-used-regs.*|-fstack-clash-protection|-fstack-check.*|-fharden.*|"
    r"-fsplit-stack|-ffreestanding|-fno-builtin.*|-fno-toplevel-reorder|-fpatchable-function-entry.*|-fsanitize.*|-ffixed.*|"
    r"-fcall-.*"
)
"""Options of a unit that link-time optimisation does not, or not always, keep for its functions."""


class Gcc(Clang):
    """The GCC that has built an image.

    Args:
        driver: its name or path.
    """

    def __init__(self, driver: str) -> None:
        self.driver = driver

    def linker(self, words: Sequence[str], link: Link, purpose: str, scratch: Path) -> list[str]:
        """Return a command that links."""
        index_archives(self.driver, words, scratch)
        return [self.driver, *words, *(() if collects(words) is False else (COLLECT,))]


class GccUnits(Units):
    """The parts of a build, compiled by the build's own compiler with more options."""

    def _proved(self, unit: Unit) -> Unit:
        check_repeatable(unit, self._scratch)
        return unit

    def check(self, part: Part) -> None:
        """Refuse a unit that the compiler does not compile to the same object again.

        Raises:
            BenchmarkInitError: when it does not.
        """
        if isinstance(part, Unit):
            self.same(part)

    def mentions(self, part: Part, name: str) -> bool:
        """Return False: GNU's linker wraps symbols of machine code."""
        return False

    def keeps_unused(self, part: Part) -> bool:
        """Say whether a part has something that is to stay though nothing refers to it."""
        return isinstance(part, Unit) and has_used(part)

    def _compile(self, part: Part, path: Path, level: str) -> Path:
        """Compile a unit with a line of options, which those of the build outdo, but for its level."""
        assert isinstance(part, Unit)
        given = [word for word in shlex.split(level) if word != LTO or not loses(part)]
        own = [] if any(word.startswith("-O") for word in given) else [part.command.level or "-O0"]
        options = [*level_macros(part.command.level), *part.command.options("level", "linking", "dependency")]
        words = [*given, *own, *options, "-w", *SECTIONS, "-x", part.input.language, part.input.path]
        driver = part.origin.compiler if part.origin is not None else (part.command.driver,)
        run([*driver, *words, "-c", "-o", str(path)], part.directory, name_of(part), part.environment)
        return path


def compiler_of(driver: str) -> str:
    """Return the C compiler beside the one that links, if it is there."""
    folder, slash, name = driver.rpartition("/")
    ours = folder + slash + re.sub(r"(?<![a-z])([gc])\+\+", lambda found: {"g": "gcc", "c": "cc"}[found[1]], name)
    return ours if shutil.which(ours) else driver


def loses(unit: Unit) -> bool:
    """Say whether link-time optimisation would lose an option of a unit, which is compiled without it then."""
    return any(_LOST.fullmatch(word) for word in unit.command.options())


@dataclass(frozen=True, slots=True)
class GccLinker(Linker):
    """Links what `GccUnits` has compiled."""

    def joined(self) -> bytes:
        """Return the build's own image."""
        return self.inputs.link.output.read_bytes()

    def _check_joinable(self) -> None:
        """Refuse link-time optimisation where GCC's makes another program.

        Raises:
            BenchmarkInitError: when words of the link name symbols, which it may inline or remove, or machine code
                defines what other units define weakly, which it may inline.
        """
        name = self.inputs.link.output.name
        for word in linker_words(self.inputs.link.command.words):
            if word.startswith("-") and word.lstrip("-").partition("=")[0] in _NAMING:
                raise BenchmarkInitError(name, f"with link-time optimisation {word} may mean something else")
        for section, parts in self.inputs.sharing(STARTING).items():
            if any(part in self.parts for part in parts):
                raise BenchmarkInitError(name, f"link-time optimisation would change the order in {section}")
        joined = {part: None for part in self.parts if isinstance(part, Unit) and not loses(part)}
        weak: set[str] = set()
        strong: set[str] = set()
        for part, content in self.inputs.objects():
            symbols = elf_symbols(content)
            if part in joined:
                del joined[part]
                weak |= symbols.weak
            else:
                strong |= symbols.defined
        if both := sorted(weak & strong):
            raise BenchmarkInitError(name, f"machine code defines {both[0]}, which another unit defines weakly")
        if joined and strong:
            raise BenchmarkInitError(name, "a source is compiled by the link, which has machine code as well")

    def at(self, level: str) -> bytes:
        """Return the image with a line of options.

        Raises:
            BenchmarkInitError: when a part does not compile or they do not link.
        """
        output = self.scratch / "image"
        if LTO in shlex.split(level):
            self._check_joinable()
        self._link(self.compiled.objects(self.parts, level), output, "", more=shlex.split(level))
        return output.read_bytes()
