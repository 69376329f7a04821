"""Turning a program's bitcode into an executable with nothing but clang and lld, and running it.

The programs of `programs-v0` stand on a small C library of our own (`programs/include`, `programs/runtime`).
It is compiled once for each toolchain and linked in as machine code: it is no part of what is optimised.
"""

import contextlib
import dataclasses
import hashlib
import os
import platform
import resource
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aiocg.datasets.cache import Cache, cache_directory
from aiocg.datasets.errors import BenchmarkInitError, CacheError, CacheWarning, CompilationCancelled
from aiocg.datasets.locking import locked
from aiocg.datasets.process import Cancelled, TimedOut, run_bounded
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import Toolchain, loader_environment

__all__ = ["Execution", "freestanding_flags", "link", "run", "runtime_archive"]

PROGRAMS = Path(__file__).with_name("programs")
COMPILE_TIMEOUT = 120.0  # seconds for one step of clang or lld
MEMORY_LIMIT = 2 << 30  # bytes of address space of a program that runs
OUTPUT_LIMIT = 64 << 20  # bytes that a program may print

LINK_FLAGS = ("-static", "--gc-sections", "--no-dynamic-linker", "-z", "noexecstack", "-e", "_start")

_FORMAT = "1"  # of the cached runtime
_RUNTIME_FLAGS = (
    *(
        "-O2",
        "-ffreestanding",
        "-fno-builtin",
        "-fno-math-errno",
        "-ffp-contract=off",
        "-fno-stack-protector",
    ),
    *("-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fdata-sections"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Execution:
    """How a program's run ended.

    Attributes:
        exit_code: what `main` returned, or minus the number of the signal that ended the program.
        output: what it wrote on standard output.
        errors: what it wrote on standard error.
    """

    exit_code: int
    output: bytes
    errors: bytes


def freestanding_flags(language: str) -> tuple[str, ...]:
    """Return the flags that make clang use our headers, and only them, for "c" or "c++".

    Floating-point contraction is off: LLVM folds a fused multiply-add of constants exactly and expands others
    into two roundings, so with it a program's output could depend on the order of passes.
    """
    include = PROGRAMS / "include"
    common = ("-nostdlibinc", "-ffp-contract=off", "-fno-stack-protector")
    if language == "c++":
        cplusplus = ("-nostdinc++", "-fno-exceptions", "-fno-rtti", "-isystem", str(include / "c++"))
        return (*common, *cplusplus, "-isystem", str(include))
    return (*common, "-isystem", str(include))


def link(bitcode: bytes, output: Path, toolchain: Toolchain, *, optimization: str = "-O2") -> None:
    """Generate machine code for a program, without optimising its IR, and link it with the runtime.

    No file of the host is used: no C library, start files, headers or linker but the toolchain's and ours.

    Args:
        bitcode: the program's module.
        output: the static executable that is written.
        toolchain: the clang and lld to use.
        optimization: the level of code generation, "-O0" to "-O3".

    Raises:
        BenchmarkInitError: when clang or lld does not accept it; it has their messages.
        ToolchainNotFound: when there is no lld.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    linker = toolchain.linker_command()
    with scratch_folder() as scratch:
        module, program, runtime = (Path(scratch, name) for name in ("program.bc", "program.o", "runtime.a"))
        module.write_bytes(bitcode)
        runtime.write_bytes(runtime_archive(toolchain))
        codegen = (
            optimization,
            "-Xclang",
            "-disable-llvm-passes",
            "-ffp-contract=off",
            "-Wno-override-module",
        )
        _compile(toolchain, "ir", module, program, codegen)
        builtins = [str(path) for path in _compiler_runtime(toolchain)]
        inputs = (str(program), str(runtime), *builtins)
        _step([*linker, *LINK_FLAGS, "-o", os.path.abspath(output), *inputs], scratch)


def run(executable: Path, arguments: Sequence[str] = (), *, timeout: float = 60.0) -> Execution:
    """Run a program in an empty directory with an empty environment and bounded memory, output and time.

    Args:
        executable: what `link` wrote.
        arguments: for the program.
        timeout: seconds.

    Raises:
        TimedOut: when it took longer; it has been killed.
        OSError: when it cannot be started.
    """
    with (
        scratch_folder() as directory,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        process = subprocess.Popen(
            [os.path.abspath(executable), *arguments],
            cwd=directory,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _limit(process.pid, timeout)
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{executable} ran longer than {timeout:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        errors.seek(0)
        return Execution(process.returncode, output.read(), errors.read())


def _limit(pid: int, timeout: float) -> None:
    seconds = int(timeout) + 1
    limits = {
        resource.RLIMIT_AS: MEMORY_LIMIT,
        resource.RLIMIT_FSIZE: OUTPUT_LIMIT,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_CORE: 0,
    }
    if hasattr(resource, "prlimit"):
        for limit, value in limits.items():
            with contextlib.suppress(OSError, ValueError):  # it has ended, or a lower limit is in force
                resource.prlimit(pid, limit, (value, value))


def runtime_archive(toolchain: Toolchain) -> bytes:
    """Compile the C library of `programs-v0`, or fetch it from the user's cache.

    Returns:
        An ar archive of objects, for lld.

    Raises:
        BenchmarkInitError: when clang does not compile it.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    sources = {path: path.read_bytes() for path in sorted((PROGRAMS / "runtime").iterdir())}
    headers = {path: path.read_bytes() for path in sorted((PROGRAMS / "include").rglob("*")) if path.is_file()}
    digest = hashlib.sha256()
    texts = {str(path.relative_to(PROGRAMS)): text for path, text in (*sources.items(), *headers.items())}
    for field in (_FORMAT, toolchain.identity, platform.machine(), *_RUNTIME_FLAGS, *texts):
        digest.update(field.encode() + b"\0")
    for text in texts.values():
        digest.update(len(text).to_bytes(8, "little") + text)
    cache, key = Cache(cache_directory() / "runtime"), digest.hexdigest()
    archive = cache.read(key)
    if archive is not None:
        return archive
    with _one_at_a_time(cache.directory / f"{key}.lock"):
        archive = cache.read(key)
        if archive is None:
            archive = _compile_runtime(toolchain, [path for path in sources if path.suffix in (".c", ".cc")])
            try:
                cache.write(key, archive)
            except CacheError as error:
                message = f"the runtime of programs-v0 was compiled but not kept: {error}"
                warnings.warn(message, CacheWarning, stacklevel=3)
    return archive


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Let others wait for what is compiled here; where no file can be locked, each compiles for itself."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(lock, "Waiting for the runtime of programs-v0 to be compiled"))
        except OSError:
            pass
        except Cancelled:
            raise CompilationCancelled("program", "its linking was cancelled") from None
        yield


def _compile_runtime(toolchain: Toolchain, sources: Sequence[Path]) -> bytes:
    objects: dict[str, bytes] = {}
    with scratch_folder() as scratch:
        for source in sources:
            language = "c++" if source.suffix == ".cc" else "c"
            target = Path(scratch, source.stem + ".o")
            _compile(toolchain, language, source, target, (*freestanding_flags(language), *_RUNTIME_FLAGS))
            objects[target.name] = target.read_bytes()
    return _archive(objects)


def _archive(members: Mapping[str, bytes]) -> bytes:
    """Pack objects into an ar archive, from which lld takes only what is used. It needs no symbol table."""
    parts = [b"!<arch>\n"]
    for name, data in members.items():
        header = f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(data):<10}`\n"
        parts += [header.encode(), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def _compiler_runtime(toolchain: Toolchain) -> list[Path]:
    """Find clang's own library of arithmetic that processors lack; our runtime has what is common of it."""
    root = toolchain.clang.resolve().parent.parent / "lib" / "clang"
    machine = platform.machine()
    patterns = (
        f"lib/{machine}-*linux-gnu/libclang_rt.builtins.a",
        f"lib/linux/libclang_rt.builtins-{machine}.a",
    )
    found = [path for pattern in patterns for path in sorted((root / str(toolchain.major)).glob(pattern))]
    return found[:1]


def _compile(toolchain: Toolchain, language: str, source: Path, target: Path, flags: Sequence[str]) -> None:
    files = ("-c", "-o", str(target), "-x", language, str(source))
    command = [
        *toolchain.command("c++" if language == "c++" else "c"),
        *flags,
        "-fno-crash-diagnostics",
        *files,
    ]
    _step(command, str(target.parent))


def _step(command: Sequence[str], directory: str) -> None:
    tool = Path(command[0]).name
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    environment = {**kept, **loader_environment(), "LC_ALL": "C"}
    try:
        status, messages = run_bounded(command, cwd=directory, env=environment, timeout=COMPILE_TIMEOUT)
    except TimedOut:
        reason = f"{tool} took longer than {COMPILE_TIMEOUT:g} s and was stopped"
        raise BenchmarkInitError("program", reason) from None
    except Cancelled:
        raise CompilationCancelled("program", "its linking was cancelled") from None
    if status != 0:
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        raise BenchmarkInitError("program", f"cannot be linked: {tool} {ended}", messages.strip())
