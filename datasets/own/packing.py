"""Packing one's own dataset into a file, and installing it from there."""

import hashlib
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from aiocg.datasets.archive import unpack
from aiocg.datasets.errors import BenchmarkNotFound, InstallError
from aiocg.datasets.own.dataset import OwnDataset
from aiocg.datasets.own.draft import check_name, put_in_place
from aiocg.datasets.own.installed import directory_of
from aiocg.datasets.own.manifest import CONTENT, MANIFEST, read
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress
from aiocg.datasets.replacing import replacing

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
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.mkdtemp(prefix=".new-", dir=parent)
    except OSError as error:
        raise InstallError(str(archive), f"{error.filename} cannot be written: {error.strerror}") from error
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
        return OwnDataset(put_in_place(folder, name, replace=replace))
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
        raise InstallError(
            str(archive), f"it is no dataset that `aiocg dataset pack` has written: there is no {MANIFEST} in it"
        )
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
