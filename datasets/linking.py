"""Linking a program's bitcode with nothing but clang and lld.

The programs of `programs-v0` use our own small C library (`programs/include`, `programs/runtime`). The library is
compiled once per toolchain and linked as machine code, so that it is not optimised together with the program.
"""

import contextlib
import hashlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aiocg.datasets.cache import Cache, cache_directory
from aiocg.datasets.errors import BenchmarkInitError, CompilationCancelled
from aiocg.datasets.locking import locked
from aiocg.datasets.process import Cancelled, run_bounded, told_of
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import Toolchain, loader_environment

PROGRAMS = Path(__file__).with_name("programs")
COMPILE_TIMEOUT = 120.0  # seconds for one step of clang or lld

LINK_FLAGS = ("-static", "--gc-sections", "--no-dynamic-linker", "-z", "noexecstack", "-e", "_start")

_FORMAT = "1"  # of the cached runtime
_RUNTIME_FLAGS = (
    *("-O2", "-ffreestanding", "-fno-builtin", "-fno-math-errno", "-ffp-contract=off", "-fno-stack-protector"),
    *("-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fdata-sections"),
)


def freestanding_flags(language: str) -> tuple[str, ...]:
    """Return the flags that make clang use only our headers, for "c" or "c++".

    Floating-point contraction is off, since it could make the output depend on the order of passes: LLVM folds a fused
    multiply-add of constants with one rounding, but expands others into two operations with a rounding each.
    """
    include = PROGRAMS / "include"
    common = ("-nostdlibinc", "-ffp-contract=off", "-fno-stack-protector")
    if language == "c++":
        cplusplus = ("-nostdinc++", "-fno-exceptions", "-fno-rtti", "-isystem", str(include / "c++"))
        return (*common, *cplusplus, "-isystem", str(include))
    return (*common, "-isystem", str(include))


def link(
    bitcode: bytes, output: Path, toolchain: Toolchain, words: Sequence[str] = (), *, optimization: str = "-O2"
) -> None:
    """Generate machine code for a program, without optimising its IR, and link it with the runtime.

    No C library, start files, headers or linker of the host are used, only the toolchain's and ours.

    Args:
        output: the path of the static executable to write.
        words: more options of clang for generating code.
        optimization: the optimisation level of code generation, "-O0" to "-O3".

    Raises:
        BenchmarkInitError: when clang or lld refuses the program; the error has their messages.
        ToolchainNotFound: when there is no lld.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    linker = toolchain.linker_command()
    with scratch_folder() as scratch:
        module, program, runtime = (Path(scratch, name) for name in ("program.bc", "program.o", "runtime.a"))
        module.write_bytes(bitcode)
        runtime.write_bytes(runtime_archive(toolchain))
        codegen = (optimization, "-Xclang", "-disable-llvm-passes", "-ffp-contract=off", "-Wno-override-module")
        _compile(toolchain, "ir", module, program, (*codegen, *words))
        builtins = [str(path) for path in _compiler_runtime(toolchain)]
        inputs = (str(program), str(runtime), *builtins)
        _step([*linker, *LINK_FLAGS, "-o", os.path.abspath(output), *inputs], scratch)


def runtime_archive(toolchain: Toolchain) -> bytes:
    """Compile the C library of `programs-v0`, or read it from the user's cache.

    Returns:
        An ar archive of objects, for lld.

    Raises:
        BenchmarkInitError: when clang cannot compile it.
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
            cache.keep(key, archive, "the runtime of programs-v0 was compiled")
    return archive


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Make other processes wait for this compilation; without file locks, each compiles by itself."""
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
    return pack_archive(objects)


def pack_archive(members: Mapping[str, bytes]) -> bytes:
    """Pack objects into an ar archive, so that lld links only those that are used. It needs no symbol table."""
    parts = [b"!<arch>\n"]
    for name, data in members.items():
        header = f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(data):<10}`\n"
        parts += [header.encode(), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def _compiler_runtime(toolchain: Toolchain) -> list[Path]:
    """Find the compiler-rt builtins, for those that our runtime does not have."""
    root = toolchain.clang.resolve().parent.parent / "lib" / "clang"
    machine = platform.machine()
    patterns = (f"lib/{machine}-*linux-gnu/libclang_rt.builtins.a", f"lib/linux/libclang_rt.builtins-{machine}.a")
    found = [path for pattern in patterns for path in sorted((root / str(toolchain.major)).glob(pattern))]
    return found[:1]


def _compile(toolchain: Toolchain, language: str, source: Path, target: Path, flags: Sequence[str]) -> None:
    files = ("-c", "-o", str(target), "-x", language, str(source))
    command = [*toolchain.command("c++" if language == "c++" else "c"), *flags, "-fno-crash-diagnostics", *files]
    _step(command, str(target.parent))


def _step(command: Sequence[str], directory: str) -> None:
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    run_linker(command, directory, {**kept, **loader_environment(), "LC_ALL": "C"}, "program", COMPILE_TIMEOUT)


def run_linker(
    command: Sequence[str], directory: str, environment: Mapping[str, str], name: str, timeout: float
) -> None:
    """Run one of the commands that link a program.

    Raises:
        BenchmarkInitError: when the command fails; the error has its messages.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    tool = Path(command[0]).name
    late = f"{tool} took longer than {timeout:g} s and was stopped"
    with told_of(name, tool, late=late, cancelled="its linking was cancelled"):
        status, messages = run_bounded(command, cwd=directory, env=environment, timeout=timeout)
    if status:
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        raise BenchmarkInitError(name, f"cannot be linked: {tool} {ended}", messages.strip())
