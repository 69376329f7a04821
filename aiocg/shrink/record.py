"""The recorded compile and link commands of a build. Reads no build files."""

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiocg.build.commands import Origin, Start, Unit, is_probe, object_name, units_of
from aiocg.build.objects import archive_members, is_archive
from aiocg.llvm.command_line import CommandLine, Input, Token, parse
from aiocg.llvm.recording import is_tool

_OWN_PASSES = ("-fsanitize", "-fprofile", "-fcoverage", "--coverage", "-fcs-profile", "-pg", "-finstrument", "-fxray")
_WITH_VALUE = frozenset(
    """
    A F G I L Map R T Tbss Tdata Ttext Ttext-segment Trodata-segment Y a architecture audit auxiliary b c dT
    default-script defsym dependency-file depaudit dynamic-linker dynamic-list e entry exclude-libs
    export-dynamic-symbol export-dynamic-symbol-list f filter fini format gpsize h hash-style init just-symbols l
    library library-path m mri-script o oformat output plugin plugin-opt require-defined retain-symbols-file rpath
    rpath-link script section-start soname spare-dynamic-tags sysroot trace-symbol u undefined version-script wrap y z
    """.split()  # noqa: SIM905
)
"""Linkers' options whose value may be the next word."""
_LISTING = ("nm", "objdump", "readelf")
RELOCATABLE = frozenset({"-r", "-Wl,-r", "-Wl,--relocatable"})


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A command that linked an image.

    Attributes:
        output: the image.
        command: the command line, taken apart.
        directory: where it was carried out.
        units: of the sources that it compiles itself, in order.
        files: the SHA-256 of the output and the inputs, by absolute paths.
        origin: how the build has made it.
    """

    output: Path
    command: CommandLine
    directory: Path
    units: tuple[Unit, ...] = ()
    files: Mapping[Path, str] = field(default_factory=dict)
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Build:
    """What a build consists of.

    Attributes:
        units: the translation unit of each object, by the object's SHA-256.
        links: those that can be done again, in order, the last for each output.
        left_alone: outputs whose links cannot, and why.
        read: the SHA-256 of files that other tools, and those links, have read.
    """

    units: Mapping[str, Unit]
    links: tuple[Link, ...]
    left_alone: Mapping[Path, str]
    read: frozenset[str] = frozenset()

    @property
    def all_units(self) -> list[Unit]:
        """The units of objects, and those that links compile."""
        return [*self.units.values(), *(unit for link in self.links for unit in link.units)]


def understand(starts: Iterable[Start]) -> Build:
    """Find the units and the links among the starts of compilers."""
    units: dict[str, Unit] = {}
    links: dict[Path, Link] = {}
    left_alone: dict[Path, str] = {}
    read: set[str] = set()
    listed: dict[str, str] = {}  # inputs of images whose symbols were read, and the names of those
    later: set[str] = set()  # objects that were compiled after that, and may have a table of the symbols
    for start in starts:
        if is_tool(start.arguments[0]):
            read |= _digests(start)
            seen = [link for link in links.values() if link.files.get(link.output) in start.files.values()]
            if start.arguments[0].endswith(_LISTING):
                listed |= {
                    one: link.output.name for link in seen for path, one in link.files.items() if path != link.output
                }
            continue
        try:
            whole = parse(_named(start.arguments), str(start.directory))
        except ValueError:
            continue  # it was no compilation
        if whole.mode not in ("link", "compile") or not whole.inputs or is_probe(whole, start.directory):
            continue
        if whole.mode == "compile":
            for unit in () if _own_passes(whole) else units_of(whole.plain(), start.directory):
                if digest := start.files.get(object_name(whole, unit)):
                    units[digest] = replace(unit, origin=start.origin(whole, digest))
                    later |= {digest} if listed else set()
            continue
        output = Path(os.path.normpath(start.directory / (whole.output or "a.out")))
        links.pop(output, None)
        left_alone.pop(output, None)
        digests = {*start.files.values()}
        reason = _obstacle(whole)
        if not reason and not later.isdisjoint(digests) and (before := listed.keys() & digests):
            reason = f"the build has read the symbols of {listed[min(before)]}, which has the same objects"
        if reason:
            left_alone[output] = reason
            read |= _digests(start)
        else:
            files = {Path(os.path.normpath(start.directory / name)): digest for name, digest in start.files.items()}
            named = {output, *(Path(os.path.normpath(start.directory / one.path)) for one in whole.inputs)}
            try:
                whole = _spelled_out(whole, start.directory)
            except OSError as error:
                left_alone[output] = f"{error.filename}, which says more to the linker, is gone"
                continue
            origin, command = start.origin(whole, ""), whole.plain()
            compiled = tuple(replace(one, origin=origin) for one in units_of(command, start.directory))
            kept = {path: digest for path, digest in files.items() if path in named}
            links[output] = Link(output, command, start.directory, compiled, kept, origin)
    return Build(units, tuple(links.values()), left_alone, frozenset(read))


def _digests(start: Start) -> set[str]:
    """Return the SHA-256 of the files that a command names, and of the members of archives that are still there."""
    archives = filter(is_archive, (start.directory / name for name in start.files))
    members = (content for path in archives for _, content in archive_members(path))
    return {*start.files.values(), *(hashlib.sha256(content).hexdigest() for content in members)}


def _spelled_out(command: CommandLine, directory: Path) -> CommandLine:
    """Return a link in which each option of the linker is a token, and files and libraries are those of the driver.

    Raises:
        OSError: when a response file of the linker is not there.
    """
    tokens: list[Token] = []
    inputs: list[Input] = []
    given, waiting = iter(command.inputs), ""
    for token in command.tokens:
        direct = token.words[0] == "-Xlinker"
        if not direct and not token.words[0].startswith("-Wl,"):
            tokens.append(token)
            inputs += [next(given)] if token.kind == "input" else []
            continue
        for word in read_response_files([token.value] if direct else token.words[0].split(",")[1:], directory):
            if not waiting and word.lstrip("-") in _WITH_VALUE and word.startswith("-"):
                waiting = word
                continue
            if not waiting and not word.startswith("-"):
                inputs.append(Input(word, ""))
            tokens.append(_token_of(waiting, word))
            waiting = ""
    if waiting:
        tokens.append(_token_of("", waiting))
    return replace(command, tokens=tuple(tokens), inputs=tuple(inputs))


def _token_of(option: str, word: str) -> Token:
    """Return an option of the linker as a token of the driver's; the word is its value, if there is an option."""
    if not option and not word.startswith("-"):
        return Token("input", (word,))
    joined = f"{option}{word}"
    for name, short in (("--library-path", "-L"), ("--library", "-l"), ("-L", "-L"), ("-l", "-l")):
        if joined.startswith(name):
            return Token("linking", (short + joined.removeprefix(name).removeprefix("="),))
    words = [option, word] if option else [word]
    if any("," in one for one in words):
        return Token("linking", tuple(part for one in words for part in ("-Xlinker", one)))
    return Token("linking", (f"-Wl,{','.join(words)}",))


def read_response_files(words: Iterable[str], directory: Path) -> Iterator[str]:
    """Replace `@file` by the words in the file, for a linker.

    Raises:
        OSError: when a file is not there.
    """
    for word in words:
        if word.startswith("@"):
            more = shlex.split((directory / word[1:]).read_text(errors="surrogateescape"))
            yield from read_response_files(more, directory)
        else:
            yield word


def _obstacle(command: CommandLine) -> str:
    """Say why a link cannot be done again with other objects; "" if it can."""
    for word in command.words:
        if word in RELOCATABLE:
            return f"{word} links no image but an object"
    if word := _own_passes(command):
        return f"{word} needs the compiler's own passes"
    if any(one.path == "-" for one in command.inputs):
        return "its source is the standard input"
    return ""


def changed(link: Link, now: Mapping[Path, str]) -> str:
    """Say why a link cannot be done again with the files that are there; "" if it can.

    Args:
        link: with the files that it had.
        now: the SHA-256 of these files; of those that are gone nothing.
    """
    for path, digest in link.files.items():
        if now.get(path) != digest:
            what = "removed" if path not in now else "changed"
            if path == link.output:
                return f"the build has {what} it after it was linked, for example by strip"
            return f"the build has {what} {path.name} after the link"
    return ""


def _named(arguments: Sequence[str]) -> Sequence[str]:
    """Return a command line whose first word is the compiler: `zig cc` is one."""
    return (" ".join(arguments[:2]), *arguments[2:]) if arguments[0] == "zig" else arguments


def _own_passes(command: CommandLine) -> str:
    words: Sequence[str] = command.words
    return next((word for word in words if word.startswith(_OWN_PASSES)), "")
