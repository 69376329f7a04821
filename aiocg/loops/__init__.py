"""Specific to the environments of loop nests: your own tensor expressions."""

import hashlib
import os
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound
from aiocg.datasets.loop_nests.dataset import expression_benchmark
from aiocg.datasets.uri import USER, BenchmarkUri

__all__ = ["make_benchmark"]


def make_benchmark(expression: str | os.PathLike[str], *, name: str = "expression") -> Benchmark:
    """Make a benchmark of a tensor expression, such as `C[i:64, j:64] = sum(k:64) A[i, k] * B[k, j]`.

    The worker parses it, so that mistakes are reported when an episode begins.

    Args:
        expression: one or several lines of the language, or the path of a file (`pathlib.Path`) that has them.
        name: what it is called in its URI, by default `expression` or what the file is called.

    Raises:
        BenchmarkNotFound: when there is no such file.
        BenchmarkInitError: when the file cannot be read as UTF-8, or there is no text.
        TypeError: for anything else.
    """
    if isinstance(expression, os.PathLike):
        path = Path(expression)
        return make_benchmark(_read(path), name=path.stem if name == "expression" else name)
    if not isinstance(expression, str):
        raise TypeError(f"a tensor expression is a text or the path of a file, not {expression!r}")
    digest = hashlib.sha256(expression.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    uri = BenchmarkUri("benchmark", USER, name, (("sha256", digest),))
    try:
        expression.encode()
    except UnicodeEncodeError:
        raise BenchmarkInitError(str(uri), "the text has characters that UTF-8 does not have") from None
    if not expression.strip():
        raise BenchmarkInitError(str(uri), "it is empty; expected a text such as C[i:64] = A[i] + B[i]")
    lines = expression.strip().count("\n") + 1
    return expression_benchmark(uri, expression, f"a tensor expression of one's own, of {lines} lines")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BenchmarkNotFound(str(path), f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkInitError(str(path), f"it cannot be read: {error}") from error
