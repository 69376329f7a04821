"""The flag `--benchmark`, and the program that it names."""

from pathlib import Path

from aiocg.compat.command_flags import FLAGS, define
from aiocg.compat.compiler_gym.datasets import Benchmark

__all__ = ["benchmark_from_flags"]

define(
    "string",
    "benchmark",
    None,
    "The program: a URI with the scheme benchmark://, which can be left out, or file:/// and the path of a file.",
)


def benchmark_from_flags() -> Benchmark | str | None:
    """Return what `--benchmark` says: the URI, or a benchmark if it is a file; None if it is not given.

    Raises:
        FileNotFoundError: when there is no such file.
    """
    given = FLAGS.benchmark
    if not given or not given.startswith("file:///"):
        return given or None
    path = Path(given.removeprefix("file:///"))
    if not path.is_file():
        path = Path("/", path)
    return Benchmark.from_file(uri=f"benchmark://user-v0/{path}", path=path)
