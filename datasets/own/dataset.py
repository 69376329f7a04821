"""A dataset of the user's own programs, read from its folder."""

import functools
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.dataset import ListedDataset
from aiocg.datasets.errors import BenchmarkInitError, InstallError, ToolchainNotFound
from aiocg.datasets.index import DatasetIndex
from aiocg.datasets.own.manifest import CONTENT, Program, Run, Tree, read, read_header
from aiocg.datasets.recipe import BenchmarkProgram, LazyFiles, ProgramRun, by_driver
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.toolchain import find_clang, link_flags
from aiocg.datasets.uri import BenchmarkUri


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
            header = read_header(self.directory)
        except OSError as error:
            raise InstallError(str(directory), f"its manifest cannot be read: {error.strerror}") from error
        super().__init__(
            header.name,
            header.description or "programs of the user's own",
            license=header.license,
            validatable=header.validatable,
        )
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
        return BenchmarkProgram(
            program.language,
            runs={run.name: self._run(run) for run in program.runs},
            command=link_command(program.language, program.link.words),
            files=self._files(program.link.files),
            measured=program.measured,
        )

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
