"""GCC's images with other options: one line of options for a whole build, which any build can be given without us."""

import functools
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from aiocg.build.commands import Unit
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.errors import AiocgError
from aiocg.llvm.command_line import level_words
from aiocg.shrink._candidate import OWN, Candidates, proven
from aiocg.shrink._linking import Form, Linker
from aiocg.shrink._units import SECTIONS, Units
from aiocg.shrink.gcc_linking import COLLECT, LEVELS, Gcc, GccLinker, GccUnits, compiler_of
from aiocg.shrink.image import measure
from aiocg.shrink.inputs import read_inputs
from aiocg.shrink.record import Link
from aiocg.shrink.shrinking import UNKNOWN, Shrinking, check_same

if TYPE_CHECKING:
    from aiocg.runtime import Runtime
    from aiocg.search import Budget
    from aiocg.search.budget import Meter
    from aiocg.transport.options import Option

GCC = "GCC"  # begins the name of a compiler in the lock file


class _GccCandidates(Candidates):
    """The images of one link with several lines of options for GCC: its actions are options."""

    compiler = "gcc"
    levels = LEVELS
    quick = LEVELS[:1]
    short = "only what was found before"

    @classmethod
    def begin(cls, name: str, linker: Linker, how: str = "") -> "_GccCandidates":
        """Take the build's own image, which says what the program is, too.

        Raises:
            OSError, ValueError: when it cannot be read.
        """
        own = linker.joined()
        assert isinstance(linker.compiled, GccUnits)
        linker, notes = proven(linker, linker.compiled.check, joins=False)
        return cls(name, linker, own, {OWN: measure(own, how)}, {OWN: own}, notes=notes, measure=how)

    def built(self, actions: Sequence[str], options: tuple[str, ...] = ()) -> bytes:
        """Return the image of the program with options."""
        return self.linker.at(shlex.join(actions))


@dataclass(slots=True)
class GccShrinking(Shrinking):
    """Makes the images of a build smaller by one line of options for its GCC.

    Attributes:
        line: the options that were found.
    """

    line: tuple[str, ...] = field(default=(), init=False)
    span: ClassVar[str] = "for all"
    levels: ClassVar[Sequence[str]] = LEVELS
    _line_options: "tuple[Option, ...]" = field(default=(), init=False)
    _meter: "Meter | None" = field(default=None, init=False)

    def _begin_units(self, folder: Path) -> Units:
        return GccUnits(folder, self.build.all_units)

    @property
    def compiler(self) -> str:
        """The name and the release of the build's compiler."""
        return self._release(self.images[0].linker.inputs.link)

    def _release(self, link: Link) -> str:
        done = subprocess.run([compiler_of(link.command.driver), "-dumpfullversion"], stdout=subprocess.PIPE, text=True)
        return f"{GCC} {done.stdout.strip()}"

    @property
    def driver(self) -> str:
        """The build's compiler for C."""
        return compiler_of(self.images[0].linker.inputs.link.command.driver)

    def _begun(self, name: str, link: Link, scratch: Path, *, trusted: bool = False) -> Candidates:
        inputs = read_inputs(link, self.build.units, scratch)
        if trusted:
            self.compiled.trusted.update(inputs.parts)
        else:
            check_same(link, scratch)
        if not all(isinstance(part, Unit) for part in inputs.parts) or not inputs.parts:
            raise ValueError(UNKNOWN)
        linker: Linker = GccLinker(inputs, self.compiled, scratch, Form((), ()), Gcc(link.command.driver))
        return _GccCandidates.begin(name, self._kept(name, linker), self.measure)

    def _add_levels(self, images: Sequence[Candidates]) -> None:
        for image in images:
            image.add_levels()

    async def search(self, runtime: "Runtime", images: Sequence[Candidates], budget: "Budget") -> None:
        """Ask the compiler for its options, with which `choose` searches if there is some time for it."""
        from aiocg.shrink.searching import CORE, options_of

        if budget == CORE:
            return
        try:
            self._line_options = await options_of(runtime, self.driver)
        except AiocgError as error:
            for image in images:
                image.notes.append(f"there was no search: {first_diagnostic(error)}")
            return
        self._meter = budget.start()

    def hint(self) -> str:
        """Return the options of the images with which the build has the same without us."""
        found = [one for one in self.images if one.chosen != OWN]
        if not found:
            return ""
        lines = {one.recipes[one.chosen].actions or tuple(shlex.split(one.chosen)) for one in found}
        if len(lines) > 1:
            return ""
        (line,) = lines
        units = [part for one in found for part in one.linker.parts if isinstance(part, Unit)]
        own = {tuple(level_words(unit.command.level)) for unit in units}
        levels = [word for word in line if word.startswith("-O")]
        if not levels or len(own) != 1:  # CFLAGS may take the place of the build's own level
            return ""
        macros = () if tuple(level_words(levels[-1])) in own else own.pop()  # which headers ask for
        collected = not any(one.linker.keeps_all for one in found)
        link = [*([COLLECT] if collected else ()), *(line if "-flto" in line else ())]
        flags = shlex.join([*line, *macros, *(SECTIONS if collected else ())])
        return f'the same without aiocg: CFLAGS="{flags}" LDFLAGS="{shlex.join(link)}"'

    def choose(self, images: Sequence[Candidates]) -> None:
        """Search for the line with which all images together are smallest, and take those that are smaller with it."""
        if self._meter is not None:
            from aiocg.shrink.searching import find

            self.line = find(_sizes(images), self._line_options, self._meter)
        for image in images:
            stale = self.lock.images.get(image.name)
            image.add_found(self.line or (stale.actions if stale else ()) or image.quick)
            image.choose()


def _sizes(images: Sequence[Candidates]) -> Callable[[tuple[str, ...]], int | None]:
    """Return what says how many bytes all images of a build have with a line of options; None if it fails.

    An image counts as the build has made it where that is smaller, or where it does not link with the line.
    """
    units = images[0].linker.compiled

    def size_of(image: Candidates, line: str) -> int:
        own = image.images[OWN].bytes
        try:
            return min(own, measure(image.linker.at(line), image.measure).bytes)
        except BenchmarkInitError:
            return own

    @functools.cache
    def size(line: tuple[str, ...]) -> int | None:
        text = shlex.join(line)
        try:
            units.objects(tuple({part: None for one in images for part in one.linker.parts}), text)
            return sum(size_of(one, text) for one in images)
        except BenchmarkInitError:
            return None
        finally:
            units.forget(text)

    return size
