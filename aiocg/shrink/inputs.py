"""The inputs of a link, and the words of the same link with other objects in their places."""

import contextlib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aiocg.build.commands import Unit
from aiocg.build.objects import archive_members, beginning, elf_symbols, is_archive
from aiocg.build.proof import assembly_names, compile_again
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.linking import pack_archive
from aiocg.llvm.command_line import Token
from aiocg.shrink.record import Link
from aiocg.transport.elf import (
    exported_definitions,
    loader_relocations,
    sections,
    symbol_counts,
    used_definitions,
)

_FILES = ("-Map", "--Map", "--dependency-file", "--cref")  # that linkers write beside the image
_DROPPED = (
    *(f"-Wl,{option}" for option in _FILES),
    *_FILES,
    "-flto",
    "-fuse-ld",
    "--ld-path",
    "-fuse-linker-plugin",
    "-fno-fat-lto",
    "-ffat-lto",
    "-save-temps",
)


_MANY_DEFINITIONS = {"muldefs", "-zmuldefs", "-allow-multiple-definition", "--allow-multiple-definition"}

_ENDS = {"etext", "_etext", "__etext"}

STARTING = re.compile(r"\.(?:(?:pre)?init_array|fini_array|ctors|dtors)(?:\..*)?")
"""Names of sections with functions that are called at the beginning and the end, in the order of the link."""


@dataclass(frozen=True, slots=True)
class Module:
    """An object that is bitcode already, as compilers write for link-time optimisation.

    Attributes:
        path: the file.
    """

    path: Path


Part = Unit | Module
_Part = TypeVar("_Part", bound=Part)


def name_of(part: Part) -> str:
    """Return the name by which people know a part."""
    return part.path.name if isinstance(part, Module) else part.input.path


Objects = Callable[[Part], Path | None]
"""The object that stands for a part; None where another one has its code."""


@dataclass(frozen=True, slots=True, eq=False)
class _Single:
    """An object, or a source that the link compiles.

    Attributes:
        path: of the object, as the build has made it; None for a source of which nothing was recorded.
        part: what it is made from.
    """

    path: Path | None
    part: Part


@dataclass(frozen=True, slots=True, eq=False)
class _Archive:
    """An archive of which some members are of this build.

    Attributes:
        path: the file.
        members: their contents, and what they are made from where that is known.
    """

    path: Path
    members: tuple[tuple[bytes, Part | None], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What a link links.

    Attributes:
        link: the command.
        places: what each token of the command stands for; None for options, and for files that are not of this build.
    """

    link: Link
    places: tuple[_Single | _Archive | None, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts in order, each once."""
        found: dict[Part, None] = {}
        for place in self.places:
            if isinstance(place, _Single):
                found[place.part] = None
            elif isinstance(place, _Archive):
                found |= dict.fromkeys(part for _, part in place.members if part is not None)
        return tuple(found)

    @property
    def unknown(self) -> list[str]:
        """The names of objects and archives below the folder of the link that this build has not compiled."""
        named, found = iter(self.link.command.inputs), []
        for token, place in zip(self.link.command.tokens, self.places, strict=True):
            path = self.link.directory / next(named).path if token.kind == "input" else None
            is_near = path is not None and place is None and path.is_relative_to(self.link.directory)
            if path is not None and is_near and (is_archive(path) or _type_of(path) == 1):
                found.append(path.name)
        return found

    @property
    def has_archive(self) -> bool:
        """Whether an archive is named, that is not the system's."""
        named = any(one.kind == "input" and one.value.endswith(".a") for one in self.link.command.tokens)
        return named or any(isinstance(place, _Archive) for place in self.places)

    @property
    def writes_files(self) -> bool:
        """Whether the link writes files beside the image, such as a map."""
        return any(word.removeprefix("-Wl,").startswith(_FILES) for word in self.link.command.words)

    @property
    def reads_results(self) -> bool:
        """Whether the link reads a text that was written after one of its objects, such as a list of their symbols."""
        words = linker_words(self.link.command.words)
        named = {self.link.directory / word.rpartition("=")[2] for word in words} - {self.link.output}
        files = filter(Path.is_file, named)
        texts = [path for path in files if not (is_archive(path) or _type_of(path) or is_bitcode(beginning(path, 4)))]
        objects = [place.path for place in self.places if place is not None]
        written = [path.stat().st_mtime_ns for path in objects if path is not None and path.exists()]
        return any(path.stat().st_mtime_ns > min(written, default=0) for path in texts)

    @property
    def has_script(self) -> bool:
        """Whether a script says which sections there are, and which of them stay though nothing uses them."""
        words = [word.removeprefix("-Wl,") for word in self.link.command.words]
        return any(word.startswith(("-T", "--script")) and not word.startswith(("-Tt", "-Td", "-Tb")) for word in words)

    def own(self, part: Part, scratch: Path) -> Path | None:
        """Return the machine code that the build has made of a part; None if it is only in the image.

        Args:
            part: one of `parts`.
            scratch: where members of archives are written.
        """
        if isinstance(part, Module):
            return None
        for number, place in enumerate(self.places):
            if isinstance(place, _Single) and place.part == part:
                return place.path
            for index, (content, one) in enumerate(place.members if isinstance(place, _Archive) else ()):
                if one == part:
                    path = scratch / f"own-{number}-{index}.o"
                    path.write_bytes(content)
                    return path
        return None

    def objects(self) -> Iterator[tuple[Part | None, bytes]]:
        """Yield the objects that the link names, in order, with what those are made from that are of this build."""
        for place, token in zip(self.places, self.link.command.tokens, strict=True):
            if isinstance(place, _Archive):
                yield from ((part, content) for content, part in place.members)
            elif isinstance(place, _Single):
                if place.path is not None:
                    yield place.part, place.path.read_bytes()
            elif token.kind == "input" and (path := self.link.directory / token.value).is_file():
                contents = archive_members(path) if is_archive(path) else [("", path.read_bytes())]
                yield from ((None, content) for _, content in contents)

    def sharing(self, names: "re.Pattern[str]", least: int = 2) -> dict[str, list[Part | None]]:
        """Return the parts with something in sections of data that have several things; None for other objects.

        That several objects add to a section, or that one has several symbols there.

        Args:
            names: of sections.
            least: how many things a section has.
        """
        found: dict[str, list[Part | None]] = {}
        for part, content in self.objects():
            if content.startswith(b"\x7fELF"):
                counts = symbol_counts(content)
                data = {one.name for one in sections(content) if one.is_loaded and not one.is_code}
                for name in filter(names.fullmatch, data):
                    found.setdefault(name, []).extend([part] * max(counts.get(name, 1), 1))
        return {name: parts for name, parts in found.items() if len(parts) >= least}

    def check_places(self) -> None:
        """Check that nothing asks where the code ends: constants stand before it by lld, and after it by GNU's linker.

        Raises:
            ValueError: when an object of the link does.
        """
        for part, content in self.objects():
            if names := _ENDS & elf_symbols(content).undefined:
                what = name_of(part) if part else "an object"
                raise ValueError(f"{what} asks for {min(names)}, and lld has constants before the code")

    def check_wrapped(self) -> None:
        """Check that lld wraps the same calls as GNU's linker, which leaves those in the object that defines a symbol.

        Raises:
            ValueError: when an object of the link has such calls.
        """
        wrapped = set(wrapped_names(self.link.command.words))
        for part, content in self.objects() if wrapped else ():
            if content.startswith(b"\x7fELF") and (names := wrapped & used_definitions(content)):
                what = name_of(part) if part else "an object"
                raise ValueError(f"the link wraps what {what} defines and calls: {min(names)}")

    @property
    def overridden(self) -> set[str]:
        """The symbols of which the link may take another definition than an object's own."""
        defined = (name for _, content in self.objects() for name in elf_symbols(content).defined)
        return overridden_symbols(linker_words(self.link.command.words), defined)

    def check_copies(self) -> None:
        """Check that no library uses variables of its own of which the program has copies.

        What the program sees then depends on the code that is generated for it: a copy, or the library's.

        Raises:
            ValueError: when one does.
        """
        image = self.link.output.read_bytes() if self.link.output.is_file() else b""
        libraries = ((path.name, path.read_bytes()) for path in self._libraries())
        if problem := own_copies(image, libraries):
            raise ValueError(problem)

    def _libraries(self) -> Iterator[Path]:
        """Yield the shared libraries that the link names, where they are in its folders."""
        tokens = self.link.command.tokens
        folders = [self.link.directory / token.value.removeprefix("-L") for token in tokens if _is_folder(token)]
        for token in tokens:
            word = "".join(token.words)
            names = [f"lib{word[2:]}.so"] if word.startswith("-l") else [word] if token.kind == "input" else []
            for folder in (self.link.directory, *folders):
                yield from (path for name in names if _type_of(path := folder / name) == 3)

    def original_words(self) -> list[str]:
        """Return the words after the driver of the link as it was, with objects in the places of sources."""
        words: list[str] = []
        for token, place in zip(self.link.command.tokens, self.places, strict=True):
            words += [str(place.path)] if isinstance(place, _Single) and place.path is not None else _kept(token)
        return words

    def own_words(self, objects: Objects, scratch: Path) -> list[str]:
        """Return the words after the driver of the link as the build has it, with other objects, as `words`."""
        assert self.link.origin is not None, "it was recorded"
        others: dict[tuple[str, ...], list[str]] = {}
        for number, (token, place) in enumerate(zip(self.link.command.tokens, self.places, strict=True)):
            if place is not None:
                others[token.words] = self._replaced(number, place, objects, scratch)
        tokens = [token for token in self.link.origin.command.tokens if token.kind != "output"]
        return [word for token in tokens for word in others.get(token.words, token.words)]

    @staticmethod
    def _replaced(number: int, place: _Single | _Archive, objects: Objects, scratch: Path) -> list[str]:
        if isinstance(place, _Archive):
            return [str(_repacked(place, objects, scratch / f"{number}-{place.path.name}"))]
        return [] if (path := objects(place.part)) is None else [str(path)]

    def words(self, objects: Objects, scratch: Path, program: Path | None = None) -> list[str]:
        """Return the words after the driver of the same link with other objects.

        Args:
            objects: for each part.
            scratch: an empty folder for archives.
            program: an object that stands before all others.
        """
        words: list[str] = []
        waiting = [str(program)] if program is not None else []
        for number, (token, place) in enumerate(zip(self.link.command.tokens, self.places, strict=True)):
            if place is None:
                words += _kept(token)
                continue
            words += waiting
            waiting = []
            words += self._replaced(number, place, objects, scratch)
        return words


def overridden_symbols(words: Sequence[str], defined: Iterable[str]) -> set[str]:
    """Return the symbols of which a link may take another definition than an object's own.

    Args:
        words: of the linker.
        defined: what the objects define for others, each as often as it is defined.
    """
    found = {one.partition("=")[0] for one in _values("defsym", words)}
    if not _MANY_DEFINITIONS.isdisjoint(words):
        found |= {name for name, count in Counter(defined).items() if count > 1}
    return found


def confused(contents: Mapping[_Part, bytes]) -> dict[_Part, str]:
    """Return the parts whose assembly may name what another one defines for itself, and the name, given all objects.

    In a joined module the name is that one's. Of what cannot be preprocessed any more, any name may be in assembly.
    """
    symbols = {part: elf_symbols(content) for part, content in contents.items()}
    owners = Counter(name for one in symbols.values() for name in one.local)
    found = dict[_Part, str]()
    for part, one in symbols.items():
        names = {name for name in one.undefined | one.local if owners[name] > (name in one.local)}
        if names and isinstance(part, Unit):
            with contextlib.suppress(BenchmarkInitError):
                names &= assembly_names(part)
            if names:
                found[part] = min(names)
    return found


def own_copies(image: bytes, libraries: Iterable[tuple[str, bytes]]) -> str:
    """Say which library uses a variable of its own of which an image has a copy; "" if none does.

    Args:
        image: an ELF program, or anything else, which has no copies.
        libraries: names and contents of shared libraries.
    """
    relocations = loader_relocations(image) if image.startswith(b"\x7fELF") else ()
    copies = {name for name, is_copy in relocations if is_copy}
    for name, content in libraries if copies else ():
        defined = {one.partition("@")[0] for one in exported_definitions(content)}
        if own := (defined & copies) - {one for one, _ in loader_relocations(content)}:
            return f"{name} uses {min(own)} of its own, of which the program has a copy"
    return ""


def linker_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command line as the linker sees them: `-Wl,--wrap,f` are two."""
    found: list[str] = []
    for word in words:
        if word.startswith("-Wl,"):
            found += word.split(",")[1:]
        elif word != "-Xlinker":
            found.append(word)
    return found


def wrapped_names(words: Iterable[str]) -> list[str]:
    """Return the symbols that a link replaces by `--wrap`."""
    return _values("wrap", linker_words(words))


def _values(option: str, words: Iterable[str]) -> list[str]:
    """Return the values of an option among the words of a linker."""
    found, rest = [], iter(words)
    for word in rest:
        name = word.lstrip("-")
        if word.startswith("-") and name.startswith(f"{option}="):
            found.append(name.removeprefix(f"{option}="))
        elif word in (f"-{option}", f"--{option}"):
            found.append(next(rest, ""))
    return found


def collects(words: Iterable[str]) -> bool | None:
    """Say whether a link drops sections that nothing refers to; None if it does not say."""
    said = [word.lstrip("-") for word in linker_words(words) if word.startswith("-")]
    said = [word for word in said if word in ("gc-sections", "no-gc-sections")]
    return said[-1] == "gc-sections" if said else None


def read_inputs(link: Link, units: Mapping[str, Unit], scratch: Path) -> Inputs:
    """Find out what a link links.

    Args:
        link: the command; its files must be as they were.
        units: by the SHA-256 of their objects.
        scratch: where bitcode from archives, and objects of the link's own sources, are written.

    Raises:
        OSError: when an archive cannot be read; ValueError when it is damaged, or as `check_copies`.
        BenchmarkInitError: when a source cannot be compiled as the build did.
    """
    compiled, named = iter(link.units), iter(link.command.inputs)
    folders = [link.directory / token.value.removeprefix("-L") for token in link.command.tokens if _is_folder(token)]
    more = link.origin.environment.get("LIBRARY_PATH", "") if link.origin is not None else ""
    folders += [link.directory / folder for folder in more.split(os.pathsep) if folder]
    static = any(token.words[0] in ("-static", "-static-pie") for token in link.command.tokens)
    places: list[_Single | _Archive | None] = []
    for token in link.command.tokens:
        place: _Single | _Archive | None = None
        if token.kind == "input":
            one = next(named)
            path = Path(os.path.normpath(link.directory / one.path))
            if one.language:
                unit = next(compiled)
                place = _Single(_object(unit, scratch / f"own-{len(places)}.o"), unit)
            elif known := units.get(link.files.get(path, "")):
                place = _Single(path, known)
            elif is_archive(path):
                place = _archive(path, units, scratch)
            elif is_bitcode(beginning(path, 4)):
                place = _Single(path, Module(path))
        elif token.words[0].startswith("-l") and (library := _library(token, folders, static)):
            place = _archive(library, units, scratch)
        static = _static_after(token, static)
        places.append(place)
    found = Inputs(link, tuple(places))
    found.check_copies()
    return found


def _object(unit: Unit, target: Path) -> Path | None:
    """Return the machine code that the build has made of a source of the link; None if it is not known how."""
    if unit.origin is None or not unit.origin.environment:
        return None
    compile_again(unit, target)
    return target


def _is_folder(token: Token) -> bool:
    return token.words[0].startswith("-L")


def _static_after(token: Token, static: bool) -> bool:
    """Say whether `-l` after a token finds archives only, if it did so before it."""
    for word in linker_words(token.words):
        if word in ("-Bstatic", "-dn", "-non_shared"):
            static = True
        elif word in ("-Bdynamic", "-dy", "-call_shared"):
            static = False
    return static


def _library(token: Token, folders: list[Path], static: bool) -> Path | None:
    """Return the archive that `-lname`, or `-l:file`, finds in the folders of the command line."""
    name = "".join(token.words)[2:]
    if name.startswith(":"):
        found = next((path for folder in folders if (path := folder / name[1:]).is_file()), None)
        return found if found is not None and is_archive(found) else None
    for folder in folders:
        if not static and (folder / f"lib{name}.so").exists():
            return None
        if (path := folder / f"lib{name}.a").is_file():
            return path
    return None


def _archive(path: Path, units: Mapping[str, Unit], scratch: Path) -> _Archive | None:
    members: list[tuple[bytes, Part | None]] = []
    for _, content in archive_members(path):
        digest = hashlib.sha256(content).hexdigest()
        part: Part | None = units.get(digest)
        if part is None and is_bitcode(content):
            part = Module(scratch / f"{digest}.o")
            part.path.write_bytes(content)
        members.append((content, part))
    return _Archive(path, tuple(members)) if any(part for _, part in members) else None


def _type_of(path: Path) -> int:
    """Return the type of an ELF file, 0 of any other."""
    head = beginning(path, 18)
    return max(head[16:18], default=0) if head[:4] == b"\x7fELF" else 0  # in either order of bytes


def _repacked(archive: _Archive, objects: Objects, target: Path) -> Path:
    """Write an archive with other members, and return where it is; those that are elsewhere are left out."""

    def contents() -> Iterator[bytes]:
        for content, part in archive.members:
            if part is None:
                yield content
            elif (path := objects(part)) is not None:
                yield path.read_bytes()

    target.write_bytes(pack_archive({f"{number}.o": content for number, content in enumerate(contents())}))
    return target


def _kept(token: Token) -> tuple[str, ...]:
    """Return the words of a token as they stand, without those about linkers, passes and other files."""
    words = token.words
    dropped = words[0].startswith(_DROPPED) or (words[0] == "-Xlinker" and words[1].startswith(_FILES))
    return () if dropped or token.kind in ("output", "dependency", "level", "language") else words
