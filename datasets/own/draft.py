"""Writing one's own dataset atomically."""

import contextlib
import hashlib
import os
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from aiocg.datasets.archive import unpack
from aiocg.datasets.errors import BenchmarkNotFound, InstallError
from aiocg.datasets.index import DatasetIndex
from aiocg.datasets.locking import replacing
from aiocg.datasets.own.dataset import CONTENT, FORMAT, MANIFEST, VERSION, Header, OwnDataset, Program, read, text
from aiocg.datasets.own.installed import directory_of
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress
from aiocg.datasets.registry import default_datasets
from aiocg.datasets.uri import DEFAULT_SCHEME, USER, BenchmarkUri

FORGOTTEN = 7 * 24 * 3600  # seconds after which nobody can be writing a draft any more
LONGEST = 100  # letters of a name, which is that of a folder
RESERVED = (USER, "clang-v0")
"""Names that stand for the dataset in the names of benchmarks that belong to none."""


class Draft:
    """A dataset being written, in a hidden folder.

        with Draft("my-set") as draft:
            module = draft.keep(bitcode)
            dataset = draft.finish([Program(path="a.c", module=module, language="c")])

    Leaving the context removes unfinished drafts.

    Raises:
        InvalidBenchmarkUri: when the name is malformed.
        InstallError: when it is taken, or there is no place for the dataset.
    """

    def __init__(self, name: str, *, replace: bool = False) -> None:
        check_name(name, replace=replace)
        self.name = name
        self.replace = replace
        target = directory_of(name)
        with _writing(name):
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_forgotten(target.parent)
            self.directory = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
            (self.directory / CONTENT).mkdir()
        self._lock = threading.Lock()
        self._kept: set[str] = set()

    def keep(self, content: bytes) -> str:
        """Store some bytes, in any thread, and return their name; raise InstallError when they cannot be written."""
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            if digest in self._kept:
                return digest
            self._kept.add(digest)
        with _writing(self.name):
            self.path(digest).write_bytes(content)
        return digest

    def path(self, digest: str) -> Path:
        """Return the path of stored bytes."""
        return self.directory / CONTENT / digest

    def finish(
        self, programs: Sequence[Program], *, description: str = "", license: str = "", compiler: str = ""
    ) -> OwnDataset:
        """Write the manifest, and install the dataset; raise InstallError when it cannot be written."""
        header = Header(
            format=FORMAT,
            version=VERSION,
            name=self.name,
            programs=len(programs),
            description=description,
            license=license,
            compiler=compiler,
            validatable=any(program.runs for program in programs),
        )
        needed = {digest for program in programs for digest in program.digests()}
        try:
            with _writing(self.name):
                for path in (self.directory / CONTENT).iterdir():
                    if path.name not in needed:
                        path.unlink()
                (self.directory / MANIFEST).write_bytes(text(header, programs))
                os.chmod(self.directory, 0o755)
        except UnicodeEncodeError as error:
            raise InstallError(self.name, f"{error.object!r} cannot be written as JSON: it is not UTF-8") from None
        return OwnDataset(_put_in_place(self.directory, self.name, replace=self.replace))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def _writing(name: str) -> Iterator[None]:
    """Turn what keeps us from writing a dataset into its error."""
    try:
        yield
    except OSError as error:
        raise InstallError(name, f"{error.filename} cannot be written: {error.strerror}") from error


def check_name(name: str, *, replace: bool = False) -> None:
    """Check the name of a new dataset: it must be well-formed and free.

    Raises:
        InvalidBenchmarkUri: when it cannot be the name of a dataset.
        InstallError: when it is taken.
    """
    BenchmarkUri(DEFAULT_SCHEME, name)
    if len(name) > LONGEST:
        raise InstallError(name, f"its name has {len(name)} letters, and may have {LONGEST}")
    own = directory_of(name)
    if (own / MANIFEST).exists():
        if not replace:
            raise InstallError(name, f"there is one already, in {own}; choose another name, or replace it (--replace)")
    elif name in RESERVED or name in default_datasets() or own.exists():
        raise InstallError(name, "a dataset that is not of your own has this name; choose another one")


def _remove_forgotten(folder: Path) -> None:
    """Remove drafts of killed processes."""
    for path in (*folder.glob(".new-*"), *folder.glob(".old-*")):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - FORGOTTEN:
                shutil.rmtree(path)


def _put_in_place(directory: Path, name: str, *, replace: bool) -> Path:
    """Move a complete dataset to its place, and return the path.

    Raises:
        InstallError: when the name has been taken meanwhile, or the dataset cannot be moved.
    """
    check_name(name, replace=replace)
    target = directory_of(name)
    try:
        with tempfile.TemporaryDirectory(prefix=".old-", dir=target.parent) as aside:
            if replace and target.exists():
                os.rename(target, Path(aside, name))
            _move(directory, target, Path(aside, name))
            DatasetIndex.named(DEFAULT_SCHEME, name).forget()
    except OSError as error:
        raise InstallError(name, f"cannot be put to {target}: {error.strerror}") from error
    return target


def _move(directory: Path, target: Path, aside: Path) -> None:
    """Move a folder to its place; restore the old one if that fails."""
    try:
        os.rename(directory, target)
    except OSError:
        if aside.exists():
            os.rename(aside, target)
        raise


# -------------------------------------------------- Packing one's own dataset into a file, and installing it from there

SUFFIXES = {".tar.xz": "xz", ".tar.gz": "gz", ".tar.bz2": "bz2"}
"""The files that a dataset can be packed into, by the ends of their names."""

_MACHINE_CODE = (b"\x7fELF", b"!<arch>\n")  # a linker also takes scripts, which name any file of the machine


def pack(dataset: OwnDataset, output: str | os.PathLike[str]) -> Path:
    """Write a dataset into one file, atomically.

    Equal datasets give equal files, except for the time in a `.tar.gz`.

    Args:
        output: the file to write, with one of `SUFFIXES`; what is there is replaced.

    Raises:
        InstallError: when the name has another end, the dataset is damaged, or the file cannot be written.
        Cancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    target = Path(output).expanduser().absolute()
    kind = next((kind for suffix, kind in SUFFIXES.items() if target.name.endswith(suffix)), "")
    if not kind:
        raise InstallError(str(output), f"its name must end in one of {', '.join(SUFFIXES)}")
    names = _verified(dataset.directory)
    size = sum((dataset.directory / name).stat().st_size for name in names)
    try:
        with (
            replacing(target, 0o644) as file,
            tarfile.open(fileobj=file, mode=f"w:{kind}", format=tarfile.PAX_FORMAT) as archive,  # type: ignore[call-overload]
            progress(f"Packing {dataset.name}", size, unit="bytes") as advance,
        ):
            for name in names:
                check_cancelled()
                member = tarfile.TarInfo(f"{dataset.name}/{name}")
                path = dataset.directory / name
                member.size, member.mode = path.stat().st_size, 0o644
                with open(path, "rb") as content:
                    archive.addfile(member, content)
                advance(member.size)
    except OSError as error:
        raise InstallError(str(output), f"it cannot be written: {error.strerror}") from error
    return target


def add(archive: str | os.PathLike[str], *, replace: bool = False) -> OwnDataset:
    """Install a dataset from the file that `pack` has written, and return it.

    The file may be untrusted: nothing is written outside the dataset's folder, and each part is checked against its
    hash. But *running* one of its programs, as validation and timing do, requires trusting its author.

    Raises:
        InstallError: when it is no dataset, is damaged, is one for another version of aiocg, or its name is taken.
        Cancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    path = Path(archive).expanduser()
    if not path.is_file():
        raise InstallError(str(archive), "there is no such file")
    parent = directory_of("")
    with _writing(str(archive)):
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.mkdtemp(prefix=".new-", dir=parent)
    try:
        content = Path(scratch, "content")
        unpack(path, content, description=f"Unpacking {path.name}")
        folder = _only_folder(content, path)
        try:
            names = _verified(folder)
        except InstallError as error:  # the folder means nothing to anybody
            raise InstallError(str(archive), error.reason.replace(f"{folder}{os.sep}", "")) from error
        for found in folder.rglob("*"):
            inside = str(found.relative_to(folder))
            if found.is_symlink() or not (found.is_dir() or inside in names):
                raise InstallError(str(archive), f"it has the file {inside}, which does not belong to a dataset")
        name = OwnDataset(folder).name
        check_name(name, replace=replace)
        return OwnDataset(_put_in_place(folder, name, replace=replace))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def own_dataset(name: str) -> OwnDataset:
    """Return an installed dataset of one's own.

    Raises:
        BenchmarkNotFound: when there is none of that name.
        InstallError: when it is damaged.
    """
    folder = directory_of(name)
    if not (folder / MANIFEST).is_file():
        raise BenchmarkNotFound(name, f"there is no dataset of your own named {name!r} in {folder.parent}")
    return OwnDataset(folder)


def _only_folder(content: Path, archive: Path) -> Path:
    folders = list(content.iterdir())
    if len(folders) != 1 or not (folders[0] / MANIFEST).is_file():
        reason = f"it is no dataset that `aiocg dataset pack` has written: there is no {MANIFEST} in it"
        raise InstallError(str(archive), reason)
    return folders[0]


def _verified(directory: Path) -> list[str]:
    """Check all files of a dataset against their hashes, and return their paths in order.

    Raises:
        InstallError: when one is missing or damaged.
    """
    try:
        _, programs = read(directory)
        digests = sorted({digest for program in programs for digest in program.digests()})
        linked = {digest for program in programs if program.link for digest in program.link.files.values()}
        for digest in digests:
            check_cancelled()
            with open(directory / CONTENT / digest, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    raise InstallError(directory.name, f"it is damaged: {CONTENT}/{digest} has another content")
                file.seek(0)
                if digest in linked and not file.read(8).startswith(_MACHINE_CODE):
                    raise InstallError(directory.name, f"{CONTENT}/{digest} is to be linked and is no object code")
    except OSError as error:
        raise InstallError(directory.name, f"it is damaged: {error.filename}: {error.strerror}") from error
    return [MANIFEST, *(f"{CONTENT}/{digest}" for digest in digests)]
