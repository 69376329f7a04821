"""A recorded build whose single files are compiled again with other options, and whose images are linked again.

The build runs once in a copy of its folder. A candidate then costs the compiles of the files whose options differ and
the archives and links that contain them. That nothing is lost by it is proved first: with the build's own options each
object and each image must come out as the build has made them, to the byte.
"""

import contextlib
import fnmatch
import hashlib
import itertools
import os
import re
import shlex
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiocg.build.commands import (
    Start,
    Unit,
    is_probe,
    object_name,
    read_record,
    recording_environment,
    run_build,
    units_of,
)
from aiocg.build.compilation import each
from aiocg.build.objects import archive_members, digest_of, elf_symbols
from aiocg.build.proof import UNCONTRACTED, check_repeatable, compile_again, has_used, reads_level, recorded_words
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.datasets.scratch import parent_folder
from aiocg.llvm.command_line import UNTYPED_LEVELS, CommandLine, level_words, parse
from aiocg.llvm.recording import ALL, FILES_VARIABLE, VARIABLE, is_archiver, is_linker, is_tool
from aiocg.shrink.gcc_linking import GccUnits, naming_word
from aiocg.shrink.image import loader_difference, read_image, special_sections
from aiocg.shrink.inputs import STARTING, confused, linker_words, overridden_symbols, own_copies
from aiocg.shrink.record import RELOCATABLE, read_response_files
from aiocg.transport.elf import sections
from aiocg.tune._options import ALL_FILES, LINK, LTO, Choice, Words, joined, name_of, words_of
from aiocg.tune._workspace import CommandFailed, TuneError, Workspace

_COLLECT = "-Wl,--gc-sections"
_SLIM = "__gnu_lto_slim"  # GCC's mark of an object whose code is made by the link
_OVERFLOW = re.compile(r"overflowed by (\d+) bytes")
_TOO_SMALL = "will not fit in region"  # which GNU's linker says with or without a number
_USAGE = re.compile(r"^ *[\w.]+: +(\d+) ([KMG]?B) +(\d+) ([KMG]?B) ", re.MULTILINE)  # of --print-memory-usage
_UNITS = {"B": 0, "KB": 10, "MB": 20, "GB": 30}
_LEVEL = re.compile(r"-O\w*")
_CHANGING = ("objcopy", "strip")
_REMEDY = (
    "If it was built before, clean it first (make clean). A compiler is seen if it is called by its name "
    "(make CC=gcc), not by its path; for other compilers there is --space"
)
_REMEDY_OF_CMAKE = (
    "CMake calls compilers by their paths: configure anew within the build, as in "
    "sh -c 'cmake -B build-tune && cmake --build build-tune'"
)


@dataclass(frozen=True, slots=True)
class _Event:
    """An archive, a link, or a change of an image, in the order of the build.

    Attributes:
        words: the command.
        directory: where it ran, as commands see it.
        environment: its variables.
        output: what it wrote; None if not known.
        named: the files that it names, absolute.
        libraries: the names of files that `-l` may mean.
        sources: those that it compiles itself, relative to the root.
        is_image: whether it links an image.
    """

    words: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str]
    output: Path | None
    named: frozenset[Path]
    libraries: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()
    is_image: bool = False


@dataclass(slots=True)
class Replay:
    """A build that has run once, in a workspace.

    Attributes:
        workspace: in which it ran.
        scratch: a folder for objects.
        only: a pattern of names of images that count.
        units: by source, relative to the root: a source may be compiled in several ways.
        images: the outputs of links, relative to the root.
        kept: sources that stay as the build has compiled them, and why.
        sources: those whose options can be chosen, the largest first.
    """

    workspace: Workspace
    scratch: Path
    only: str = "*"
    units: dict[str, list[Unit]] = field(default_factory=dict, init=False)
    images: dict[str, Path] = field(default_factory=dict, init=False)
    kept: dict[str, str] = field(default_factory=dict, init=False)
    sources: Sequence[str] = field(default=(), init=False)
    _events: list[_Event] = field(default_factory=list, init=False)
    _places: dict[Unit, tuple[Path, ...]] = field(default_factory=dict, init=False)
    _copies: dict[Path, tuple[Path, ...]] = field(default_factory=dict, init=False)
    _placed: dict[Unit, str] = field(default_factory=dict, init=False)
    _own: dict[str, bytes] = field(default_factory=dict, init=False)
    _reading: set[str] = field(default_factory=set, init=False)
    _begun: set[Path | None] = field(default_factory=set, init=False)
    _linked: dict[int, Words] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls, workspace: Workspace, scratch: Path, text: str, only: str = "*", variables: Mapping[str, str] | None = None
    ) -> "Replay":
        """Run a build, and prove that it can be replayed.

        Args:
            workspace: a copy of its folder.
            scratch: an empty folder.
            text: the build, for the shell.
            only: a pattern of names of images that count.
            variables: more for its environment.

        Raises:
            TuneError: when it fails, compiles nothing, or comes out otherwise when it is replayed; it says why.
        """
        self = cls(workspace, scratch, only)
        log = scratch / "build.jsonl"
        recording = {**recording_environment(scratch / "commands", archivers=True), VARIABLE: str(log)}
        environment = {**os.environ, **(variables or {}), **recording, FILES_VARIABLE: ALL}
        words = workspace.line(["/bin/sh", "-c", f"cd {shlex.quote(str(workspace.seen))} && {text}"])
        status = run_build(words, workspace.variables(environment))
        starts = read_record(log) if log.exists() else []
        overflows = bool(status) and any(start.status for start in starts)  # probes may fail, too
        if status and not overflows:
            raise TuneError(f"the build failed: `{text}` ended with {status}; what it said is above")
        self._read(starts)
        if not overflows:  # images of probes are gone
            self.images = {name: path for name, path in self.images.items() if workspace.inside(path).is_file()}
            self._events = [one for one in self._events if one.output is None or workspace.inside(one.output).is_file()]
        self._check_inside()
        if not self.units and not any(one.sources for one in self._events):
            remedy = _REMEDY_OF_CMAKE if any(workspace.copy.glob("**/CMakeCache.txt")) else _REMEDY
            raise TuneError(f"`{text}` has compiled no C or C++ by a compiler's name. {remedy}")
        if not any(map(self._counts, self.images)):
            raise TuneError(f"none of the images is named like {only!r}: {', '.join(self.images) or 'none is linked'}")
        self._events = self._needed()
        self._locate()
        self._prove(overflows)
        sizes = {name: self.size(name, ()) or 0 for name in self.units if name not in self.kept}
        self.sources = sorted(sizes, key=lambda name: (-sizes[name], name))
        return self

    @property
    def _compiled(self) -> list[Unit]:
        return [unit for units in self.units.values() for unit in units]

    @property
    def compiler(self) -> str:
        """The compiler of most files."""
        units = [unit for unit in self._compiled if self._name(unit) not in self.kept]
        used = Counter(unit.origin.compiler[0] for unit in units if unit.origin is not None)
        used.update(one.words[0] for one in self._events if one.sources)
        return max(used, key=lambda name: used[name], default="cc")

    def size(self, source: str, words: Words) -> int | None:
        """Return the bytes of a source's objects that are loaded; None if it does not compile with these options."""
        try:
            return sum(read_image(self.object(unit, words).read_bytes()).bytes for unit in self.units[source])
        except (BenchmarkInitError, ValueError):
            return None

    def sizes(self, jobs: Sequence[tuple[str, Words]]) -> list[int | None]:
        """Return `size` of several, as many at once as there are processors."""
        return [one if isinstance(one, int) else None for one in each("Compiling", lambda job: self.size(*job), jobs)]

    def object(self, unit: Unit, words: Words) -> Path:
        """Return the object of a unit with more options.

        Raises:
            BenchmarkInitError: when it does not compile.
        """
        path = self._path(unit, words)
        if not path.exists():
            new = path.with_name(f"{path.name}-{threading.get_ident()}")
            if not words:
                compile_again(self._ours(unit), new)
            else:
                self._compile(unit, words, new)
            new.replace(path)
        return path

    def build(self, choice: Choice) -> dict[str, Path]:
        """Make the images with the options of a choice, and return where they are.

        Raises:
            BenchmarkInitError: when something does not compile.
            CommandFailed: when something does not link; its `overflow` is by how many bytes too much.
        """
        names = {unit: self._name(unit) for unit in self._compiled}
        jobs = [(unit, words_of(choice, name) if name not in self.kept else ()) for unit, name in names.items()]
        for one in each("Compiling", lambda job: self.object(*job), jobs):
            if isinstance(one, BenchmarkInitError):
                raise one
        dirty: set[Path] = set()
        try:
            for unit, words in jobs:
                name = self._path(unit, words).name
                if self._placed.get(unit) != name:
                    for place in self._places[unit]:
                        shutil.copyfile(self._path(unit, words), place)
                        dirty.add(self._outside(place))
                    self._placed[unit] = name
            for number, event in enumerate(self._events):
                self._repeat(number, event, choice, dirty)
        except BaseException:
            self.distrust()
            raise
        made = {name: self.workspace.inside(path) for name, path in self.images.items() if self._counts(name)}
        self._check_same(made)
        return made

    def distrust(self) -> None:
        """Make all images anew the next time, as another command may have changed what lies in the copy."""
        self._placed.clear()
        self._linked.clear()

    def _counts(self, name: str) -> bool:
        return fnmatch.fnmatch(name, self.only) or fnmatch.fnmatch(os.path.basename(name), self.only)

    def links(self, choice: Choice) -> list[tuple[Path, Path, Words]]:
        """Return the images, the folders in which they are linked, and the words that a choice adds to their links."""
        return [(one.output, one.directory, _added(one, choice)) for one in self._events if one.is_image and one.output]

    def _repeat(self, number: int, event: _Event, choice: Choice, dirty: set[Path]) -> None:
        """Carry out an event if something that it depends on has changed."""
        more = _added(event, choice)
        together = [one for one in self._events if one.output == event.output] if not event.is_image else [event]
        named = {path for one in together for path in one.named}
        needs = not dirty.isdisjoint(named) or any(path.name in event.libraries for path in dirty)
        needs = needs or (not event.is_image and event.output in dirty)
        if not needs and self._linked.get(number) == more:
            return
        self._linked.pop(number, None)
        if event.output is not None and event.output in self._begun and event is together[0]:
            self.workspace.inside(event.output).unlink(missing_ok=True)
        try:
            self.workspace.run([*event.words, *more], event.directory, event.environment)
        except CommandFailed as error:
            if _TOO_SMALL not in str(error) or overflow(error):
                raise
            usage = "--print-memory-usage" if is_linker(event.words[0]) else "-Wl,--print-memory-usage"
            self.workspace.run([*event.words, *more, usage], event.directory, event.environment)
        self._linked[number] = more
        if event.output is not None:
            written = self.workspace.inside(event.output)
            dirty.add(event.output)
            for copy in self._copies.get(event.output, ()):
                shutil.copy2(written, self.workspace.inside(copy))
                dirty.add(copy)

    def _read(self, starts: Iterable[Start]) -> None:
        found: dict[Path, Unit] = {}
        for start in starts:
            first = start.arguments[0]
            if is_archiver(first) and not _writes(start.arguments):
                continue
            if is_archiver(first) or is_linker(first) or (is_tool(first) and first.endswith(_CHANGING)):
                output, image = _output_of(start), is_linker(first) and "-r" not in start.arguments
                self._events.append(self._event(start, output, is_image=image))
                if image and output is not None:
                    self.images[self._relative(output)] = output
                continue
            try:
                whole = parse(start.arguments, str(start.directory))
            except ValueError:
                continue  # it was no compilation
            if is_tool(first) or whole.mode not in ("link", "compile") or not whole.inputs:
                continue
            if is_probe(whole, start.directory):
                continue
            if whole.mode == "compile":
                for unit in units_of(whole.plain(), start.directory):
                    digest = start.files.get(object_name(whole, unit))
                    if digest and unit.object is not None:
                        found[unit.object] = replace(unit, origin=start.origin(whole, digest))
                continue
            output = Path(os.path.normpath(start.directory / (whole.output or "a.out")))
            image = RELOCATABLE.isdisjoint(whole.words)
            sources = [self._relative(start.directory / one.path) for one in whole.sources]
            self._events = [one for one in self._events if one.output != output or not one.is_image]
            self._events.append(self._event(start, output, whole, tuple(sources), is_image=image))
            if image:
                self.images[self._relative(output)] = output
        for unit in found.values():
            self.units.setdefault(self._name(unit), []).append(unit)

    def _event(
        self,
        start: Start,
        output: Path | None,
        whole: CommandLine | None = None,
        sources: tuple[str, ...] = (),
        *,
        is_image: bool,
    ) -> _Event:
        words = (*(start.compiler or start.arguments[:1]), *start.arguments[1:])
        named = frozenset(Path(os.path.normpath(start.directory / name)) for name in start.files)
        given = [word.removeprefix("-l") for word in start.arguments if word.startswith("-l")]
        libraries = frozenset(f"lib{one}{suffix}" for one in given for suffix in (".a", ".so"))
        return _Event(words, start.directory, start.environment, output, named - {output}, libraries, sources, is_image)

    def _check_inside(self) -> None:
        """Refuse a build that writes beside its copy: to the original, or to other folders.

        Raises:
            TuneError: when it does; it names a file.
        """
        seen, root, ours = self.workspace.seen, self.workspace.root, Path(parent_folder())
        for path in (*(unit.object for unit in self._compiled), *(event.output for event in self._events)):
            if path is None or path.is_relative_to(seen) or not path.exists():
                continue
            if path.is_relative_to(root):
                raise TuneError(
                    f"the build names its folder by its absolute path, and has written {path}: with bubblewrap "
                    f"(Debian: apt install bubblewrap) it sees the copy there"
                )
            if not path.is_relative_to(ours) and path.parts[:2] not in (("/", "dev"), ("/", "proc")):
                raise TuneError(
                    f"the build has written {path}, outside of its folder: run aiocg tune in a folder above"
                )

    def _needed(self) -> list[_Event]:
        """Return the events that images need, in order."""
        needed, libraries, kept = set(self.images.values()), set[str](), []
        for event in reversed(self._events):
            wanted = event.output in needed or (event.output is not None and event.output.name in libraries)
            if (event.is_image or wanted) and self.workspace.inside(event.directory).is_dir():
                kept.append(event)
                needed |= event.named
                libraries |= event.libraries
            elif event.output is not None and event.named & needed and not is_archiver(event.words[0]):
                kept.append(event)  # it makes another form of an image
        return kept[::-1]

    def _locate(self) -> None:
        """Find all files that have the content of an object or an image: builds rename, copy and install them."""
        wanted: dict[str, list[Unit]] = {}
        for unit in self._compiled:
            assert unit.origin is not None
            wanted.setdefault(unit.origin.digest, []).append(unit)
        outputs: dict[str, Path] = {}
        places: dict[str, list[Path]] = {}
        for event in self._events:
            if event.output is not None and (path := self.workspace.inside(event.output)).is_file():
                outputs[digest_of(path)] = event.output
        for folder, folders, names in os.walk(self.workspace.copy):
            folders[:] = [name for name in folders if name != ".git"]
            for path in (Path(folder, name) for name in names):
                if path.is_file() and not path.is_symlink():
                    places.setdefault(digest_of(path), []).append(path)
        objects = {unit.object for unit in self._compiled}
        used = {path for event in self._events for path in event.named}
        for digest, some in wanted.items():
            found = places.get(digest, ())
            free = [path for path in found if self._outside(path) not in objects]
            for unit in some:
                own = [path for path in found if self._outside(path) == unit.object]
                self._places[unit] = (*own, *(free if len(some) == 1 else ()))
                if unit.object in used and not own and not (gone := self.workspace.inside(unit.object)).exists():
                    self._places[unit] = (*self._places[unit], gone)  # where archives and links look for it
        for event in self._events:
            if event.output is not None and is_archiver(event.words[0]):
                named = {path.name for one in self._events if one.output == event.output for path in one.named}
                with contextlib.suppress(OSError, ValueError):
                    members = archive_members(self.workspace.inside(event.output))
                    if all(os.path.basename(name) in named for name, _ in members):
                        self._begun.add(event.output)  # it began from nothing, and may again
        written = {event.output for event in self._events}
        for digest, output in outputs.items():
            others = [self._outside(path) for path in places.get(digest, ())]
            self._copies[output] = tuple(path for path in others if path not in written)
        for unit in self._compiled:
            if not self._places[unit]:
                self.kept[self._name(unit)] = "the build has changed or removed its object"

    def _prove(self, overflows: bool) -> None:
        """Keep each unit that does not compile to the same object again, and see that the images come out the same."""
        self._keep_overridden()
        units = [unit for unit in self._compiled if self._name(unit) not in self.kept]

        def check(unit: Unit) -> bool:
            check_repeatable(self._ours(unit), self.scratch)
            return reads_level(self._ours(unit))

        for unit, found in zip(units, each("Proving", check, units), strict=True):
            if isinstance(found, BenchmarkInitError):
                self.kept[self._name(unit)] = first_diagnostic(found, self._name(unit))
            elif found:
                self._reading.add(self._name(unit))
        for unit in self._compiled:
            if self._name(unit) in self.kept:
                self._places[unit] = tuple(filter(Path.is_file, self._places[unit]))
            if not self._places[unit]:
                self._path(unit, ()).touch()  # it is placed nowhere
            elif self._places[unit][0].is_file():
                shutil.copyfile(self._places[unit][0], self._path(unit, ()))
            else:
                self.object(unit, ())
        before = {}
        if not overflows:
            places = {name: self.workspace.inside(path) for name, path in self.images.items()}
            before = {name: digest_of(path) for name, path in places.items()}
            self._own = {name: path.read_bytes() for name, path in places.items()}
        try:
            made = self.build({})
        except CommandFailed as error:
            if overflows and overflow(error):
                return
            raise TuneError(f"the build cannot be replayed: {error}") from None
        if overflows:
            raise TuneError("the build failed, and not because memory was too small; what it said is above")
        for name, path in made.items():
            if digest_of(path) != before[name]:
                raise TuneError(f"{name} comes out otherwise when its link is repeated: the build cannot be replayed")

    def _keep_overridden(self) -> None:
        """Keep units that define what the link may take from elsewhere: what they use then depends on their options."""
        for event in self._events:
            words: Sequence[str] = ()
            with contextlib.suppress(OSError):  # then nothing can be linked again, which is told
                words = self._linker_words(event) if event.is_image else ()
            defined = (name for path in self._linked_by(event) for name in self._symbols(path))
            names = overridden_symbols(words, defined)
            for unit in self._compiled if names else ():
                for place in self._places[unit][:1]:
                    if own := names & elf_symbols(place.read_bytes()).defined:
                        self.kept[self._name(unit)] = f"the link may take another {min(own)}"

    def _path(self, unit: Unit, words: Words) -> Path:
        text = "\0".join((str(unit.object), *words))
        return self.scratch / f"{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:32]}.o"

    def words(self, unit: Unit, words: Words) -> list[str]:
        """Return the words that a unit is compiled with for some options: none about what the build says itself."""
        own = unit.origin.command.options("level") if unit.origin is not None else []
        said = {name_of(word) for word in joined(own)}
        free = tuple(word for word in words if name_of(word) not in said)
        return kept_meaning(unit.command.level, free, reads=self._name(unit) in self._reading)

    def obstacle(self, choice: Choice) -> str:
        """Say why options for the whole may make another program; "" if they do not."""
        units = [unit for unit in self._compiled if self._name(unit) not in self.kept]
        words = {word for some in choice.values() for word in some}
        try:
            given = [(event, self._linker_words(event)) for event in self._events if event.is_image]
        except OSError as error:
            return f"{error.filename}, which says more to the linker, is gone"
        if any(_is_script(word) for _, said in given for word in said):
            return "a linker script decides where things go"
        if _COLLECT in words:
            used = each("Reading", lambda unit: has_used(self._ours(unit)), units)
            if any(one is not False for one in used):
                return "a source has the attribute `used`, which the linker does not know"
        if LTO in words:
            return self._obstacle_to_joining(units, given)
        return ""

    def _linker_words(self, event: _Event) -> list[str]:
        """Return the words of a link as the linker sees them, with those of response files.

        Raises:
            OSError: when such a file is not there.
        """
        return list(read_response_files(linker_words(event.words), self.workspace.inside(event.directory)))

    def _obstacle_to_joining(self, units: Sequence[Unit], given: Sequence[tuple[_Event, Sequence[str]]]) -> str:
        """Say why link-time optimisation may make another program."""
        if found := [section for own in self._own.values() for section in special_sections(own)]:
            return f"an image has the section {found[0]}, in which the order may matter"
        known = GccUnits(self.scratch, units)
        if lost := next((unit for unit in units if known.loses(unit)), None):
            return f"it would lose an option of {self._name(lost)}"
        for event, said in given:
            if word := naming_word(said):
                return f"{word} may mean something else with it"
            twice = Counter(name for path in self._linked_by(event) for name in self._symbols(path))
            if name := next((name for name, count in twice.items() if count > 1), ""):
                return f"{name} is defined more than once, and it may take another definition"
        for own in self._own.values():
            if problem := own_copies(own, self._own.items()):
                return problem
        objects = {unit: self._path(unit, ()).read_bytes() for unit in units}
        for unit, name in confused({self._ours(unit): content for unit, content in objects.items()}).items():
            return f"the assembly of {self._name(unit)} names {name}, which another file has for itself"
        starting = [unit for unit, content in objects.items() if _has_starting(content)]
        if len(starting) > 1:
            return f"{self._name(starting[0])} and other files have code that starts in the order of the link"
        others = {path for event in self._events for path in event.named if path.suffix in (".o", ".obj")}
        others -= {self._outside(place) for unit in units for place in self._places[unit]}
        places = filter(Path.is_file, map(self.workspace.inside, others))
        strong = {name for path in places for name in elf_symbols(path.read_bytes()).defined}
        weak = {name for content in objects.values() for name in elf_symbols(content).weak}
        return f"machine code defines {min(strong & weak)}, which a source defines weakly" if strong & weak else ""

    def _linked_by(self, event: _Event) -> set[Path]:
        """Return the files that an image is linked from: those that it names, and those in archives of the build."""
        found = set(event.named)
        for one in self._events:
            if one.output is None or not is_archiver(one.words[0]):
                continue
            if one.output in found or one.output.name in event.libraries:
                found |= one.named
        return found

    def _symbols(self, path: Path) -> frozenset[str]:
        """Return what an object, if a file is one, defines for others."""
        place = self.workspace.inside(path)
        is_object = path.suffix in (".o", ".obj") and place.is_file()
        return elf_symbols(place.read_bytes()).defined - {_SLIM} if is_object else frozenset()

    def _check_same(self, made: Mapping[str, Path]) -> None:
        """Refuse images that a loader, or who reads their sections, would find to be others.

        Raises:
            TuneError: when one is.
        """
        for name, path in made.items():
            own, new = self._own.get(name, b""), path.read_bytes()
            if difference := loader_difference(own, new):
                raise TuneError(f"{name} would differ in {difference}")
            now = special_sections(new)
            if less := [section for section, size in special_sections(own).items() if now.get(section, 0) < size]:
                raise TuneError(f"{name} would lose a part of its section {less[0]}")

    def _compile(self, unit: Unit, words: Words, target: Path) -> None:
        assert unit.origin is not None
        line = [*unit.origin.compiler, *recorded_words(unit), *self.words(unit, words)]
        try:
            self.workspace.run([*line, "-w", "-c", "-o", str(target)], unit.directory, unit.origin.environment)
        except CommandFailed as error:
            raise BenchmarkInitError(self._name(unit), str(error)) from None

    def _ours(self, unit: Unit) -> Unit:
        """Return a unit that our own process can compile: in the box if there is one."""
        if not self.workspace.boxed or unit.origin is None:
            return unit
        place = next(iter(self._places[unit]), unit.object)
        line = (*self.workspace.line(unit.origin.compiler, unit.directory),)
        return replace(unit, object=place, origin=replace(unit.origin, compiler=line), directory=Path("/"))

    def _name(self, unit: Unit) -> str:
        return self._relative(unit.source)

    def _relative(self, path: Path) -> str:
        plain = Path(os.path.normpath(path))
        return str(plain.relative_to(self.workspace.seen)) if plain.is_relative_to(self.workspace.seen) else str(plain)

    def _outside(self, path: Path) -> Path:
        """Return the path at which commands see a file of the copy."""
        return self.workspace.seen / path.relative_to(self.workspace.copy)


def _is_script(word: str) -> bool:
    """Say whether a word for the linker is a script, or names one."""
    return (
        word.endswith((".ld", ".lds", ".ldscript", ".x", ".lcf"))
        or word.startswith(("--script", "--default-script", "-dT"))
        or (word.startswith("-T") and not word.startswith(("-Tbss", "-Tdata", "-Ttext")))
    )


def _added(event: _Event, choice: Choice) -> Words:
    """Return the words that a choice adds to a command."""
    if not event.is_image:
        return ()
    more: Words = ()
    if event.sources:
        said = {name_of(word) for word in joined(event.words)} - {name_of("-O")}
        free = tuple(word for word in words_of(choice, event.sources[0]) if name_of(word) not in said)
        more = tuple(kept_meaning(_level_of(event.words), free, reads=True))
    more = (*more, *choice.get(LINK, ()))
    more = (*more, *(word for word in choice.get(ALL_FILES, ()) if word == LTO and word not in more))
    if is_linker(event.words[0]):
        return tuple(one for word in more if word.startswith("-Wl,") for one in word.split(",")[1:])
    return more


def _has_starting(content: bytes) -> bool:
    try:
        return any(STARTING.fullmatch(one.name) for one in sections(content))
    except ValueError:
        return True


def overflow(error: CommandFailed) -> int:
    """Return by how many bytes memory was too small for a failed link; 0 if that is not why it failed."""
    if told := sum(map(int, _OVERFLOW.findall(error.output))):
        return told
    found = (
        (int(used) << _UNITS[unit]) - (int(size) << _UNITS[of]) for used, unit, size, of in _USAGE.findall(error.output)
    )
    return sum(max(0, more) for more in found)


def _level_of(words: Sequence[str]) -> str:
    return next((word for word in reversed(words) if _LEVEL.fullmatch(word)), "")


def kept_meaning(own: str, words: Words, *, reads: bool = False) -> list[str]:
    """Return options with those that keep what a build's own level means, and another one does not.

    Args:
        own: the build's level.
        words: options.
        reads: whether the source looks at the macros of levels.
    """
    if not any(map(_LEVEL.fullmatch, words)):
        return list(words)
    kept = level_words(own) if reads else ["-ffast-math"] if own == "-Ofast" else []
    if own in UNTYPED_LEVELS:
        kept = [*(word for word in kept if word != "-fno-strict-aliasing"), "-fno-strict-aliasing", UNCONTRACTED]
    return [*words, *kept]


def _writes(arguments: Sequence[str]) -> bool:
    """Say whether an archiver writes an archive, and does not read one."""
    if arguments[0].endswith("ranlib"):
        return True
    modes = next((word for word in arguments[1:] if not word.startswith("--")), "")
    return not {"t", "x", "p"} & set(modes.lstrip("-")[:1])


def _output_of(start: Start) -> Path | None:
    """Return the file that an archiver, a linker or a tool writes."""
    words = list(start.arguments[1:])
    if is_linker(start.arguments[0]):
        name = next((after for word, after in itertools.pairwise(words) if word == "-o"), "a.out")
    elif is_archiver(start.arguments[0]):
        plain = [word for word in words if not word.startswith("-")]
        if start.arguments[0].endswith("ranlib"):
            name = plain[-1] if plain else ""
        else:
            name = plain[0] if words[0].startswith("-") and plain else plain[1] if len(plain) > 1 else ""
    else:
        name = words[-1] if words else ""
    return Path(os.path.normpath(start.directory / name)) if name else None
