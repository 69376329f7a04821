"""Writing one's own dataset atomically."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from aiocg.datasets.errors import InstallError
from aiocg.datasets.index import DatasetIndex
from aiocg.datasets.own.dataset import OwnDataset
from aiocg.datasets.own.installed import directory_of
from aiocg.datasets.own.manifest import CONTENT, FORMAT, MANIFEST, VERSION, Header, Program, text
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
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_forgotten(target.parent)
            self.directory = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
            (self.directory / CONTENT).mkdir()
        except OSError as error:
            raise InstallError(name, f"{error.filename} cannot be written: {error.strerror}") from error
        self._lock = threading.Lock()
        self._kept: set[str] = set()

    def keep(self, content: bytes) -> str:
        """Store some bytes, in any thread, and return their name; raise InstallError when they cannot be written."""
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            if digest in self._kept:
                return digest
            self._kept.add(digest)
        try:
            self.path(digest).write_bytes(content)
        except OSError as error:
            raise InstallError(self.name, f"{error.filename} cannot be written: {error.strerror}") from error
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
            for path in (self.directory / CONTENT).iterdir():
                if path.name not in needed:
                    path.unlink()
            (self.directory / MANIFEST).write_bytes(text(header, programs))
            os.chmod(self.directory, 0o755)
        except OSError as error:
            raise InstallError(self.name, f"{error.filename} cannot be written: {error.strerror}") from error
        except UnicodeEncodeError as error:
            raise InstallError(self.name, f"{error.object!r} cannot be written as JSON: it is not UTF-8") from None
        return OwnDataset(put_in_place(self.directory, self.name, replace=self.replace))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


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


def put_in_place(directory: Path, name: str, *, replace: bool) -> Path:
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
