"""The images that one link can give, and which of them is taken."""

import contextlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from aiocg.build.commands import Unit
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.errors import AiocgError
from aiocg.llvm.tools import apply
from aiocg.shrink.image import Image, kind_of, measure, smallest, special_sections
from aiocg.shrink.inputs import STARTING, Part, collects, name_of, wrapped_names
from aiocg.shrink.linking import Linker
from aiocg.shrink.lock import Entry, digest
from aiocg.shrink.tools import Clang
from aiocg.shrink.tuning import NO_PLT, candidates, linker_words, tune
from aiocg.shrink.units import BITCODE, FLTO, LEVELS
from aiocg.transport.elf import symbol_sizes

OWN, FOUND, TUNED = "own", "found", "tuned"
OURS = (FOUND, TUNED)
"""By the search, and with `tuning` of what comes after it."""

MIXED = "mixed"
"""What was found, with GCC's objects of those units that it makes smaller."""

BY_OPTIONS = "gcc found"
"""With options of GCC that a search has found."""

BY_SEARCH = (*OURS, MIXED, BY_OPTIONS)

TUNED_WORD = " tuned"
TUNED_LEVEL = f"{FLTO}{TUNED_WORD}"
"""By clang alone, with the same tuning: what a search must be better than."""

GCC = "gcc"
GCC_LEVELS = ("-Oz", FLTO, f"{FLTO}{TUNED_WORD}")
"""Of the build's own compiler, which are rivals like clang's; the last with the options of the linker."""


@dataclass(slots=True, eq=False)
class Candidates:
    """The images of one link.

    Attributes:
        name: of the image, as the report and the lock file have it.
        linker: of the link.
        by_gcc: links it from what the build's own compiler makes, if that is GCC.
        line: the options of GCC that were found.
        mixed: the parts of which `MIXED` has GCC's objects.
        module: the joined bitcode.
        images: the sizes of all images that were made, by how they were made; the build's own is the first.
        actions: what the search has found.
        saved: the options of `tuning`, and the bytes that each has saved.
        level_actions: what makes `TUNED_LEVEL` of the module; empty where lld's own optimisation does.
        level_saved: the same as `saved` for it.
        notes: what went otherwise than expected.
        chosen: the name of the image that is taken.
        measure: what counts as the size of an image, see `image.measure`; "" for the bytes that are loaded.
        by_lock: whether the lock file says which image is taken.
    """

    compiler: ClassVar[str] = "clang"
    levels: ClassVar[Sequence[str]] = tuple(LEVELS)
    short: ClassVar[str] = "only the core set"
    quick: ClassVar[tuple[str, ...]] = ("mark<minsize>", "clang<Oz>")

    name: str
    linker: Linker
    module: bytes
    images: dict[str, Image]
    contents: dict[str, bytes]
    actions: tuple[str, ...] = ()
    saved: dict[str, int] = field(default_factory=dict)
    level_actions: tuple[str, ...] = ()
    level_saved: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    chosen: str = OWN
    measure: str = ""
    by_lock: bool = False
    by_gcc: Linker | None = None
    line: tuple[str, ...] = ()
    mixed: tuple[Part, ...] = ()

    @classmethod
    def begin(cls, name: str, linker: Linker, how: str = "") -> "Candidates":
        """Join the bitcode of a link. A part that clang does not compile stays as the build has made it.

        Raises:
            BenchmarkInitError: when the parts do not link.
            OSError, ValueError: when the build's own image cannot be read, or lld would wrap other calls.
        """
        own = linker.inputs.link.output.read_bytes()
        linker.inputs.check_wrapped()
        with contextlib.suppress(BenchmarkInitError):
            linker.compiled.objects(linker.parts, BITCODE)  # several at once
        linker, notes = proven(linker, lambda part: linker.compiled.objects([part], BITCODE))
        linker.check_members()
        sizes = {OWN: measure(own, how)}
        return cls(name, linker, linker.joined(), sizes, {OWN: own}, notes=notes, measure=how)

    @property
    def content(self) -> bytes:
        """The image that is taken."""
        return self.contents[self.chosen]

    def add_levels(self, levels: Sequence[str] = ()) -> None:
        """Make the images of the compiler alone, at all its levels if none is named; what cannot be made is noted."""
        for level in levels or self.levels:
            try:
                self._add(level, self.linker.at(level))
            except BenchmarkInitError as error:
                self.notes.append(f"there is no image by {self.compiler} {level}: {first_diagnostic(error)}")

    def add_gcc(self, levels: Sequence[str] = GCC_LEVELS) -> None:
        """Make the images of the build's own GCC at some levels, `-Os` instead of `-Oz` for one that has none."""
        if self.by_gcc is None:
            return
        for level in levels:
            plain = level.removesuffix(TUNED_WORD)
            try:
                content = self.by_gcc.at(level) if plain == level else self._by_options(shlex.split(plain))
                self._add(f"{GCC} {level}", content)
            except BenchmarkInitError as error:
                if level == "-Oz":
                    self.add_gcc([one.replace("-Oz", "-Os") for one in levels])
                    return
                self.notes.append(f"there is no image by {GCC} {level}: {first_diagnostic(error)}")

    def _by_options(self, line: Sequence[str]) -> bytes:
        """Return the image with a line of options of the build's own GCC, and those of the linker.

        Raises:
            BenchmarkInitError: when a part does not compile or they do not link.
        """
        assert self.by_gcc is not None
        link = tuple(linker_words(candidates(self.linker.inputs.link.command.words)))
        return replace(self.by_gcc, form=replace(self.by_gcc.form, link=link)).at(shlex.join(line))

    def search_gcc(self, find: Callable[[Callable[[tuple[str, ...]], int | None]], tuple[str, ...]]) -> None:
        """Make the image with the line of options that `find` finds for it, by the size with any line."""
        assert self.by_gcc is not None
        units = self.by_gcc.compiled

        def size(line: tuple[str, ...]) -> int | None:
            try:
                return measure(self._by_options(line), self.measure).bytes
            except BenchmarkInitError:
                return None
            finally:
                units.forget(shlex.join(line))

        self.add_options(find(size))

    def add_options(self, line: tuple[str, ...]) -> None:
        """Make the image with a line of options of GCC; a failure is noted."""
        try:
            self._add(BY_OPTIONS, self._by_options(line))
            self.line = line
        except BenchmarkInitError as error:
            self.notes.append(f"with GCC's options it does not link: {first_diagnostic(error)}")

    def add_found(self, actions: tuple[str, ...]) -> None:
        """Make the image of what a search has found; a failure is noted."""
        self.actions = actions
        try:
            self._add(FOUND, self.built(actions))
        except (AiocgError, BenchmarkInitError) as error:
            self.notes.append(f"what was found does not link: {first_diagnostic(error)}")

    def tune_level(self) -> None:
        """Make the image of clang's -Oz for the whole program with options that make it smaller, if there are any."""
        try:
            saved = self._tuned(self.quick, measure(self.built(self.quick), self.measure).bytes)
        except (AiocgError, BenchmarkInitError) as error:
            self.notes.append(f"the levels of {self.compiler} cannot be tuned: {first_diagnostic(error)}")
            return
        self.add_tuned_level(self.quick, saved)
        if isinstance(self.linker.tools, Clang):
            self.add_tuned_level((), saved)

    def add_tuned_level(self, actions: tuple[str, ...], saved: dict[str, int]) -> None:
        """Make the image of clang's -Oz with options, unless there is a smaller one; a failure is noted.

        Args:
            actions: that make it of the module; lld optimises it if there are none.
            saved: the options, and the bytes that each has saved.
        """
        try:
            content = self.built(actions, tuple(saved)) if actions else self.linker.optimised(tuple(saved))
            if self._is_smaller(TUNED_LEVEL, content):
                self._add(TUNED_LEVEL, content)
                self.level_actions, self.level_saved = actions, saved
        except (AiocgError, BenchmarkInitError) as error:
            self.notes.append(f"{self.compiler} {TUNED_LEVEL} does not link: {first_diagnostic(error)}")

    def tune(self) -> None:
        """Make the image of what was found with options that make it smaller, if there are any."""
        if FOUND in self.images:
            self.add_tuned(self._tuned(self.actions, self.images[FOUND].bytes))

    def _tuned(self, actions: Sequence[str], start: int) -> dict[str, int]:
        """Return the options that make the program after actions smaller, and the bytes that each saves."""
        options = candidates(self.linker.inputs.link.command.words, foreign=not isinstance(self.linker.tools, Clang))
        modules = {no_plt: apply(self.module, actions, no_plt=no_plt) for no_plt in {False, NO_PLT in options}}

        def size(options: tuple[str, ...]) -> int | None:
            try:
                return measure(self.linker.image(modules[NO_PLT in options], options), self.measure).bytes
            except BenchmarkInitError:
                return None

        return tune(start, size, options)

    def add_tuned(self, saved: dict[str, int]) -> None:
        """Make the image of what was found with options; a failure is noted."""
        self.saved = saved
        try:
            if saved:
                self._add(TUNED, self.built(self.actions, tuple(saved)))
        except (AiocgError, BenchmarkInitError) as error:
            self.notes.append(f"with {', '.join(saved)} it does not link: {first_diagnostic(error)}")

    @property
    def mixable(self) -> list[Part]:
        """The parts of which GCC's objects may be linked: not those whose order with others matters."""
        if self.by_gcc is None:
            return []
        starting = {part for parts in self.linker.inputs.sharing(STARTING).values() for part in parts}
        return [part for part in self.linker.parts if part in self.by_gcc.parts and part not in starting]

    def mix(self) -> None:
        """Make the image of what was found with GCC's objects of units that it makes smaller, if that is smaller.

        Units are told apart by what their functions and variables have in both images, which is not exact, as some are
        inlined into others. So the best half of them is tried, too, and the best half of those, and so on.
        """
        if self.by_gcc is None or FOUND not in self.images or (gcc := f"{GCC} -Oz") not in self.images:
            return
        ours, theirs = (symbol_sizes(self.contents[name]) for name in (smallest(self._made(OURS)), gcc))
        parts = self.mixable
        gains = {
            part: sum(ours.get(name, 0) - theirs.get(name, 0) for name in symbol_sizes(path.read_bytes()))
            for part, path in self.by_gcc.compiled.objects(parts, "-Oz").items()
        }
        better = sorted((part for part in parts if gains[part] > 0), key=lambda part: -gains[part])
        while better:
            self.add_mixed(better)
            better = better[: len(better) // 2]

    def add_mixed(self, parts: Sequence[Part]) -> None:
        """Make the image with GCC's objects of some parts, unless there is a smaller one; a failure is noted."""
        if self.by_gcc is None:
            return
        options = tuple(self.saved)
        try:
            kept = {**self.linker.kept, **self.by_gcc.compiled.objects(parts, "-Oz")}
            linker = replace(self.linker, kept=kept)
            module = apply(linker.joined(), self.actions, subject=self.name, no_plt=NO_PLT in options)
            content = linker.image(module, options)
            if self._is_smaller(MIXED, content):
                self._add(MIXED, content)
                self.mixed = tuple(parts)
        except (AiocgError, BenchmarkInitError) as error:
            self.notes.append(f"with {len(parts)} units by {GCC} it does not link: {first_diagnostic(error)}")

    def _is_smaller(self, name: str, content: bytes) -> bool:
        """Return whether an image is smaller than the one of that name, if there is one."""
        before = self.images.get(name)
        return before is None or measure(content, self.measure).bytes < before.bytes

    def _made(self, names: Sequence[str]) -> dict[str, Image]:
        return {name: self.images[name] for name in names if name in self.images}

    def built(self, actions: Sequence[str], options: tuple[str, ...] = ()) -> bytes:
        """Return the image of the program after actions.

        Raises:
            AiocgError: when LLVM refuses them; BenchmarkInitError when the program does not link.
        """
        module = apply(self.module, actions, subject=self.name, no_plt=NO_PLT in options)
        return self.linker.image(module, options)

    def choose(self, name: str | None = None) -> None:
        """Take an image, the smallest if none is named."""
        self.chosen = name if name in self.images else smallest(self.images)
        if self.images[self.chosen].bytes >= self.images[OWN].bytes:
            self.chosen = OWN  # never larger

    def choose_larger(self) -> None:
        """Take the next larger image that is no larger than the build's own."""
        now = self.images[self.chosen].bytes
        larger = {name: image for name, image in self.images.items() if image.bytes > now}
        self.choose(smallest(larger) if larger else OWN)

    def replace_found(self, content: bytes, actions: tuple[str, ...], linker: Linker, note: str) -> None:
        """Take another image for what was found, of which the check holds."""
        self.actions, self.linker = actions, linker
        self._add(FOUND, content)
        self.notes.append(note)
        self.choose(FOUND)

    def keeping(self, parts: Sequence[Part]) -> "Candidates":
        """Return the image by `quick` in which the build's own objects of some parts more are linked.

        Raises:
            BenchmarkInitError: when the build has made none, or the rest does not link.
        """
        linker = keeping(self.linker, parts)
        other = type(self)(self.name, linker, linker.joined(), {}, {}, measure=self.measure)
        other.add_found(self.quick)
        return other

    def entry(self, compiler: str) -> Entry:
        """Return what the lock file is to remember."""
        kept = tuple(sorted(map(name_of, self.linker.kept)))
        units = [part for part in self.linker.inputs.parts if isinstance(part, Unit)]
        ours = type(self.linker.tools) is Clang and not self.linker.inputs.writes_files
        by_level = self.chosen == TUNED_LEVEL
        actions = self.level_actions if by_level else self.actions if self.chosen in (*OURS, MIXED) else ()
        if self.chosen == BY_OPTIONS:
            actions = self.line
        saved = self.level_saved if by_level else self.saved if self.chosen in (TUNED, MIXED) else ()
        left_out = {word for unit in units for word in self.linker.compiled.left_out.get(unit, ())}
        return Entry(
            input=digest(self.module),
            compiler=compiler,
            chosen=self.chosen,
            actions=actions,
            options=tuple(saved),
            kept=kept,
            by_gcc=tuple(sorted(map(name_of, self.mixed))) if self.chosen == MIXED else (),
            sizes={name: image.bytes for name, image in self.images.items()},
            code=self.linker.code,
            link=self.linker.form.link,
            left_out=tuple(sorted(left_out)),
            repeatable=(self.chosen in OURS or bool(by_level and actions))
            and not kept
            and ours
            and not self.linker.keeps_all
            and not any(map(self.linker.compiled.is_retold, units))
            and all(unit.object is not None for unit in units)  # the link compiles others by itself
            and len(units) == len(self.linker.inputs.parts),
        )

    def _add(self, name: str, content: bytes) -> None:
        if kind_of(content) != kind_of(self.contents.get(OWN, content)):
            raise BenchmarkInitError(self.name, "it would be an image of another kind, or for another machine")
        if self.linker.keeps_all and OWN in self.contents:
            now = special_sections(content)
            for section, size in special_sections(self.contents[OWN]).items():
                if now.get(section, 0) < size:
                    raise BenchmarkInitError(self.name, f"its section {section} would shrink, and others may read it")
        self.images[name] = measure(content, self.measure)
        self.contents[name] = content


def is_smallest_by_gcc(images: Mapping[str, Image]) -> bool:
    """Return whether the smallest of some images, by how they were made, is one of GCC's."""
    return smallest(images).startswith(f"{GCC} ")


def proven(linker: Linker, prove: Callable[[Part], object], *, joins: bool = True) -> tuple[Linker, list[str]]:
    """Return a linker that links the build's own objects of parts that cannot be replaced, and a note on each.

    Args:
        prove: raises `BenchmarkInitError` for a part that cannot be.
        joins: whether all parts that are replaced become one object.

    Raises:
        BenchmarkInitError: when nothing can be, or the build has left no object of a part.
    """
    notes: list[str] = []
    kept = dict(linker.kept)
    wrapped = wrapped_names(linker.inputs.link.command.words)
    special = special_sections(linker.inputs.link.output.read_bytes())
    named = re.compile("|".join(map(re.escape, special)) or "(?!)")
    tables = {part: name for name, parts in linker.inputs.sharing(named).items() for part in parts}

    def keep(part: Part, error: BenchmarkInitError) -> None:
        if (path := linker.inputs.own(part, linker.scratch)) is None:
            raise error
        kept[part] = path
        notes.append(f"{name_of(part)} stays as the build has made it: {first_diagnostic(error)}")

    for part in linker.parts:
        try:
            prove(part)
            if part in tables:  # joined bitcode is in another order
                raise BenchmarkInitError(name_of(part), f"others have parts of its section {tables[part]}, too")
            if name := next((name for name in wrapped if linker.compiled.mentions(part, name)), ""):
                raise BenchmarkInitError(name_of(part), f"the link wraps {name}")
        except BenchmarkInitError as error:
            keep(part, error)
    for name, parts in linker.inputs.sharing(STARTING).items() if joins else ():
        if any(one is None or one in kept for one in parts):  # all that is joined stands before it
            for one in parts:
                if one is not None and one not in kept:
                    keep(one, BenchmarkInitError(name_of(one), f"others that stay have parts of its {name}, too"))
    linker = replace(linker, kept=kept)
    if not collects(linker.inputs.link.command.words):
        linker = replace(linker, keeps_all=bool(special) or any(map(linker.compiled.keeps_unused, linker.parts)))
    if not linker.parts:
        reason = f": {notes[0]}" if len(notes) == 1 else f", the first of which: {notes[0]}" if notes else ""
        raise BenchmarkInitError(linker.inputs.link.output.name, f"none of its parts can be replaced{reason}")
    return linker, notes


def keeping(linker: Linker, parts: Sequence[Part]) -> Linker:
    """Return a linker that links the build's own objects of some parts more.

    Raises:
        BenchmarkInitError: when the build has made none, as the link compiled the source itself.
    """
    kept = dict(linker.kept)
    for part in parts:
        if (path := linker.inputs.own(part, linker.scratch)) is None:
            raise BenchmarkInitError(name_of(part), "the build has left no machine code of it")
        kept[part] = path
    return replace(linker, kept=kept)
