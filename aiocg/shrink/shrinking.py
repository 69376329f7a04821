"""Shrinks the images of a recorded build, and writes the lock."""

import contextlib
import fnmatch
import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from aiocg.build.commands import Unit
from aiocg.build.compilation import each
from aiocg.build.objects import beginning, digest_of
from aiocg.build.proof import check_relinkable, is_gcc, unasked_words
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.errors import AiocgError
from aiocg.llvm.recording import is_linker
from aiocg.llvm.tools import apply
from aiocg.shrink._candidate import BY_OPTIONS, GCC, NAMED, OURS, OWN, TUNED_LEVEL, Candidates, Recipe, keeping, proven
from aiocg.shrink._linking import Form, Linker
from aiocg.shrink._tools import Clang, Lld, cross_of, is_zig, linker_line, searched_with, zig_of
from aiocg.shrink._units import BITCODE, Units
from aiocg.shrink.gcc_linking import Gcc, GccImages, GccLinker, GccUnits, OnlyGcc, compiler_of
from aiocg.shrink.image import copies, measure, put
from aiocg.shrink.inputs import Inputs, Module, Part, read_inputs
from aiocg.shrink.lock import Entry, Lock, digest
from aiocg.shrink.record import Build, Link, changed

UNKNOWN = "none of its objects is known to be C or C++; if they were there before this build, clean the project first"

MIXING = 0.2
"""The part of a search's time that the choice of a compiler for each unit may take after it."""

if TYPE_CHECKING:
    from aiocg.runtime import Runtime
    from aiocg.search import Budget
    from aiocg.shrink.checking import Check, Pace
    from aiocg.transport.options import Option


@dataclass(slots=True)
class Shrinking:
    """The images of one build.

    Attributes:
        build: what was recorded.
        folder: that names of images are relative to.
        scratch: an empty folder.
        lock: what is known of earlier builds.
        only: patterns of names, as in a shell; other images are not touched.
        update: whether to search again for what the lock file has.
        measure: what counts as the size of an image, see `image.measure`; "" for the bytes that are loaded.
        compiled: the parts of the build.
        images: those that can be shrunk.
        gcc: what the build's own GCC makes of those that it has compiled all of, by their names.
        left_alone: the names of the others, and why.
    """

    build: Build
    folder: Path
    scratch: Path
    lock: Lock
    only: Sequence[str] = ("*",)
    update: bool = False
    measure: str = ""
    images: list[Candidates] = field(default_factory=list, init=False)
    gcc: dict[str, GccImages] = field(default_factory=dict, init=False)
    left_alone: dict[str, str] = field(default_factory=dict, init=False)
    compiled: Units = field(init=False)
    _by_gcc: GccUnits = field(init=False)
    _budget: "Budget | None" = field(default=None, init=False)
    _options: "dict[str, tuple[Option, ...]]" = field(default_factory=dict, init=False)
    _found: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
    span: ClassVar[str] = "each"
    levels: ClassVar[Sequence[str]] = Candidates.levels

    @property
    def compiler(self) -> str:
        """The name and the release of what a search applies."""
        return searched_with()

    def _release(self, link: Link) -> str:
        """Return what `compiler` is for an image, before any image is known."""
        return searched_with()

    def begin(self) -> None:
        """Join the bitcode of each image."""
        for path, reason in self.build.left_alone.items():
            if path.is_file() and self._is_wanted(path):
                self.left_alone[self._name(path)] = reason
        self.compiled = self._begin_units(_made(self.scratch / "units"))
        self._by_gcc = GccUnits(_made(self.scratch / "gcc"), self.build.all_units)
        for number, link in enumerate(_renamed(self.build.links, self.folder)):
            if not link.output.is_file() or not self._is_wanted(link.output):
                continue  # those that are gone were of a probe, or for the build's own use; /dev/null is a device
            name = self._name(link.output)
            try:
                again = self._again(name, link, _made(self.scratch / f"{number}-again"))
                self.images.append(again or self._begun(name, link, _made(self.scratch / str(number))))
            except (AiocgError, BenchmarkInitError, OSError, ValueError) as error:
                self.left_alone[name] = first_diagnostic(error, link.output.name)

    def _begin_units(self, folder: Path) -> Units:
        return Units(folder)

    def _name(self, output: Path) -> str:
        """Return the name of an image: its path from the folder."""
        return str(output.relative_to(self.folder)) if output.is_relative_to(self.folder) else str(output)

    def _source(self, part: Part) -> str:
        """Return the name of a part in the lock file: its path from the folder, which other checkouts have as well."""
        if isinstance(part, Module):
            return part.path.name
        path = Path(os.path.normpath(part.directory / part.input.path))
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else part.input.path

    def _object(self, part: Part) -> str:
        """Return the name of a part in the lock file where objects of its source are made in several ways."""
        found = part.object if isinstance(part, Unit) else None
        return self._source(part) if found is None else f"{self._source(part)} as {self._name(found)}"

    def _is_named(self, part: Part, names: Sequence[str]) -> bool:
        return not {self._source(part), self._object(part)}.isdisjoint(names)

    def _is_wanted(self, output: Path) -> bool:
        return any(fnmatch.fnmatch(self._name(output), pattern) for pattern in self.only)

    def _begun(self, name: str, link: Link, scratch: Path, *, trusted: bool = False) -> Candidates:
        taken = None if trusted else check_same(link, scratch)
        by_zig = is_zig(link.command)
        inputs = read_inputs(linker_line(link, scratch) if by_zig else link, self.build.units, scratch)
        if not inputs.parts:
            raise ValueError(UNKNOWN)
        if trusted:
            self.compiled.trusted.update(inputs.parts)
            self._by_gcc.trusted.update(inputs.parts)
        if by_zig:
            words, (path,) = inputs.link.command.words, self.compiled.objects(inputs.parts[:1], BITCODE).values()
            tools, code = zig_of(inputs.link.command.driver, words, apply(path.read_bytes(), [], text=True).decode())
            linker = Linker(inputs, self.compiled, scratch, Form(code, ()), tools)
        elif cross := cross_of(link.command, link.directory):
            form = Form.of(link.command.words, link.output.read_bytes(), direct=True)
            linker = Linker(inputs, self.compiled, scratch, Form(form.code, ()), cross)
        else:
            direct = is_linker(link.command.driver)
            unasked = () if direct or link.origin is None else unasked_words(link.origin.compiler, _telling(link))
            form = Form.of(link.command.words, link.output.read_bytes(), direct=direct, unasked=unasked)
            linker = Linker(inputs, self.compiled, scratch, form, Lld() if direct else Clang())
        is_native = type(linker.tools) is Clang
        try:
            image = Candidates.begin(name, self._kept(name, replace(linker, taken=taken)), self.measure)
        except (BenchmarkInitError, ValueError) as error:
            if not is_native or not (by_gcc := self._gcc_linker((), inputs, scratch)):
                raise
            own = link.output.read_bytes()
            notes = [f"clang makes none of it: {first_diagnostic(error, link.output.name)}"]
            sizes = {OWN: measure(own, self.measure)}
            image = OnlyGcc(name, by_gcc, own, sizes, {OWN: own}, notes=notes, measure=self.measure)
        else:  # what clang compiles has been proved
            by_gcc = self._gcc_linker(image.linker.parts, inputs, scratch) if is_native else None
        if by_gcc:
            self.gcc[name] = GccImages(image, by_gcc)
        if unknown := inputs.unknown:
            kept = "; the lock file keeps its entry, until --update" if self._keeps_entry(image) else ""
            image.notes.append(f"not compiled by this build, and left as they are: {', '.join(unknown)}{kept}")
        return image

    def _again(self, name: str, link: Link, scratch: Path) -> Candidates | None:
        """Return the image of the lock file, made once more; None if anything is not as it was.

        Where both the build's own image and this one are the same as then, so is all that they are made of, and nothing
        has to be proved.
        """
        entry, own = self.lock.images.get(name), link.output.read_bytes()
        if self.update or entry is None or (entry.own, entry.compiler) != (digest(own), self._release(link)):
            return None
        if changed(link, _hashes(link.files)):
            return None
        if entry.chosen == BY_OPTIONS or entry.chosen.startswith(f"{GCC} "):
            inputs = read_inputs(link, self.build.units, scratch)
            linker = GccLinker(inputs, self._by_gcc, scratch, Form((), ()), Gcc(link.command.driver))
            image = Candidates(name, linker, b"", {OWN: measure(own, self.measure)}, {OWN: own}, measure=self.measure)
            self.gcc[name] = GccImages(image, linker)
        else:
            image = self._begun(name, link, scratch, trusted=True)
        self._repeat(image, entry)
        if digest(image.content) == entry.image:
            image.known = entry
            return image
        self.gcc.pop(name, None)
        self.compiled.distrust()
        self._by_gcc.distrust()
        return None

    def _gcc_linker(self, known: Sequence[Part], inputs: Inputs, scratch: Path) -> Linker | None:
        """Return what links an image from objects of the build's own GCC; None if that has not compiled all of it.

        Args:
            known: parts that were proved before, by the same compiler.
        """
        driver = inputs.link.command.driver
        units = [part for part in inputs.parts if isinstance(part, Unit)]
        compilers = {part.origin.compiler if part.origin is not None else (part.command.driver,) for part in units}
        if len(units) < len(inputs.parts) or not all(map(is_gcc, {*compilers, (driver,)})):
            return None
        linker: Linker = GccLinker(inputs, self._by_gcc, _made(scratch / GCC), Form((), ()), Gcc(driver))

        def prove(part: Part) -> None:
            if part not in known:
                self._by_gcc.check(part)

        try:
            return proven(linker, prove, joins=False)[0]
        except BenchmarkInitError:
            return None

    def _kept(self, name: str, linker: Linker) -> Linker:
        """Return a linker that links the build's own objects of parts where the lock file says so."""
        if (entry := self.lock.images.get(name)) and not self.update:
            return keeping(linker, [part for part in linker.parts if self._is_named(part, entry.kept)])
        return linker

    def compare(self, *, locked: bool = False) -> list[Candidates]:
        """Make what the lock file says, or the images by clang alone, and return the images to search for.

        Args:
            locked: for images to search for, make none by clang alone.
        """
        missing = []
        for image in self.images:
            if image.known is not None:
                continue
            entry, why = self._entry(image)
            if entry is not None:
                self._repeat(image, entry)
                continue
            missing.append(image)
            if locked:
                image.notes.append(f"the lock file is of no use for it: {why}; {image.short} was tried")
        if not locked:
            by_level = [one for one in missing if one.levels]
            self.compiled.prepare(list({part: None for one in by_level for part in one.linker.parts}), self.levels)
            self._add_levels(missing)
        return missing

    def _add_levels(self, images: Sequence[Candidates]) -> None:
        """Make the images that compilers make without a search."""
        for image in images:
            image.add_levels()
            if image.name in self.gcc:
                self.gcc[image.name].add_levels()
        each("Tuning levels", lambda one: one.tune_level(), images)

    async def search(self, runtime: "Runtime", images: Sequence[Candidates], budget: "Budget") -> None:
        """Search for the actions that make each of some images smallest, one after the other.

        For those that are smallest by GCC, its options are asked for, among which `choose` searches.
        """
        from aiocg.shrink.searching import CORE, options_of, search  # a build by the lock file needs none

        self._budget = budget
        for image in images:
            try:
                if image.name in self.gcc and self.gcc[image.name].wins and budget != CORE:
                    driver = compiler_of(image.linker.inputs.link.command.driver)
                    self._options[image.name] = await options_of(runtime, driver)
                    continue
                if not image.levels:  # there is no bitcode
                    continue
                self._found[image.name] = await search(runtime, image.module, budget, image.linker.tools.reward)
            except AiocgError as error:
                image.notes.append(f"the search failed: {first_diagnostic(error)}")

    def choose(self, images: Sequence[Candidates]) -> None:
        """Take the smallest of the images that were made and those of what was found."""
        for image in images:
            if (options := self._options.get(image.name)) and self._budget is not None:
                from aiocg.shrink.searching import find

                self.gcc[image.name].search(functools.partial(find, options=options, meter=self._budget.start()))
            else:
                image.add_found(self._found.get(image.name) or image.quick)
        each("Tuning what was found", lambda one: one.tune(), images)
        for image in images:
            if image.name in self.gcc:
                self.gcc[image.name].mix(MIXING * ((self._budget and self._budget.seconds) or 0.0))
            image.choose()

    def _entry(self, image: Candidates) -> tuple[Entry | None, str]:
        """Return the lock file's entry, or None and why it is of no use."""
        entry = self.lock.images.get(image.name)
        if entry is None or self.update:
            return None, "it has no entry"
        why = entry.staleness(image.module, self.compiler)
        return (None, why) if why else (entry, "")

    def _repeat(self, image: Candidates, entry: Entry) -> None:
        """Make the image that an entry says."""
        image.by_lock = True
        parts = (*image.linker.parts, *image.linker.kept)
        by_gcc = tuple(part for part in parts if self._is_named(part, entry.by_gcc))
        recipe = Recipe(entry.actions, dict.fromkeys(entry.options, 0), by_gcc, entry.line)
        if entry.chosen in OURS:
            image.add_found(entry.actions)
            image.add_tuned(recipe)
        elif entry.chosen == TUNED_LEVEL:
            image.add_tuned_level(recipe)
        elif entry.chosen in image.levels:
            image.add_levels([entry.chosen])
        elif gcc := self.gcc.get(image.name):
            gcc.repeat(entry.chosen, recipe)
        image.choose(entry.chosen)
        if entry.image not in ("", digest(image.content)):
            image.notes.append("another image than the lock file was written with came of it: --update makes it anew")

    def place(self, check: "Check | None", pace: "Pace | None" = None) -> None:
        """Let the images take the places of the build's own. If anything fails, the build's own stand.

        Raises:
            BenchmarkInitError: when a benchmark fails.
            OSError: when one cannot be written.
        """
        try:
            if pace is not None:
                pace.settle(self.images)
            if check is not None and any(one.chosen != OWN for one in self.images):
                check.settle(self.images)
            else:
                for one in self.images:
                    if one.chosen != OWN:
                        put(one.linker.inputs.link.output, one.content)
        except BaseException:
            for one in self.images:
                with contextlib.suppress(OSError):
                    put(one.linker.inputs.link.output, one.contents[OWN])
            raise
        self._find_copies()

    def _find_copies(self) -> None:
        """Take note of copies of its own images that the build has made, such as by `install`."""
        outputs = {link.output for link in self.build.links}
        for one in self.images:
            if one.chosen == OWN:
                continue
            for path in copies(self.folder, one.contents[OWN]):
                if path not in outputs and not path.is_relative_to(self.scratch):
                    one.notes.append(f"{self._name(path)} is a copy that the build made before, and stays as it is")

    def hint(self) -> str:
        """Return a line for the user on how to have the same without us; "" for none."""
        return ""

    def _keeps_entry(self, image: Candidates) -> bool:
        """Say whether the lock file may have an entry for more than an image: some objects were there before."""
        return not self.update and image.name in self.lock.images and bool(image.linker.inputs.unknown)

    def remember(self) -> Lock:
        """Return the lock with what is known now of each image."""
        known = dict(self.lock.images)
        several = _compiled_in_several_ways(self.images, self._source)

        def named(part: Part) -> str:
            return self._object(part) if self._source(part) in several else self._source(part)

        for image in self.images:
            if self._keeps_entry(image):
                continue
            now, before = image.entry(self.compiler, named), known.get(image.name)
            parts = image.linker.inputs.parts
            read = any(one.origin.digest in self.build.read for one in parts if isinstance(one, Unit) and one.origin)
            if read or not several.isdisjoint(map(self._source, parts)):
                now = msgspec.structs.replace(now, repeatable=False)
            if before is None or msgspec.structs.replace(now, sizes=before.sizes) != before:
                known[image.name] = now
        return Lock(whole=not self.left_alone and set(self.only) == {"*"}, images=known)


def _compiled_in_several_ways(images: Sequence[Candidates], source: Callable[[Part], str]) -> set[str]:
    """Return the sources of which some objects stay as they are, are GCC's, or are not read by clang itself."""
    ways: dict[str, set[str]] = {}
    for image in images:
        for part in image.linker.inputs.parts:
            retold = isinstance(part, Unit) and image.linker.compiled.is_retold(part)
            by_gcc = part in image.recipes.get(image.chosen, NAMED).by_gcc
            way = "kept" if part in image.linker.kept else "gcc" if by_gcc else "retold" if retold else ""
            ways.setdefault(source(part), set()).add(way)
    return {name for name, found in ways.items() if len(found) > 1}


def _renamed(links: Sequence[Link], folder: Path) -> list[Link]:
    """Return links with the names that their images have now, where the build has renamed them below the folder."""
    gone = {link.output: link.files[link.output] for link in links if link.output in link.files}
    gone = {path: digest for path, digest in gone.items() if not path.exists()}
    known = {link.output for link in links}
    there = (Path(place, name) for place, _, names in os.walk(folder) for name in names) if gone else ()
    images = [path for path in there if path not in known and not path.is_symlink() and _is_image(path)]
    now = {digest: path for path, digest in _hashes(sorted(images, reverse=True)).items()}
    found = {path: now[digest] for path, digest in gone.items() if digest in now}
    renamed = []
    for link in links:
        files = {found.get(path, path): digest for path, digest in link.files.items()}
        renamed.append(replace(link, output=found.get(link.output, link.output), files=files))
    return renamed


def _is_image(path: Path) -> bool:
    try:
        return beginning(path, 4) == b"\x7fELF"
    except OSError:
        return False


def check_same(link: Link, scratch: Path) -> tuple[str, ...] | None:
    """Refuse a link whose files have changed since, and return the members of archives that it has taken, if known.

    Raises:
        BenchmarkInitError, ValueError: when they have; it says which.
    """
    if reason := changed(link, _hashes(link.files)):
        raise ValueError(reason)
    if link.origin is not None and link.output in link.files and not is_zig(link.command):
        return check_relinkable(link.origin, link.files[link.output], link.directory, scratch)
    return None


def _hashes(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the SHA-256 of those files that are there."""
    return {path: digest_of(path) for path in paths if path.is_file()}


def _telling(link: Link) -> tuple[str, ...]:
    """Return the words of a link on which it depends what a compiler adds and clang does not."""
    words = [link.command.level, *link.command.words] if "-shared" in link.command.words else [link.command.level]
    return tuple(word for word in words if word in ("-Ofast", "-shared", "-ffast-math", "-funsafe-math-optimizations"))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
