"""The parts of programs: the inputs of a link line or, if that is unknown, found by symbols."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from aiocg.build.commands import Linking, Project, Unit
from aiocg.build.objects import Symbols, archive_members, elf_symbols, is_archive
from aiocg.datasets.own.dataset import is_harmless

_IDLE = ("-Wl,--whole-archive", "-Wl,--no-whole-archive", "-Wl,--dependency-file", "-Wl,-Map", "-Wl,--print-")
"""Options of a link that concern archives, which are joined already, or other outputs."""

_LIBRARY_OPTIONS = {"-shared", "-r", "-Wl,-r", "-Wl,-shared"}
"""Options that link something other than a program."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Something that is linked: a module, or an object without bitcode.

    Attributes:
        name: the path of the program in the dataset, or the name of the object.
        content: of an object; empty for a module.
    """

    name: str
    symbols: Symbols
    cplusplus: bool = False
    content: bytes = b""


@dataclass(slots=True)
class Target:
    """A program that is linked from several parts.

    Attributes:
        parts: in link order.
        words: libraries and options for the linker.
        is_program: whether it is executable; shared libraries are not.
        remarks: differences from the project's own build.
    """

    name: str
    parts: list[Part] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    cplusplus: bool = False
    is_program: bool = True
    remarks: list[str] = field(default_factory=list)


def closure(
    roots: Iterable[Part], candidates: Sequence[Part], distance: Callable[[Part], int] | None = None
) -> list[Part]:
    """Return the roots and the candidates that define missing symbols, as linkers select members of archives.

    Args:
        roots: parts that are always included.
        candidates: parts that are included if needed.
        distance: of several candidates that define a symbol, the nearest is taken, then the first.
    """
    certain = list(dict.fromkeys(roots))
    definers: dict[str, list[Part]] = defaultdict(list)
    for part in dict.fromkeys(candidates):
        for name in (*part.symbols.defined, *part.symbols.weak):
            definers[name].append(part)
    present = {name for part in certain for name in (*part.symbols.defined, *part.symbols.weak)}
    wanted = [name for part in certain for name in sorted(part.symbols.undefined)]
    needed: set[Part] = set()
    while wanted:
        name = wanted.pop()
        if name in present or name not in definers:
            continue  # undefined symbols are in libraries
        able = [part for part in definers[name] if name in part.symbols.defined] or definers[name]
        part = min(able, key=distance) if distance else able[0]
        needed.add(part)
        present |= part.symbols.defined | part.symbols.weak
        wanted += sorted(part.symbols.undefined)
    return [*certain, *(part for part in dict.fromkeys(candidates) if part in needed)]


def targets_by_symbols(parts: Sequence[Part]) -> list[Target]:
    """Make a target of each part that defines `main`, with the parts that it needs.

    Parts with a `main` of their own are never needed by others. Of several parts that define a symbol, the one in the
    nearest folder is taken.
    """
    starting = [part for part in parts if "main" in part.symbols.defined]
    others = [part for part in parts if "main" not in part.symbols.defined]
    targets = []
    for part in starting:
        members = closure([part], others, lambda other, name=part.name: _distance(name, other.name))  # type: ignore[misc]
        targets.append(Target(PurePath(part.name).stem, members, cplusplus=any(one.cplusplus for one in members)))
    return targets


def _distance(name: str, other: str) -> int:
    """Count the steps between two folders."""
    here, there = PurePath(name).parent.parts, PurePath(other).parent.parts
    shared = next((n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), min(len(here), len(there)))
    return len(here) + len(there) - 2 * shared


@dataclass(slots=True)
class _Inputs:
    """The inputs of a link line: parts always linked, parts linked if needed, and libraries searched."""

    target: Target
    certain: list[Part] = field(default_factory=list)
    candidates: list[Part] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)


class TargetFinder:
    """Resolves link lines of a project with compiled units, using the files that the build left."""

    def __init__(self, project: Project, parts: Mapping[Unit, Part]) -> None:
        self._linkings = {linking.output: linking for linking in project.linkings}
        self._archives = project.archives
        self._parts = parts
        self._objects = {unit.object: unit for unit in project.units if unit.object is not None}
        self._by_digest: dict[bytes, Unit] | None = None
        self._binaries: dict[bytes, Part] = {}

    def target(self, linking: Linking) -> Target:
        """Return the target of a link line."""
        command = linking.command
        partial = not _LIBRARY_OPTIONS.isdisjoint(command.words)
        target = Target(linking.output.name, cplusplus=command.cplusplus, is_program=not partial)
        inputs = _Inputs(target)
        self._collect(linking, inputs)
        target.parts = closure(inputs.certain, inputs.candidates)
        target.cplusplus |= any(part.cplusplus for part in target.parts)
        return target

    def _collect(self, linking: Linking, inputs: "_Inputs") -> None:
        """Sort the inputs of a link line into those always linked and those linked if needed."""
        nested = bool(inputs.seen)  # options of a library's own link stay with it
        inputs.seen.add(linking.output)
        command, directory = linking.command, linking.directory
        sources, named = iter(linking.units), iter(command.inputs)
        folders = _library_folders(command.words, directory)
        whole = False
        for token in command.tokens:
            if token.kind == "input":
                one = next(named)
                if one.language:
                    self._add_unit(next(sources), None, inputs, inputs.certain)
                else:
                    self._add_file(directory / one.path, inputs, whole)
            elif token.kind == "linking":
                for word in _linker_words(token.words):
                    whole = {"-Wl,--whole-archive": True, "-Wl,--no-whole-archive": False}.get(word, whole)
                    file = self._library(word, folders) if word.startswith("-") else directory / word
                    if file is not None and (".so" not in file.name or self._known(file) in self._linkings):
                        self._add_file(file, inputs, whole)
                        continue
                    if file is not None:
                        _add_word(f"-L{file.parent}", inputs.target)
                    of_ours = "rpath" in word and any(str(output.parent) in word for output in self._linkings)
                    if word.startswith("-l") or not (nested or word.startswith("-L") or of_ours):
                        _add_word(word, inputs.target)
            elif token.words[0] in ("-pthread", "-m32", "-m64"):
                _add_word(token.words[0], inputs.target)

    def _add_file(self, path: Path, inputs: "_Inputs", whole: bool = False) -> None:
        """Add an input; `whole` adds all members of an archive."""
        path = self._known(path)
        place = inputs.certain if whole else inputs.candidates
        if path in self._objects:
            self._add_unit(self._objects[path], path, inputs, inputs.certain)
        elif path in self._linkings:
            if path not in inputs.seen:  # the project's own shared library, or a part linked before
                self._collect(self._linkings[path], inputs)
        elif path in self._archives:
            for member in map(self._known, self._archives[path]):
                if member in self._objects:
                    self._add_unit(self._objects[member], member, inputs, place)
                else:
                    self._add_binary(member, inputs, place)
        elif is_archive(path):
            try:
                place += [self._member(name, content) for name, content in archive_members(path)]
            except (ValueError, OSError) as error:
                inputs.target.remarks.append(str(error))
        elif ".so" in path.name:
            _add_word(str(path), inputs.target)
        else:
            self._add_binary(path, inputs, inputs.certain)

    def _known(self, path: Path) -> Path:
        """Return a path as the project's commands spell it, which may be through a link."""
        normal = Path(os.path.normpath(path))
        known = normal in self._objects or normal in self._linkings or normal in self._archives
        return normal if known else Path(os.path.realpath(normal))

    def _library(self, word: str, folders: Sequence[Path]) -> Path | None:
        """Return the file of `-lname`, if one of the folders has it or will have it."""
        if not word.startswith("-l"):
            return None
        name = word[2:]
        names = [name[1:]] if name.startswith(":") else [f"lib{name}.so", f"lib{name}.a"]
        paths = (folder / one for folder in folders for one in names)
        return next((p for p in paths if p in self._archives or p in self._linkings or p.is_file()), None)

    def _add_unit(self, unit: Unit, path: Path | None, inputs: "_Inputs", place: list[Part]) -> None:
        if unit in self._parts:
            place.append(self._parts[unit])
        elif path is not None:
            self._add_binary(path, inputs, place)
        else:
            inputs.target.remarks.append(f"{unit.input.path} is missing, as it does not compile")

    def _add_binary(self, path: Path, inputs: "_Inputs", place: list[Part]) -> None:
        try:
            place.append(self._binary(path.name, path.read_bytes()))
        except OSError as error:
            inputs.target.remarks.append(f"{path} cannot be read: {error.strerror}")

    def _member(self, name: str, content: bytes) -> Part:
        """Find the translation unit of an archive's member by content, then by name."""
        if self._by_digest is None:
            self._by_digest = {}
            for path, unit in self._objects.items():
                if path.is_file():
                    self._by_digest.setdefault(_digest(path.read_bytes()), unit)
        found: Unit | None = self._objects.get(Path(name)) or self._by_digest.get(_digest(content))
        if found is None:
            gone = [one for path, one in self._objects.items() if path.name == name and not path.exists()]
            found = gone[0] if len(gone) == 1 else None  # `make` removes objects that only an archive needed
        return self._parts[found] if found is not None and found in self._parts else self._binary(name, content)

    def _binary(self, name: str, content: bytes) -> Part:
        known = self._binaries.get(content)
        if known is None:
            known = self._binaries[content] = Part(PurePath(name).name, elf_symbols(content), content=content)
        return known


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _library_folders(words: Sequence[str], directory: Path) -> list[Path]:
    """Return the folders that `-L` names."""
    folders, rest = [], iter(words)
    for word in rest:
        if word.startswith("-L"):
            folders.append(Path(os.path.normpath(directory / (word[2:] or next(rest, ".")))))
    return folders


def _linker_words(words: Sequence[str]) -> Iterator[str]:
    """Return each linker option as one word, and the files among them as files."""
    first, *rest = words
    if first == "-Xlinker":
        yield f"-Wl,{rest[0]}"
    elif first in ("-z", "-rpath"):
        yield f"-Wl,{first},{rest[0]}"
    elif first.startswith("-Wl,") and ("-archive" in first or "-group" in first):
        yield from (f"-Wl,{one}" if one.startswith("-") else one for one in first[4:].split(","))
    else:
        yield first + "".join(rest)


def _add_word(word: str, target: Target) -> None:
    """Add an option or library, if it is allowed in a dataset and does not concern parts already joined."""
    if word in _LIBRARY_OPTIONS or word.startswith(_IDLE):
        return
    if not is_harmless(word):
        target.remarks.append(f"the linker's option {word} is left out")
    elif word not in target.words or word.startswith("-l"):
        target.words.append(word)
