"""Candidate images and how one is chosen."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from aiocg.build.commands import Unit
from aiocg.build.objects import elf_symbols
from aiocg.build.proof import has_plain_rules, has_used, is_self_contained
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.errors import AiocgError
from aiocg.shrink._linking import Linker
from aiocg.shrink._tools import Clang
from aiocg.shrink._tuning import FRAME_POINTERS, NO_PLT, candidates, optimised, tune
from aiocg.shrink._units import BITCODE, FLTO, LEVELS
from aiocg.shrink.image import SPECIAL, Image, kind_of, loader_difference, measure, smallest, special_sections
from aiocg.shrink.inputs import STARTING, Part, collects, confused, name_of, wrapped_names
from aiocg.shrink.lock import Entry, digest
from aiocg.transport.codegen_options import read
from aiocg.transport.elf import keep_unique, unique_definitions

OWN, FOUND, TUNED = "own", "found", "tuned"
OURS = (FOUND, TUNED)
"""By the search, and with `_tuning` of what comes after it."""

MIXED = "mixed"
"""What was found, or clang's tuned level, with GCC's objects of those units that it makes smaller."""

BY_OPTIONS = "gcc found"
"""With options of GCC that a search has found."""

BY_SEARCH = (*OURS, MIXED, BY_OPTIONS)

TUNED_WORD = " tuned"
TUNED_LEVEL = f"{FLTO}{TUNED_WORD}"
"""By clang alone, with the same tuning: what a search must be better than."""

GCC = "gcc"  # begins the names of levels of the build's own compiler, which are rivals like clang's


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an image is made again.

    Attributes:
        actions: of the search, or the options of GCC; lld optimises the module if there are none.
        saved: the options of `_tuning`, and the bytes that each has saved.
        by_gcc: the parts of which GCC's objects are linked.
        line: the options of GCC for those parts, -Oz if there are none.
    """

    actions: tuple[str, ...] = ()
    saved: Mapping[str, int] = field(default_factory=dict)
    by_gcc: tuple[Part, ...] = ()
    line: tuple[str, ...] = ()


NAMED = Recipe()
"""Of an image for which its name says all."""


@dataclass(slots=True, eq=False)
class Candidates:
    """The images of one link.

    Attributes:
        name: of the image, as the report and the lock file have it.
        linker: of the link.
        module: the joined bitcode.
        images: the sizes of all images that were made, by how they were made; the build's own is the first.
        contents: the images.
        recipes: of the images but the build's own.
        notes: what went otherwise than expected.
        chosen: the name of the image that is taken.
        measure: what counts as the size of an image, see `image.measure`; "" for the bytes that are loaded.
        by_lock: whether the lock file says which image is taken.
        known: the lock file's entry, if the image was made by it and nothing else is known.
        untuned: the image of clang's -Oz for the whole program, which `tune_level` makes.
        saved: the options that `tune_level` has found for it, and the bytes that each has saved; None before.
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
    recipes: dict[str, Recipe] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    chosen: str = OWN
    measure: str = ""
    by_lock: bool = False
    known: Entry | None = None
    untuned: bytes = b""
    saved: Mapping[str, int] | None = None

    @classmethod
    def begin(cls, name: str, linker: Linker, how: str = "") -> "Candidates":
        """Join the bitcode of a link. A part that clang does not compile stays as the build has made it.

        Raises:
            BenchmarkInitError: when the parts do not link.
            OSError, ValueError: when the build's own image cannot be read, or lld would wrap other calls.
        """
        own = linker.inputs.link.output.read_bytes()
        linker.inputs.check_wrapped()
        linker.inputs.check_places()
        with contextlib.suppress(BenchmarkInitError):
            linker.compiled.objects(linker.parts, BITCODE)  # several at once
        linker, notes = proven(linker, linker.check_needs)
        linker.check_members()
        sizes = {OWN: measure(own, how)}
        return cls(name, linker, linker.joined(), sizes, {OWN: own}, notes=notes, measure=how)

    @property
    def content(self) -> bytes:
        """The image that is taken."""
        return self.contents[self.chosen]

    def add(self, name: str, content: bytes, recipe: Recipe = NAMED) -> None:
        """Add an image.

        Raises:
            BenchmarkInitError: when it is of another kind than the build's own, or lacks what others may read.
        """
        if kind_of(content) != kind_of(self.contents.get(OWN, content)):
            raise BenchmarkInitError(self.name, "it would be an image of another kind, or for another machine")
        if content.startswith(b"\x7fELF"):
            content = keep_unique(content, self.contents.get(OWN, content))
        if difference := loader_difference(self.contents.get(OWN, content), content):
            raise BenchmarkInitError(self.name, f"the loader would find something else: {difference}")
        if os.fsencode(self.linker.scratch) in content:  # lld's, where a library has versions and no name
            raise BenchmarkInitError(self.name, "the linker writes into it where it was linked to: give it a -soname")
        if self.linker.keeps_all and OWN in self.contents:
            now = special_sections(content)
            for section, size in special_sections(self.contents[OWN]).items():
                if now.get(section, 0) < size:
                    raise BenchmarkInitError(self.name, f"its section {section} would shrink, and others may read it")
        self.images[name] = measure(content, self.measure)
        self.contents[name], self.recipes[name] = content, recipe

    def add_smaller(self, name: str, content: bytes, recipe: Recipe) -> bool:
        """Add an image, unless there is one of that name that is no larger; say whether it was added."""
        if name in self.images and measure(content, self.measure).bytes >= self.images[name].bytes:
            return False
        self.add(name, content, recipe)
        return True

    @contextlib.contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Take a note of what fails in a `with` statement, and go on after it."""
        try:
            yield
        except (AiocgError, BenchmarkInitError) as error:
            if (note := f"{what}: {first_diagnostic(error, self.name)}") not in self.notes:
                self.notes.append(note)

    def add_levels(self, levels: Sequence[str] = ()) -> None:
        """Make the images of the compiler alone, at all its levels if none is named; what cannot be made is noted."""
        for level in levels or self.levels:
            with self.noting(f"there is no image by {self.compiler} {level}"):
                self.add(level, self.linker.at(level))

    def add_found(self, actions: tuple[str, ...]) -> None:
        """Make the image of what a search has found; a failure is noted."""
        with self.noting("what was found does not link"):
            self.add(FOUND, self.built(actions), Recipe(actions))

    def tune_level(self) -> None:
        """Make the image of clang's -Oz for the whole program with options that make it smaller, if there are any."""
        with self.noting(f"the levels of {self.compiler} cannot be tuned"):
            self.untuned = self.built(self.quick)
            self.saved = saved = self._tuned(self.quick, self.untuned)
            self.add_tuned_level(Recipe(self.quick, saved))
            if isinstance(self.linker.tools, Clang):
                self.add_tuned_level(Recipe((), {one: saved[one] for one in saved if one != FRAME_POINTERS}))

    def add_tuned_level(self, recipe: Recipe) -> None:
        """Make the image of clang's -Oz with options, unless there is a smaller one; a failure is noted."""
        options = tuple(recipe.saved)
        with self.noting(f"{self.compiler} {TUNED_LEVEL} does not link"):
            content = self.built(recipe.actions, options) if recipe.actions else self.linker.optimised(options)
            self.add_smaller(TUNED_LEVEL, content, recipe)

    def tune(self) -> None:
        """Make the image of what was found with those options of the tuned level that make it smaller, if any do."""
        if FOUND in self.images:
            actions, content = self.recipes[FOUND].actions, self.contents[FOUND]
            same = self.saved is not None and content == self.untuned  # nothing was found
            self.add_tuned(Recipe(actions, self.saved or {} if same else self._tuned(actions, content)))

    def _tuned(self, actions: Sequence[str], content: bytes) -> dict[str, int]:
        """Return the options that make the image of the program after actions smaller, and the bytes that each saves.

        Args:
            content: of the image without options.
        """
        words, is_foreign = self.linker.inputs.link.command.words, not isinstance(self.linker.tools, Clang)
        options = candidates(words, foreign=is_foreign) if self.saved is None else tuple(self.saved)
        module = functools.cache(lambda options: optimised(self.module, actions, options))
        if chosen := read(module(frozenset())):  # the search has found the passes with these
            options = (" ".join(f"-{one}" for one in chosen), *options)

        def size(options: tuple[str, ...]) -> int | None:
            early = frozenset(options) & {FRAME_POINTERS, NO_PLT}  # those that change the module
            try:
                return measure(self.linker.image(module(early), options), self.measure).bytes
            except BenchmarkInitError:
                return None

        return tune(measure(content, self.measure).bytes, size, options)

    def add_tuned(self, recipe: Recipe) -> None:
        """Make the image of what was found with options, if there are any; a failure is noted."""
        with self.noting(f"with {', '.join(recipe.saved)} it does not link"):
            if recipe.saved:
                self.add(TUNED, self.built(recipe.actions, tuple(recipe.saved)), recipe)

    def built(self, actions: Sequence[str], options: tuple[str, ...] = ()) -> bytes:
        """Return the image of the program after actions.

        Raises:
            AiocgError: when LLVM refuses them; BenchmarkInitError when the program does not link.
        """
        return self.linker.image(optimised(self.module, actions, options, subject=self.name), options)

    def choose(self, name: str | None = None) -> None:
        """Take an image, the smallest if none is named."""
        self.chosen = name if name in self.images else smallest(self.images)
        if self.images[self.chosen].bytes >= self.images[OWN].bytes:
            self.chosen = OWN  # never larger

    def replace_found(self, content: bytes, actions: tuple[str, ...], linker: Linker, note: str) -> None:
        """Take another image for what was found, of which the check holds."""
        self.linker = linker
        self.add(FOUND, content, Recipe(actions))
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

    def entry(self, compiler: str, source: Callable[[Part], str] = name_of) -> Entry:
        """Return what the lock file is to remember; `source` names a part there."""
        if self.known is not None:
            return self.known
        kept = tuple(sorted(map(source, self.linker.kept)))
        units = [part for part in self.linker.inputs.parts if isinstance(part, Unit)]
        ours = type(self.linker.tools) is Clang and not self.linker.inputs.writes_files
        recipe = self.recipes.get(self.chosen, NAMED)
        compiled = [unit for unit in units if unit not in self.linker.kept]
        stays = [unit for unit in units if unit in self.linker.kept]
        retold = list(filter(self.linker.compiled.is_retold, compiled))
        left_out = {word for unit in units for word in self.linker.compiled.left_out.get(unit, ())}
        repeatable = (
            self.chosen in (*OURS, TUNED_LEVEL)
            and bool(recipe.actions)
            and not recipe.by_gcc
            and ours
            and not self.linker.keeps_all
            and not self.linker.inputs.reads_results
            and not unique_definitions(self.contents[OWN])  # which LLVM does not know
            and self.linker.compiled.marked.isdisjoint(compiled)
            and all(has_plain_rules(unit) for unit in retold)
            and all(unit.object is not None and is_self_contained(unit) for unit in units)
            and len(units) == len(self.linker.inputs.parts)
            and Path(self.linker.inputs.link.command.output or "a.out").name == self.linker.inputs.link.output.name
        )
        sizes = {name: image.bytes for name, image in self.images.items()}
        return Entry(
            input=digest(self.module),
            compiler=compiler,
            chosen=self.chosen,
            actions=recipe.actions,
            options=tuple(recipe.saved),
            units=tuple(sorted({*map(source, compiled)})),
            kept=kept,
            retold=tuple(sorted({*map(source, retold)})),
            by_gcc=tuple(sorted(map(source, recipe.by_gcc))),
            line=recipe.line,
            sizes=sizes,
            code=self.linker.code,
            link=self.linker.form.link,
            left_out=tuple(sorted(left_out)),
            repeatable=repeatable,
            own=digest(self.contents[OWN]),
            image=digest(self.content) if all(map(self.linker.compiled.is_repeatable, stays)) else "",
        )


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
    wrapped, overridden = wrapped_names(linker.inputs.link.command.words), linker.inputs.overridden
    named = linker.inputs.sharing(SPECIAL, 1)  # a script may put them into others of the image
    tables = {part: name for name, parts in named.items() if len(parts) > 1 for part in parts}

    def keep(part: Part, error: BenchmarkInitError) -> None:
        if (path := linker.inputs.own(part, linker.scratch)) is None:
            raise error
        kept[part] = path
        notes.append(f"{name_of(part)} stays as the build has made it: {first_diagnostic(error, name_of(part))}")

    for part in linker.parts:
        try:
            prove(part)
            if part in tables:  # joined bitcode is in another order
                raise BenchmarkInitError(name_of(part), f"the order in its section {tables[part]} may matter")
            if name := next((name for name in wrapped if linker.compiled.mentions(part, name)), ""):
                raise BenchmarkInitError(name_of(part), f"the link wraps {name}")
            own = linker.inputs.own(part, linker.scratch) if overridden else None
            if own is not None and (others := overridden & elf_symbols(own.read_bytes()).defined):
                raise BenchmarkInitError(name_of(part), f"the link may take another {min(others)}")
        except BenchmarkInitError as error:
            keep(part, error)
    joined = [part for part in linker.parts if part not in kept] if joins else []
    contents = {part: content for part, content in linker.inputs.objects() if part in joined}
    for part, name in confused(contents).items():
        keep(part, BenchmarkInitError(name_of(part), f"its assembly names {name}, which another unit has for itself"))
    starting = {one: name for name, parts in linker.inputs.sharing(STARTING, 1).items() for one in parts}
    if joins and any(one is None or one in kept for one in starting):  # all that is joined stands before it
        for one, name in starting.items():
            if one is not None and one not in kept:
                keep(one, BenchmarkInitError(name_of(one), f"others that stay have functions like those in its {name}"))
    linker = replace(linker, kept=kept)
    if not collects(linker.inputs.link.command.words):
        special = bool(named or special_sections(linker.inputs.link.output.read_bytes()))
        unused = any(map(linker.compiled.keeps_unused, linker.parts)) or any(map(_may_keep_unused, kept))
        linker = replace(linker, keeps_all=special or unused)
    if not linker.parts:
        reason = f": {notes[0]}" if len(notes) == 1 else f", the first of which: {notes[0]}" if notes else ""
        raise BenchmarkInitError(linker.inputs.link.output.name, f"none of its parts can be replaced{reason}")
    return linker, notes


def _may_keep_unused(part: Part) -> bool:
    """Say whether the build's own object of a part may have something that is to stay though nothing refers to it."""
    try:
        return isinstance(part, Unit) and has_used(part)
    except BenchmarkInitError:  # it cannot be preprocessed any more
        return True


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
