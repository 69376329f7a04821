"""What a build has compiled and linked, read from its record; nothing here looks at the build's files."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from aiocg.llvm.command_line import CommandLine, parse
from aiocg.programs.project.commands import Origin, Unit, is_probe, units_of

_OWN_PASSES = ("-fsanitize", "-fprofile", "-fcoverage", "--coverage", "-fcs-profile", "-pg", "-finstrument", "-fxray")
_NO_IMAGE = frozenset({"-r", "-Wl,-r", "-Wl,--relocatable"})


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a compiler.

    Attributes:
        arguments: the compiler and its options.
        directory: where it was started.
        files: the SHA-256 of the files that it named, by their names there.
        compiler: the words that start it again in place of the first argument.
        environment: its variables.
    """

    arguments: tuple[str, ...]
    directory: Path
    files: Mapping[str, str] = field(default_factory=dict)
    compiler: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def origin(self, command: CommandLine, digest: str) -> Origin:
        """Return how something was made, to be made again."""
        return Origin(self.compiler or self.arguments[:1], command, self.environment, digest)


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
    """

    units: Mapping[str, Unit]
    links: tuple[Link, ...]
    left_alone: Mapping[Path, str]


def read_record(path: Path) -> list[Start]:
    """Read the file that `AIOCG_CC_RECORD` names.

    Raises:
        OSError: when it cannot be read.
        ValueError: when it is not a record.
    """
    starts = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        more = entry.get("files", {}), tuple(entry.get("compiler", ())), entry.get("environment", {})
        starts.append(Start(tuple(entry["arguments"]), Path(entry["directory"]), *more))
    return starts


def understand(starts: Iterable[Start]) -> Build:
    """Find the units and the links among the starts of compilers."""
    units: dict[str, Unit] = {}
    links: dict[Path, Link] = {}
    left_alone: dict[Path, str] = {}
    for start in starts:
        try:
            whole = parse(_named(start.arguments), str(start.directory))
        except ValueError:
            continue  # it was no compilation
        if whole.mode not in ("link", "compile") or not whole.inputs or is_probe(whole, start.directory):
            continue
        if whole.mode == "compile":
            for unit in () if _own_passes(whole) else units_of(whole.plain(), start.directory):
                if digest := start.files.get(_object_name(whole, unit)):
                    units[digest] = replace(unit, origin=start.origin(whole, digest))
            continue
        output = Path(os.path.normpath(start.directory / (whole.output or "a.out")))
        links.pop(output, None)
        left_alone.pop(output, None)
        if reason := obstacle(whole):
            left_alone[output] = reason
        else:
            files = {Path(os.path.normpath(start.directory / name)): digest for name, digest in start.files.items()}
            named = {output, *(Path(os.path.normpath(start.directory / one.path)) for one in whole.inputs)}
            origin = start.origin(whole, "")
            compiled = tuple(replace(one, origin=origin) for one in units_of(whole.plain(), start.directory))
            kept = {path: digest for path, digest in files.items() if path in named}
            links[output] = Link(output, whole.plain(), start.directory, compiled, kept, origin)
    return Build(units, tuple(links.values()), left_alone)


def obstacle(command: CommandLine) -> str:
    """Say why a link cannot be done again with other objects; "" if it can."""
    for word in command.words:
        if word in _NO_IMAGE:
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


def _object_name(command: CommandLine, unit: Unit) -> str:
    return command.output or f"{PurePath(unit.input.path).stem}.o"
