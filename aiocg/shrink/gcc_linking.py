"""Links images again from objects that the build's own GCC makes smaller."""

import contextlib
import re
import shlex
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiocg.build.commands import Unit
from aiocg.build.objects import elf_symbols
from aiocg.build.proof import UNCONTRACTED, check_repeatable, has_used, optimisers
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.llvm.command_line import UNTYPED_LEVELS, level_words
from aiocg.shrink._candidate import BY_OPTIONS, GCC, MIXED, NAMED, OURS, TUNED_LEVEL, TUNED_WORD, Candidates, Recipe
from aiocg.shrink._linking import Linker, NothingJoined
from aiocg.shrink._tools import Clang, index_archives
from aiocg.shrink._tuning import FRAME_POINTERS, candidates, optimised
from aiocg.shrink._tuning import linker_words as tuning_words
from aiocg.shrink._units import FLTO, SECTIONS, Units, run
from aiocg.shrink.image import measure, smallest
from aiocg.shrink.inputs import STARTING, Part, collects, confused, linker_words, name_of
from aiocg.shrink.record import Link
from aiocg.transport.elf import symbol_sizes

COLLECT = "-Wl,--gc-sections"
LTO = "-flto"
LEVELS = ("-Os", "-Oz", "-Os -flto", "-Oz -flto")
"""What a search begins with, and what results are compared with, beside the build's own."""

RIVALS = ("-Oz", FLTO, f"{FLTO}{TUNED_WORD}", f"{FLTO} {FRAME_POINTERS}{TUNED_WORD}")
"""The levels that what clang makes is compared with; the last two with the options of the linker."""

BY_PASSES = 0.95  # times the bytes of clang's best level: what `functionwise` mostly comes to

_LOST = re.compile(
    r"-fstack-protector.*|-fcf-protection.*|-fzero-call-used-regs.*|-fstack-clash-protection|-fstack-check.*|-fharden.*|"
    r"-fsplit-stack|-ffreestanding|-fno-builtin.*|-fno-toplevel-reorder|-fpatchable-function-entry.*|-fsanitize.*|-ffixed.*|"
    r"-fcall-.*"
)
"""Options of a unit that link-time optimisation does not, or not always, keep for its functions."""
_KEPT = frozenset(["-fstack-protector-strong", "-fstack-protector-all", "-fstack-clash-protection"])
"""Those of them that it keeps if all units have them, where a GCC has them for each function: from GCC 11 on."""
_ORDERED = frozenset(["-fno-toplevel-reorder", "-fno-unit-at-a-time"])
"""Options with which functions, variables and assembly stand in the order of the source."""
_NAMING = frozenset(["wrap", "defsym", "init", "fini", "e", "entry"])


def naming_word(words: Iterable[str]) -> str:
    """Return a linker's first option about symbols that GCC's link-time optimisation does not know, or not well."""
    options = (word for word in words if word.startswith("-"))
    return next((word for word in options if word.lstrip("-").partition("=")[0] in _NAMING), "")


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
        starting = ["-ffast-math"] if link.command.level == "-Ofast" else []  # denormal numbers become zero
        return [self.driver, *words, *starting, *(() if collects(words) is False else (COLLECT,))]


class GccUnits(Units):
    """The parts of a build, compiled by the build's own compiler with more options.

    Args:
        scratch: an empty folder.
        units: all units of the build.
    """

    def __init__(self, scratch: Path, units: Collection[Unit]) -> None:
        super().__init__(scratch)
        compilers = {unit.origin.compiler for unit in units if unit.origin is not None}
        common = _KEPT.intersection(*(unit.command.options() for unit in units))
        self._kept = common.intersection(*map(optimisers, compilers)) if compilers else frozenset()

    def loses(self, unit: Unit) -> bool:
        """Say whether link-time optimisation would lose an option of a unit, which is compiled without it then."""
        return any(_LOST.fullmatch(word) and word not in self._kept for word in unit.command.options())

    def _proved(self, unit: Unit) -> Unit:
        if unit not in self.trusted:
            check_repeatable(unit, self._scratch)
        return unit

    def check(self, part: Part) -> None:
        """Refuse a unit that the compiler does not compile to the same object again.

        Raises:
            BenchmarkInitError: when it does not.
        """
        if isinstance(part, Unit):
            self.same(part)

    def forget(self, level: str) -> None:
        """Remove the objects of a line of options; those of levels, and of none, are needed again for other images."""
        if level and level not in LEVELS:
            super().forget(level)

    def mentions(self, part: Part, name: str) -> bool:
        """Return False: GNU's linker wraps symbols of machine code."""
        return False

    def keeps_unused(self, part: Part) -> bool:
        """Say whether a part has something that is to stay though nothing refers to it."""
        return isinstance(part, Unit) and has_used(part)

    def _compile(self, part: Part, path: Path, level: str) -> Path:
        """Compile a unit with a line of options, which those of the build outdo, but for its level."""
        assert isinstance(part, Unit)
        given = [word for word in shlex.split(level) if word != LTO or not self.loses(part)]
        own = [] if any(word.startswith("-O") for word in given) else [part.command.level or "-O0"]
        options = [*level_words(part.command.level), *part.command.options("level", "linking", "dependency")]
        contract = [UNCONTRACTED] if part.command.level in UNTYPED_LEVELS else []
        apart = SECTIONS if _ORDERED.isdisjoint(options) else ()
        words = [*given, *own, *options, *contract, "-w", *apart, "-x", part.input.language, part.input.path]
        driver = part.origin.compiler if part.origin is not None else (part.command.driver,)
        run([*driver, *words, "-c", "-o", str(path)], part.directory, name_of(part), part.environment)
        return path


def compiler_of(driver: str) -> str:
    """Return the C compiler beside the one that links, if it is there."""
    folder, slash, name = driver.rpartition("/")
    ours = folder + slash + re.sub(r"(?<![a-z])([gc])\+\+", lambda found: {"g": "gcc", "c": "cc"}[found[1]], name)
    return ours if shutil.which(ours) else driver


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
        if word := naming_word(linker_words(self.inputs.link.command.words)):
            raise BenchmarkInitError(name, f"with link-time optimisation {word} may mean something else")
        for section, parts in self.inputs.sharing(STARTING).items():
            if any(part in self.parts for part in parts):
                raise BenchmarkInitError(name, f"link-time optimisation would change the order in {section}")
        assert isinstance(self.compiled, GccUnits)
        joined = {part: None for part in self.parts if isinstance(part, Unit) and not self.compiled.loses(part)}
        for other in confused({part: content for part, content in self.inputs.objects() if part in joined}).values():
            raise BenchmarkInitError(name, f"assembly names {other}, which another unit has for itself")
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
        output = self._made
        if LTO in shlex.split(level):
            self._check_joinable()
        self._link(self.compiled.objects(self.parts, level), output, "", more=shlex.split(level))
        return output.read_bytes()


class OnlyGcc(Candidates):
    """The images of one link of which clang can replace nothing: those that `GccImages` adds."""

    compiler = GCC
    levels = ()

    def add_found(self, actions: tuple[str, ...]) -> None:
        """Add nothing: there is no bitcode that passes could be for."""

    def tune_level(self) -> None:
        """Add nothing."""


@dataclass(frozen=True, slots=True)
class GccImages:
    """The images of which GCC makes all, or a part, for a link that it has compiled all of.

    Attributes:
        image: the candidates, to which they are added.
        linker: links what GCC compiles.
    """

    image: Candidates
    linker: Linker

    @property
    def wins(self) -> bool:
        """Whether one of its levels is smaller than what a search for passes can be expected to come to."""
        sizes = {name: image.bytes for name, image in self.image.images.items()}
        least = min(size for name, size in sizes.items() if not name.startswith(f"{GCC} "))
        return not self.image.levels or min(sizes.values()) < BY_PASSES * least

    def add_levels(self, levels: Sequence[str] = RIVALS) -> None:
        """Make the images at some levels, `-Os` instead of `-Oz` for a GCC that has none."""
        for level in levels:
            plain = level.removesuffix(TUNED_WORD)
            name = f"{GCC} {level}"
            with self.image.noting(f"there is no image by {name}"):
                try:
                    content = self.linker.at(level) if plain == level else self._linked(shlex.split(plain))
                except BenchmarkInitError:
                    if level != RIVALS[0]:
                        raise
                    self.add_levels([one.replace("-Oz", "-Os") for one in levels])
                    return
                self.image.add(name, content)

    def _linked(self, line: Sequence[str]) -> bytes:
        """Return the image with a line of options, and those of the linker.

        Raises:
            BenchmarkInitError: when a part does not compile or they do not link.
        """
        link = tuple(tuning_words(candidates(self.linker.inputs.link.command.words)))
        return replace(self.linker, form=replace(self.linker.form, link=link)).at(shlex.join(line))

    def search(self, find: Callable[[Callable[[tuple[str, ...]], int | None]], tuple[str, ...]]) -> None:
        """Make the image with the line of options that `find` finds for it, by the size with any line."""

        def size(line: tuple[str, ...]) -> int | None:
            try:
                return measure(self._linked(line), self.image.measure).bytes
            except BenchmarkInitError:
                return None
            finally:
                self.linker.compiled.forget(shlex.join(line))

        self.add_options(find(size))

    def add_options(self, line: tuple[str, ...]) -> None:
        """Make the image with a line of options; a failure is noted."""
        with self.image.noting("with GCC's options it does not link"):
            self.image.add(BY_OPTIONS, self._linked(line), Recipe(line))

    def repeat(self, name: str, recipe: Recipe) -> None:
        """Make the image of a name, as the lock file says; a failure is noted."""
        if name == MIXED:
            self.add_mixed(recipe)
        elif name == BY_OPTIONS:
            self.add_options(recipe.actions)
        elif name.startswith(f"{GCC} "):
            self.add_levels([name.removeprefix(f"{GCC} ")])

    @property
    def mixable(self) -> list[Part]:
        """The parts of which its objects may be linked: not those whose order with others matters."""
        starting = {part for parts in self.linker.inputs.sharing(STARTING).values() for part in parts}
        ours = self.image.linker
        return [part for part in (*ours.parts, *ours.kept) if part in self.linker.parts and part not in starting]

    def mix(self, seconds: float) -> None:
        """Make the smallest image by clang with GCC's objects of units that are smaller by it, if that is smaller.

        Units are told apart by what their functions and variables have in both images. That is not exact, as some are
        inlined into others. So the best half of them is tried, too, and the best half of those, and so on; then each
        unit is tried the other way round.

        Args:
            seconds: after which no more units are tried.
        """
        until = time.monotonic() + seconds
        images, recipes, contents = self.image.images, self.image.recipes, self.image.contents
        level = next((level for level in LEVELS if f"{GCC} {level}" in images and LTO not in level.split()), "")
        ours_by = {name: images[name] for name in (*OURS, TUNED_LEVEL) if name in images}
        if not level or not ours_by:
            return
        found = smallest(ours_by)
        ours, theirs = symbol_sizes(contents[found]), symbol_sizes(contents[f"{GCC} {level}"])
        gains = {
            part: sum(ours.get(name, 0) - theirs.get(name, 0) for name in symbol_sizes(path.read_bytes()))
            for part, path in self.linker.compiled.objects(self.mixable, level).items()
        }
        searched = [word for word in recipes.get(BY_OPTIONS, NAMED).actions if word != LTO]
        for line in dict.fromkeys(filter(None, (shlex.join(searched), level))):
            recipe = replace(recipes[found], line=tuple(shlex.split(line)))
            better = sorted((part for part in gains if gains[part] > 0), key=lambda part: -gains[part])
            best: tuple[Part, ...] = ()
            while better:
                if self.add_mixed(replace(recipe, by_gcc=tuple(better))):
                    best = tuple(better)
                better = better[: len(better) // 2]
            for part in sorted(gains, key=lambda part: abs(gains[part])):
                if time.monotonic() > until:
                    break
                others = tuple(one for one in best if one != part)
                other = others if part in best else (*best, part)
                if other and self.add_mixed(replace(recipe, by_gcc=other)):
                    best = other

    def add_mixed(self, recipe: Recipe) -> bool:
        """Make the image of a recipe, and say whether it is smaller than the one before; a failure is noted."""
        with self.image.noting(f"with units by {GCC} it does not link"):
            objects = self.linker.compiled.objects(recipe.by_gcc, shlex.join(recipe.line) or "-Oz")
            linker = replace(self.image.linker, kept={**self.image.linker.kept, **objects})
            options, joined = tuple(recipe.saved), b""
            with contextlib.suppress(NothingJoined):  # all that is linked may be GCC's
                joined = linker.joined() if recipe.actions else joined
            if joined:
                module = optimised(joined, recipe.actions, options, subject=self.image.name, part=True)
                content = linker.image(module, options)
            else:
                content = linker.optimised(options)
            return self.image.add_smaller(MIXED, content, recipe)
        return False
