"""Running external program generators, with limits and a cache."""

import functools
import hashlib
import os
import re
import tempfile
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path

from aiocg.datasets.cache import Cache, cache_directory
from aiocg.datasets.errors import BenchmarkInitError, CacheError, CacheWarning, ToolchainNotFound
from aiocg.datasets.process import run_bounded, told_of
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import run_for_version

_FORMAT = "1"  # of the cache's keys


def said_version(executable: Path, remedy: str) -> str:
    """Return a program's output for `--version`, cached while the program is unchanged.

    Args:
        remedy: what to do when it does not run.

    Raises:
        ToolchainNotFound: when it cannot be run.
    """
    try:
        status = executable.stat()
    except OSError as error:
        raise ToolchainNotFound(f"{executable} cannot be run: {error}", remedy) from error
    return _said_version(executable, remedy, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _said_version(executable: Path, remedy: str, modified: int, size: int) -> str:
    process = run_for_version(executable, remedy)
    if process.returncode:
        answer = process.stderr.strip() or f"exit status {process.returncode}"
        raise ToolchainNotFound(f"{executable} does not work: {answer[:300]}", remedy)
    return process.stdout


def generate(uri: str, identity: str, commands: Sequence[Sequence[str]], result: str, timeout: float) -> bytes:
    """Run commands in sequence in an empty folder and return a file that they write, or its cached content.

    The output depends only on the generator and its arguments, so failures are not retried.

    Args:
        identity: the generator and its release, since releases make different programs.
        timeout: seconds for each command.

    Raises:
        BenchmarkInitError: when a command fails, takes too long, or leaves no file or an empty one.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    cache, key = Cache(cache_directory() / "generated"), _key(identity, commands, result)
    kept = cache.read(key)
    if kept is not None:
        return zlib.decompress(kept)
    try:
        with scratch_folder() as folder:
            for command in commands:
                _run(uri, identity, command, folder, timeout)
            path = Path(folder, result)
            content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise BenchmarkInitError(uri, f"cannot be generated in {tempfile.gettempdir()}: {error}") from error
    if not content:
        writer = f"{os.path.basename(commands[-1][0])} ({identity})"
        raise BenchmarkInitError(uri, f"{writer} has written nothing to {result}, and says that all is well")
    try:
        cache.write(key, zlib.compress(content, 1))  # to a fourth of its size
    except CacheError as error:
        warnings.warn(f"{uri} was generated but not kept: {error}", CacheWarning, stacklevel=3)
    return content


def _key(identity: str, commands: Sequence[Sequence[str]], result: str) -> str:
    words = [[os.path.basename(command[0]), *command[1:]] for command in commands]
    return hashlib.sha256(repr((_FORMAT, identity, words, result)).encode()).hexdigest()


def _run(uri: str, identity: str, command: Sequence[str], folder: str, timeout: float) -> None:
    name = os.path.basename(command[0])
    late = f"{name} took longer than {timeout:g} s and was stopped, as it would be again; take another seed, or"
    late += " parameters that make smaller programs"
    with told_of(uri, command[0], late=late, cancelled="its generation was cancelled"):
        status, messages = run_bounded(command, cwd=folder, env={**os.environ, "LC_ALL": "C"}, timeout=timeout)
    if status:
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        words = re.sub(r"\n{2,}", "\n", messages.strip())
        raise BenchmarkInitError(uri, f"{name} {ended} ({identity}); take another seed or other parameters", words)
