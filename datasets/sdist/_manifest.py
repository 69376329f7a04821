"""Descriptions of the source distributions and their programs: one TOML file for each project.

    project = "pyerfa"              # its name in the package index, and the first part of its programs' names
    version = "2.0.1.5"
    license = "BSD-3-Clause"        # of the sources that are listed, as an SPDX expression
    file = "pyerfa-2.0.1.5.tar.gz"
    sha256 = "…"
    bytes = 818430                  # of that file

    [files]                         # our own files, for what a build system would have written; below `aiocg-files`
    "config.h" = "#define HAVE_UNISTD_H 1\\n"

    [[group]]
    folder = "liberfa/erfa/src"     # below the top folder of the archive
    select = ["*.c"]                # patterns of paths below that folder; `**` is any number of folders
    omit = ["t_*.c"]
    flags = ["-Iliberfa/erfa/src"]  # for clang; folders are relative to the top folder of the archive
    sources = '''                   # what the patterns select and what compiles, below that folder
    a2af.c
    '''

A person writes the patterns and flags; `python -m bench.curate_sdist` finds out the rest.
"""

import dataclasses
import functools
import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from aiocg.datasets.frontend import LANGUAGES

PROJECTS_DIRECTORY = Path(__file__).with_name("projects")

FILES_FOLDER = "aiocg-files"
"""Where our own files lie in an unpacked source distribution."""

_FOLDER_FLAGS = ("-I", "-iquote", "-isystem", "-include")


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Sources of a project that are compiled with the same flags.

    Attributes:
        folder: where they lie, below the top folder of the archive; "" for that folder itself.
        select: patterns of the paths that were tried.
        omit: patterns of those that were not.
        flags: for clang.
        sources: the paths below `folder`, in order.
    """

    folder: str
    select: tuple[str, ...]
    omit: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def path(self, source: str) -> str:
        """Return the path of a source below the top folder of the archive."""
        return f"{self.folder}/{source}" if self.folder else source

    def flags_in(self, root: Path) -> tuple[str, ...]:
        """Return the flags for an archive that is unpacked in a certain place."""
        return tuple(_in_folder(flag, root) for flag in self.flags)


@dataclasses.dataclass(frozen=True, slots=True)
class Project:
    """A source distribution.

    Attributes:
        name: of the project.
        version: such as "1.0".
        license: an SPDX expression.
        file: the archive's name.
        sha256: of the archive.
        bytes: its size.
        files: our own files, by their path below `FILES_FOLDER`.
        groups: the programs.
    """

    name: str
    version: str
    license: str
    groups: tuple[Group, ...]
    file: str = ""
    sha256: str = ""
    bytes: int = 0
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the description of a project, whose derived parts may be missing.

        Raises:
            OSError, tomllib.TOMLDecodeError: when it cannot be read.
            KeyError, msgspec.ValidationError: when it lacks what a person must say.
        """
        import msgspec  # here, because most programs read no description

        table = tomllib.loads(path.read_text("utf-8"))
        for group in table["group"]:
            group["sources"] = group.get("sources", "").split("\n")[:-1]
        return msgspec.convert({"name": table["project"], "groups": table["group"], **table}, cls)

    @property
    def top(self) -> str:
        """The folder that the archive has at its top."""
        return self.file.removesuffix(".zip").removesuffix(".tar.gz").removesuffix(".tar.bz2").removesuffix(".tar.xz")

    @property
    def folder(self) -> str:
        """The name of a folder for the unpacked archive, another one when its content would be another."""
        digest = hashlib.sha256(self.sha256.encode())
        for name, text in sorted(self.files.items()):
            digest.update(f"\0{name}\0{text}".encode())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:8]}"

    def programs(self) -> "Iterator[Program]":
        """Enumerate the programs in order."""
        return (Program(self, group, source) for group in self.groups for source in group.sources)


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A source file of a project that is a program, at a path below its group's folder."""

    project: Project
    group: Group
    source: str

    @property
    def path(self) -> str:
        """Its path below the top folder of the archive."""
        return self.group.path(self.source)

    @property
    def name(self) -> str:
        """Its name in the dataset."""
        return f"{self.project.name}/{self.path}"

    @property
    def language(self) -> str:
        """ "c" or "c++"."""
        return LANGUAGES[Path(self.source).suffix]


@functools.cache
def projects(directory: Path = PROJECTS_DIRECTORY) -> Mapping[str, Project]:
    """Read the descriptions of all projects in a directory, by name, in order; once."""
    found = (Project.read(path) for path in directory.glob("*.toml"))
    return {project.name: project for project in sorted(found, key=lambda project: project.name)}


def _in_folder(flag: str, root: Path) -> str:
    for prefix in _FOLDER_FLAGS:
        if flag.startswith(prefix):
            return f"{prefix}{root / flag.removeprefix(prefix)}"
    return flag
