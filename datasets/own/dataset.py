"""A dataset of the user's own programs, read from its folder, and its manifest, which is readable JSON.

The first line is the `Header`, each further one a `Program`. So the header can be read alone, and
`grep '"path":"src/a.c"'` finds a program.
"""

import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.dataset import ListedDataset
from aiocg.datasets.errors import BenchmarkInitError, InstallError, InvalidBenchmarkUri, ToolchainNotFound
from aiocg.datasets.index import DatasetIndex
from aiocg.datasets.recipe import BenchmarkProgram, LazyFiles, ProgramRun, by_driver
from aiocg.datasets.source_flags import GENERATION
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.toolchain import find_clang, link_flags
from aiocg.datasets.uri import BenchmarkUri

_HARMLESS = re.compile(
    r"""-l:?[\w.+-]+ | -L/.+ | /.+/lib[^/]+\.so[.\d]*
    | -pthread | -pie | -no-pie | -rdynamic | -shared | -static | -static-pie | -static-libgcc | -static-libstdc\+\+
    | -nostdlib | -nodefaultlibs | -nolibc | -nostartfiles | -m32 | -m64 | -mx32 | -s | -u\w+
    | -Wl(?:,(?:--gc-sections | --no-gc-sections | --as-needed | --no-as-needed | --export-dynamic | -E | --no-undefined
        | --start-group | --end-group | --whole-archive | --no-whole-archive | -Bstatic | -Bdynamic | -Bsymbolic
        | -Bsymbolic-functions | --sort-common | --no-allow-shlib-undefined | --allow-multiple-definition | -O\d | -s
        | -z,[\w=-]+ | --hash-style=\w+ | --build-id(?:=\w+)? | --defsym[=,]\w+=[\w.+-]+ | --wrap[=,][\w.]+
        | -soname[=,][\w.+-]+ | --exclude-libs[=,][\w.+:-]+ | (?:-rpath|--rpath|-rpath-link|--rpath-link)[=,][^,]+))+
    """,
    re.ASCII | re.VERBOSE,
)


_FLAG = re.compile(
    rf"""-[DU].+ | -std=[\w+:]+ | -ansi | -pthread | -undef | -trigraphs | -include | -imacros | -nostdinc(?:\+\+)?
    | {GENERATION}
    """,
    re.ASCII | re.VERBOSE,
)


def is_harmless(word: str) -> bool:
    """Return whether a link option is allowed in a dataset."""
    return bool(_HARMLESS.fullmatch(word))


def check_flags(words: Iterable[str], files: Container[str]) -> None:
    """Check that compiler flags name neither outside files nor programs to run.

    Raises:
        ValueError: it names the word.
    """
    before = ""
    for word in words:
        if before:
            if word not in files:
                raise ValueError(f"a dataset may not be compiled with {before} {word!r}, which is not in it")
        elif not _FLAG.fullmatch(word):
            raise ValueError(f"a dataset may not be compiled with the word {word!r}")
        before = word if word in ("-include", "-imacros") and not before else ""


FORMAT, VERSION = "aiocg dataset", 1
MANIFEST, CONTENT = "aiocg-dataset.jsonl", "content"

LONGEST_HEADER = 1 << 20  # bytes

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""The name of a file below `content`."""

ExitStatus = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a dataset.

    Attributes:
        version: of the format; only `VERSION` is accepted.
        programs: number of lines that follow.
        compiler: version line of the clang that made the bitcode.
        validatable: whether a program has runs.
    """

    format: str
    version: int
    name: str
    programs: int
    description: str = ""
    license: str = ""
    compiler: str = ""
    validatable: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A way to run a program, as `aiocg.datasets.ProgramRun`, with hashes in place of content."""

    name: str
    arguments: tuple[str, ...] = ()
    stdout: Digest | None = None
    exit_status: ExitStatus = 0
    stdin: Digest | None = None
    files: dict[str, Digest] = {}
    environment: dict[str, str] = {}
    output_files: dict[str, Digest | None] = {}
    timeout: float = 60.0
    output_varies: bool = False


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a program is linked.

    Attributes:
        words: libraries and options for clang, and names of `files`; see `aiocg.datasets.own.dataset`.
        files: objects without bitcode, by their names in the words.
    """

    words: tuple[str, ...] = ()
    files: dict[str, Digest] = {}


class Tree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What another compiler needs to compile a program: a `SourceTree`, with hashes in place of content."""

    units: tuple[str, ...]
    files: dict[str, Digest]
    include: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    units_in_c: tuple[str, ...] = ()


class Program(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One program: a translation unit, or a target linked from several.

    Attributes:
        path: its name within the dataset.
        language: "c", or "c++" if some of it is.
        tree: everything needed to compile it elsewhere; None when unknown.
        members: paths of a target's translation units.
        link: how it is linked; None when it is not a whole program.
        measured: the run that is timed by default.
    """

    path: str
    module: Digest
    language: Literal["c", "c++"]
    flags: tuple[str, ...] = ()
    sources: dict[str, Digest] = {}
    tree: Tree | None = None
    members: tuple[str, ...] = ()
    link: Link | None = None
    runs: tuple[Run, ...] = ()
    measured: str = ""

    def digests(self) -> Iterator[str]:
        """Yield the names of its files below `content`."""
        yield self.module
        yield from self.sources.values()
        if self.tree is not None:
            yield from self.tree.files.values()
        if self.link is not None:
            yield from self.link.files.values()
        for run in self.runs:
            optional = (run.stdout, run.stdin, *run.output_files.values())
            yield from (*run.files.values(), *(digest for digest in optional if digest is not None))


def text(header: Header, programs: Iterable[Program]) -> bytes:
    """Encode a manifest."""
    return b"".join(msgspec.json.encode(one) + b"\n" for one in (header, *programs))


def _read_header(directory: Path) -> Header:
    """Read the description of the dataset in a folder.

    Raises:
        InstallError: when it is no dataset, is damaged, or is one for another version of aiocg.
        OSError: when it cannot be read.
    """
    path = directory / MANIFEST
    with open(path, "rb") as file:
        return _header(file.readline(LONGEST_HEADER), path)


def read(directory: Path) -> tuple[Header, list[Program]]:
    """Read and check the whole manifest of the dataset in a folder.

    Raises:
        InstallError: when it is no dataset, is damaged, asks for what no dataset may, or is for another version of
            aiocg.
        OSError: when it cannot be read.
    """
    path = directory / MANIFEST
    first, *lines = path.read_bytes().splitlines() or [b""]
    header = _header(first, path)
    programs = [_program(line, number, path) for number, line in enumerate(lines, 2)]
    if len(programs) != header.programs:
        raise InstallError(str(path), f"is damaged: it lists {len(programs)} programs, and says {header.programs}")
    known: set[str] = set()
    for number, program in enumerate(programs, 2):
        try:
            _check(program, header.name)
            if program.path in known:
                raise ValueError(f"{program.path!r} is there twice")
        except ValueError as error:
            raise InstallError(str(path), f"line {number}: {error}") from None
        known.add(program.path)
    for program in programs:
        if missing := [member for member in program.members if member not in known]:
            raise InstallError(str(path), f"{program.path} consists of {missing[0]!r}, which is not there")
    return header, programs


def _header(line: bytes, path: Path) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InstallError(str(path), f"it is no manifest of a dataset, or a damaged one: {error}") from None
    if header.format != FORMAT:
        raise InstallError(str(path), f"its format is {header.format!r}, expected {FORMAT!r}")
    if header.version != VERSION:
        newer = "it was made by a newer aiocg: use that" if header.version > VERSION else "make it again"
        raise InstallError(str(path), f"its format has version {header.version}, this aiocg reads {VERSION}; {newer}")
    try:
        BenchmarkUri("benchmark", header.name)
    except InvalidBenchmarkUri as error:
        raise InstallError(str(path), f"its name cannot be one of a dataset: {error.reason}") from None
    return header


def _program(line: bytes, number: int, path: Path) -> Program:
    try:
        return msgspec.json.decode(line, type=Program)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InstallError(str(path), f"line {number} is damaged: {error}") from None


def _check(program: Program, dataset: str) -> None:
    """Check that nothing leads out of folders, or runs anything but clang and the program."""
    try:
        BenchmarkUri("benchmark", dataset, program.path)
    except InvalidBenchmarkUri as error:
        raise ValueError(error.reason) from None
    if not program.path:
        raise ValueError("a program has no name")
    files = program.link.files if program.link is not None else {}
    for name in (*program.sources, *files, *(name for run in program.runs for name in (*run.files, *run.output_files))):
        if not _is_below(name):
            raise ValueError(f"{name!r} is not the name of a file below a folder")
    for name in files:
        if not re.fullmatch(r"[\w.+-]+\.(?:o|a|so[.\d]*)", name, re.ASCII) or name.startswith(("-", "program.")):
            raise ValueError(f"{name!r} cannot be the name of an object")
    if program.tree is not None:
        _check_tree(program.tree)
    for word in program.link.words if program.link is not None else ():
        if word not in files and not is_harmless(word):
            raise ValueError(f"a dataset may not link with the word {word!r}")
    names = [run.name for run in program.runs]
    if len(set(names)) < len(names) or program.measured not in ("", *names):
        raise ValueError(f"the names of its runs are wrong: {', '.join(names)}; measured: {program.measured!r}")
    if any(not run.timeout > 0 for run in program.runs):
        raise ValueError("a run has no time")
    for run in program.runs:
        words = (*run.arguments, *run.environment, *run.environment.values())
        if "\0" in "".join(words) or any(not name or "=" in name for name in run.environment):
            raise ValueError(f"no program can be run like its run {run.name!r}")


def _check_tree(tree: Tree) -> None:
    for name in (*tree.files, *(folder for folder in tree.include if folder != ".")):
        if not _is_below(name):
            raise ValueError(f"{name!r} is not the name of a file or folder below a folder")
    if missing := [unit for unit in (*tree.units, *tree.units_in_c) if unit not in tree.files]:
        raise ValueError(f"its unit {missing[0]!r} is not there")
    check_flags(tree.flags, tree.files)


def _is_below(name: str) -> bool:
    return name not in ("", ".") and name[:1] != "/" and ".." not in name.split("/") and "\0" not in name


class OwnDataset(ListedDataset):
    """Programs that `aiocg dataset create` has made: translation units, and targets that are whole programs.

    It needs only its folder, not the original project nor, except for linking, a compiler. Since the sources cannot be
    recompiled, tests that require it (UndefinedBehaviorSanitizer) are skipped.

    Args:
        directory: the dataset's folder. Only the first line of the manifest is read until a program is asked for.

    Raises:
        InstallError: when there is no dataset in it, or a damaged one.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        try:
            header = _read_header(self.directory)
        except OSError as error:
            raise InstallError(str(directory), f"its manifest cannot be read: {error.strerror}") from error
        about = header.description or "programs of the user's own"
        super().__init__(header.name, about, license=header.license, validatable=header.validatable)
        self.compiler = header.compiler
        self._count = header.programs

    @property
    def site_data_path(self) -> Path:
        """The dataset's folder."""
        return self.directory

    @property
    def size(self) -> int:
        return self._count

    @functools.cached_property
    def programs(self) -> Mapping[str, Program]:
        """The manifest's entry of each program, by path, in order; raises InstallError when the manifest is damaged."""
        try:
            _, programs = read(self.directory)
        except OSError as error:
            raise InstallError(str(self.root), f"its manifest cannot be read: {error.strerror}") from error
        return {program.path: program for program in programs}

    @functools.cached_property
    def names(self) -> Sequence[str]:
        """The targets, then the translation units."""
        return tuple(self.programs)

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of one program; raise BenchmarkNotFound when there is no such program."""
        program = self.programs.get(uri.path)
        if program is None or uri.params or uri.fragment:
            raise self._not_found(uri, self.names)
        tree = program.tree
        return Benchmark(
            uri,
            lambda: self._content(program.module),
            sources=lambda: self._sources(program),
            description=_description(program),
            program=self._how_to_link_and_run(program),
            source_tree=None if tree is None else lambda: self._source_tree(tree, program.language),
        )

    def uninstall(self) -> None:
        """Remove the dataset for good: only packed files and the original project remain."""
        try:
            _remove(self.directory)
            DatasetIndex.of(self).forget()
        except OSError as error:
            raise InstallError(str(self.root), f"cannot be removed: {error}") from error

    def _content(self, digest: str) -> bytes:
        path = self.directory / CONTENT / digest
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BenchmarkInitError(str(self.root), f"{path} cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise BenchmarkInitError(str(self.root), f"{path} is damaged: add the dataset again, or make it again")
        return content

    def _sources(self, program: Program) -> list[BenchmarkSource]:
        files: dict[str, str] = {}
        for one in (program, *(self.programs[member] for member in program.members)):
            files |= one.sources
        return [BenchmarkSource(name, self._content(digest)) for name, digest in files.items()]

    def _source_tree(self, tree: Tree, language: str) -> SourceTree:
        files = {name: self._content(digest) for name, digest in tree.files.items()}
        return SourceTree(tree.units, files, tree.include, tree.flags, language, units_in_c=tree.units_in_c)

    def _how_to_link_and_run(self, program: Program) -> BenchmarkProgram | None:
        if program.link is None:
            return None
        runs, files = {run.name: self._run(run) for run in program.runs}, self._files(program.link.files)
        command = link_command(program.language, program.link.words)
        return BenchmarkProgram(program.language, runs=runs, command=command, files=files, measured=program.measured)

    def _run(self, run: Run) -> ProgramRun:
        return ProgramRun(
            run.arguments,
            None if run.stdout is None else self.directory / CONTENT / run.stdout,
            exit_status=run.exit_status,
            stdin=b"" if run.stdin is None else self._content(run.stdin),
            files=self._files(run.files),
            environment=run.environment,
            output_files=self._files(run.output_files),
            timeout=run.timeout,
            output_varies=run.output_varies,
        )

    def _files(self, digests: Mapping[str, str | None]) -> LazyFiles:
        """Return files by name; the content of unknown outputs is None."""

        def read(name: str) -> bytes:
            digest = digests[name]
            return self._content(digest) if digest is not None else None  # type: ignore[return-value]

        return LazyFiles(digests.keys(), read)


def link_command(language: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that links the machine code of a program on this machine, see `aiocg.datasets.recipe`."""
    return by_driver(language, _link_flags(language), words)


def _link_flags(language: str) -> tuple[str, ...]:
    try:
        return _link_flags_of(find_clang(), language)
    except ToolchainNotFound:  # a program can be optimised without; who links it will hear of it
        return ()


_link_flags_of = functools.lru_cache(maxsize=8)(link_flags)


def _remove(directory: Path) -> None:
    """Remove a folder atomically; raise OSError when that is not possible."""
    with tempfile.TemporaryDirectory(prefix=".old-", dir=directory.parent) as aside:
        os.rename(directory, Path(aside, directory.name))


def _description(program: Program) -> str:
    if program.members:
        count = len(program.members)
        return f"a program of {count} translation unit{'' if count == 1 else 's'}"
    return f"a translation unit in {'C++' if program.language == 'c++' else 'C'}"
