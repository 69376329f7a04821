"""Collecting the source files of a program: its units, and the headers that they may include."""

import dataclasses
import os.path
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.source_tree import Inclusion, SourceTree, defined_inclusions, given_inclusions, inclusions

_FOLDERS = ("-iquote", "-I", "-isystem", "-idirafter")  # in the order in which compilers look
_INCLUDED = ("-include", "-imacros")
_WITH_VALUE = ("-x", "-target", "-Xclang", "-mllvm", "-Xpreprocessor", "-o", "-MF", "-MT", "-MQ", "-arch")
_PLACES = ("--sysroot", "-isysroot", "-B", "@")
_LINKING = ("-l", "-L", "-Wl,")
_LINKING_WORDS = ("-static", "-pthread", "-s", "-rdynamic", "-fopenmp")

# Levels, output formats, warnings and clang's own options do not define the program.
_DROPPED = re.compile(
    r"-O.*|-g(?!nu).*|-W.*|-w|-c|-S|-E|-M\w*|-l.*|-L.*|-s|-static|-rdynamic|-emit-llvm|--target=.*|-stdlib=.*"
    r"|-nostdlibinc|-ferror-limit=.*|-f(?:no-)?(?:color|crash|caret)-diagnostics|-Qunused-arguments|--driver-mode=.*"
    r"|-fmax-type-align=.*|--no-default-config"
)

PLACEHOLDER = ".folder"
"""Name of an empty file in a folder that must be there though it has no other."""


def gather(
    units: Sequence[str],
    read: Callable[[str], bytes | None],
    *,
    include: Sequence[str] = (),
    flags: Sequence[str] = (),
    language: str = "c",
    freestanding: bool = False,
    included: Sequence[tuple[str, str]] = (),
) -> SourceTree:
    """Collect the files of a program.

    Headers are found as compilers find them: for quotes beside the including file, then in the folders. Missing ones
    are left to the compiler, which has its own and those of libraries.

    Args:
        units: the paths of the translation units, absolute or not, with forward slashes.
        read: returns the content of a file by such a path, which may contain `..`, or None if missing.
        include: header folders.
        flags: as in a `SourceTree`.
        language: "c" or "c++".
        freestanding: as in a `SourceTree`.
        included: files that are included before each unit: `-include` or `-imacros`, and the path of the file, or the
            name that is looked for as in an `#include`.

    Raises:
        BenchmarkInitError: when there is no such unit, or a name is not text.
        DatasetError: from `read`.
    """
    search = _Search(read, include, flags)
    for unit in units:
        if not search.take(unit):
            raise BenchmarkInitError(unit, "there is no such file")
    for _, path in included:
        if not search.take(path):
            search.ask(Inclusion(path, '"'), units[0])
    search.finish()
    return search.tree(units, flags, language, freestanding, included)


def gather_texts(units: Sequence[str], texts: Mapping[str, bytes], flags: Iterable[str], language: str) -> SourceTree:
    """Collect the files of a program in memory.

    Args:
        units: the translation units, among the texts.
        texts: all files by relative path, to which folders in the flags are relative.
        flags: for a compiler, filtered as by `gather_files`.
        language: "c" or "c++".

    Raises:
        BenchmarkInitError: for a flag that names a place on this machine.
    """
    return _gathered(units, lambda path: texts.get(posixpath.normpath(path)), flags, language, str)


def gather_text(text: bytes, filename: str, flags: Iterable[str], language: str) -> SourceTree:
    """Collect the files of a program with one unit in memory and headers on this machine.

    Args:
        text: the unit.
        filename: its bare name.
        flags: as for `gather_files`.
        language: "c" or "c++".

    Raises:
        BenchmarkInitError: as `gather_files` does.
    """
    unit = f"/{filename}.d/{filename}"  # where there is nothing else
    tree = _gathered([unit], lambda path: text if path == unit else _read_from_disk(path), flags, language)
    return dataclasses.replace(tree, origin="")


def gather_files(paths: Sequence[str | os.PathLike[str]], flags: Iterable[str], language: str) -> SourceTree:
    """Collect the files of a program on this machine.

    Args:
        paths: the translation units.
        flags: for a compiler, as `aiocg.datasets.frontend.absolute_flags` makes them. Kept is what says what the
            program is: macros, the standard, `-f` and `-m`. The folders of `-iquote`, `-isystem` and `-idirafter` are
            looked in as those of `-I` are, in the compiler's order.
        language: "c" or "c++".

    Raises:
        BenchmarkInitError: when a file is not there or cannot be read, or a name is not text.
    """
    return _gathered([_without_links(path) for path in paths], _read_from_disk, flags, language)


def _gathered(
    units: Sequence[str],
    read: Callable[[str], bytes | None],
    flags: Iterable[str],
    language: str,
    place: Callable[[str], str] = os.path.realpath,
) -> SourceTree:
    """Collect the files of a program that a compiler's flags belong to, whose header folders lie at some place."""
    include, kept, included, _ = sort_flags(flags)
    folders = [place(folder) for folder in include]
    return gather(units, read, include=folders, flags=kept, language=language, included=included)


class _Flags(NamedTuple):
    """The flags of a command line, sorted by purpose.

    Attributes:
        include: folders to look for headers in, in the compiler's order.
        kept: those that define the program.
        included: `-include` or `-imacros`, and the file.
        linking: those for the linker.
    """

    include: tuple[str, ...]
    kept: tuple[str, ...]
    included: tuple[tuple[str, str], ...]
    linking: tuple[str, ...]


def sort_flags(flags: Iterable[str]) -> _Flags:
    """Sort the flags of a command line, dropping levels, outputs and warnings.

    Raises:
        BenchmarkInitError: for one that names a place on this machine and cannot be understood elsewhere.
    """
    folders: dict[str, list[str]] = {flag: [] for flag in _FOLDERS}
    kept: list[str] = []
    included: list[tuple[str, str]] = []
    linking: list[str] = []
    words = iter(flags)
    for word in words:
        flag = next((flag for flag in (*_FOLDERS, *_INCLUDED) if word.startswith(flag)), "")
        if flag:
            value = word.removeprefix(flag) or next(words, "")
            if flag in folders:
                folders[flag].append(value)
            else:
                included.append((flag, value))
        elif word in ("-D", "-U"):
            kept.append(word + next(words, ""))
        elif word in _WITH_VALUE:
            next(words, None)
        elif word.startswith(_PLACES):
            raise BenchmarkInitError(word, "a compiler elsewhere cannot follow this flag to a place here")
        else:
            if word.startswith(_LINKING) or word in _LINKING_WORDS:
                linking.append(word)
            if not _DROPPED.fullmatch(word):
                kept.append(word)
    include = tuple(folder for flag in _FOLDERS for folder in folders[flag])
    return _Flags(include, tuple(kept), tuple(included), tuple(linking))


def _without_links(path: str | os.PathLike[str]) -> str:
    """Resolve links in the folders of a path, so that `..` means the same as for compilers."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _read_from_disk(path: str) -> bytes | None:
    """Read a file of this machine, for `gather`; raise BenchmarkInitError when it is there but cannot be read."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BenchmarkInitError(path, f"cannot be read: {error.strerror}") from error


class _Search:
    """The files found so far, and inclusions by macros that may be defined in files not found yet."""

    def __init__(self, read: Callable[[str], bytes | None], include: Sequence[str], flags: Iterable[str]) -> None:
        self._read = read
        self._include = [_normal(folder) for folder in include]
        self.files: dict[str, bytes] = {}
        self._folders: set[str] = set()  # that must be there
        self._pending: list[tuple[Inclusion, str]] = []
        self._asking: defaultdict[str, set[str]] = defaultdict(set)
        self._meaning: defaultdict[str, set[Inclusion]] = defaultdict(set)
        for name, meaning in given_inclusions(flags):
            self._meaning[name].add(meaning)

    def take(self, path: str) -> bool:
        """Add a file and its inclusions, if not yet done; return False when it does not exist."""
        name = _normal(path)
        if name in self.files:
            return True
        if name.startswith("../") or (content := self._read(path)) is None:
            return False
        self.files[name] = content
        for inclusion in inclusions(content):
            self.ask(inclusion, name)
        for macro, meaning in defined_inclusions(content):
            if meaning not in self._meaning[macro]:
                self._meaning[macro].add(meaning)
                self._pending += ((meaning, asker) for asker in self._asking[macro])
        return True

    def ask(self, inclusion: Inclusion, asker: str) -> None:
        """Record an inclusion."""
        if inclusion.form != "macro":
            self._pending.append((inclusion, asker))
        elif asker not in self._asking[inclusion.name]:
            self._asking[inclusion.name].add(asker)
            self._pending += ((meaning, asker) for meaning in self._meaning[inclusion.name])

    def finish(self) -> None:
        """Resolve inclusions until there are no new ones."""
        while self._pending:
            inclusion, asker = self._pending.pop()
            if inclusion.name.startswith("/"):
                continue  # it is not for a tree that lies elsewhere
            beside = [posixpath.dirname(asker)] if inclusion.form == '"' else []
            for folder in (*beside, *self._include):
                path = posixpath.join(folder, inclusion.name)
                if self.take(path):
                    self._folders.update(_passed(folder, inclusion.name))
                    if not inclusion.next:  # which is any but the first, as far as one can see from here
                        break

    def tree(
        self,
        units: Sequence[str],
        flags: Sequence[str],
        language: str,
        freestanding: bool,
        included: Sequence[tuple[str, str]],
    ) -> SourceTree:
        """Return the files found, with names relative to their common folder."""
        used = [folder for folder in self._include if folder in self._folders]
        occupied = {posixpath.dirname(name) for name in self.files}
        folders = occupied | self._folders
        root = posixpath.commonpath(folders) if "" not in folders else ""
        files = dict(self.files)
        for folder in self._folders:
            if not any(_is_below(other, folder) for other in occupied):
                files[posixpath.join(folder, PLACEHOLDER)] = b""
        return SourceTree(
            tuple(_relative(_normal(unit), root) for unit in units),
            {_relative(name, root): files[name] for name in sorted(files)},
            tuple(_relative(folder, root) for folder in dict.fromkeys(used)),
            (*flags, *(word for flag, path in included for word in (flag, self._name_of(path, root)))),
            language,
            freestanding,
            origin=root if posixpath.isabs(root) else "",
        )

    def _name_of(self, path: str, root: str) -> str:
        """Return the name in the tree of a file named by flags; names to be searched for are kept."""
        name = _normal(path)
        return _relative(name, root) if name in self.files else path


def _normal(path: str) -> str:
    """Normalise a path, "" for the root of relative paths."""
    normal = posixpath.normpath(path)
    return "" if normal == "." else normal


def _passed(folder: str, name: str) -> Iterator[str]:
    """Yield the folders that a path passes through, which must all exist: `a` for `a/../b.h`."""
    yield folder
    for part in name.split("/")[:-1]:
        folder = posixpath.join(folder, part)
        yield _normal(folder)


def _is_below(folder: str, other: str) -> bool:
    """Return whether a folder is another one or inside it."""
    return folder == other or not other or folder.startswith(other.rstrip("/") + "/")


def _relative(path: str, root: str) -> str:
    name = posixpath.relpath(path, root) if root else path or "."
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BenchmarkInitError(repr(path), "the name of a source must be UTF-8") from None
    return name
