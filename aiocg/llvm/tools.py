"""LLVM in a process of its own, for single operations on programs; and the LLVM programs of this machine."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from aiocg.datasets.errors import BenchmarkInitError, CompilationCancelled, ToolchainNotFound
from aiocg.datasets.process import Cancelled, TimedOut, run_bounded
from aiocg.datasets.toolchain import find_toolchain, loader_environment
from aiocg.errors import DeadlineExceeded, EnvironmentNotSupported, WorkerCrashed, failure
from aiocg.transport.messages import FailureCode

__all__ = ["TIMEOUT", "clang_path", "lld_path", "program_path", "run_tool"]

TIMEOUT = 300.0  # seconds for one operation


def run_tool(command: str, arguments: Iterable[str | Path], *, subject: str, timeout: float) -> None:
    """Run one operation of `aiocg.workers.llvm.tool`; its results are in the files that the arguments name.

    Args:
        command: such as "link".
        arguments: what follows it.
        subject: what it is done to, for messages.
        timeout: seconds.

    Raises:
        BenchmarkInitError: when LLVM does not accept a program.
        WorkerCrashed: when LLVM died over it; DeadlineExceeded when it took longer.
        EnvironmentNotSupported: when there is no LLVM.
        WorkerFailure: for what else LLVM cannot do.
        CompilationCancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    line = [sys.executable, "-P", "-m", "aiocg.workers.llvm.tool", command, *map(str, arguments)]
    doing = f"{command} of {subject}"
    environment = {**os.environ, **loader_environment()}
    try:
        status, messages = run_bounded(line, cwd=os.getcwd(), env=environment, timeout=timeout)
    except TimedOut:
        raise DeadlineExceeded(timeout, doing) from None
    except Cancelled:
        raise CompilationCancelled(subject, f"{command} was cancelled") from None
    if status == 0:
        return
    try:
        told = json.loads(messages.strip().rpartition("\n")[2])
        code, message = told["code"], told["message"]
    except (ValueError, TypeError, KeyError):
        cause = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        raise WorkerCrashed(cause, doing, messages.strip()[-2000:]) from None
    if code == FailureCode.BENCHMARK:
        raise BenchmarkInitError(subject, message)
    if code == FailureCode.COMPILER:
        raise EnvironmentNotSupported(message)
    raise failure(code, message)


def clang_path() -> Path:
    """Return the clang that compiles programs.

    Raises:
        ToolchainNotFound: when there is none.
    """
    return find_toolchain().clang


def lld_path() -> Path:
    """Return the linker that belongs to clang; run as it is, it may need `-flavor gnu` first.

    Raises:
        ToolchainNotFound: when there is none.
    """
    return Path(find_toolchain().linker_command()[0])


def program_path(name: str) -> Path:
    """Return a program of LLVM, such as "opt", "llc", "lli", "llvm-dis" or "llvm-diff".

    The bundled LLVM has clang and lld; others are looked for beside clang, in the system's LLVM of the same release,
    and on PATH under that release's number. One of another release would read other bitcode, and is not taken.

    Raises:
        ToolchainNotFound: when it is not there; what can be done without it is said.
    """
    toolchain = find_toolchain()
    release = toolchain.major
    folders = (toolchain.clang.parent, toolchain.clang.resolve().parent, Path(f"/usr/lib/llvm-{release}/bin"))
    for candidate in (*(str(folder / name) for folder in folders), f"{name}-{release}"):
        if found := shutil.which(candidate):
            return Path(found)
    instead = _INSTEAD.get(name, "")
    raise ToolchainNotFound(
        f"there is no {name} of LLVM {release}, which the bundled LLVM does not contain either",
        f"{instead}install LLVM {release} (Debian and Ubuntu: llvm-{release})",
    )


_INSTEAD = {
    "llvm-link": "use aiocg.llvm.merge_benchmarks, or ",
    "llvm-extract": "use aiocg.llvm.split_benchmark_by_function, or ",
    "llvm-as": "environments take textual IR as it is; or ",
    "llvm-dis": 'use aiocg.llvm.compute_observation("Ir", …), or ',
    "opt": "use an environment, or ",
    "llc": "clang -c generates code for bitcode; or ",
}
