"""Programs that visitors name or send, and values as JSON can say them."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.uri import BenchmarkUri
from aiocg.web.boxed_clang import box_exists, boxed_benchmark
from aiocg.web.limits import Limits, Refusal

__all__ = ["LANGUAGES", "named", "plain", "sent"]

LANGUAGES = ("c", "c++", "ir", "bitcode", "expression")


def named(uri: str) -> str:
    """Return the name of a program that a visitor may have: one of a dataset.

    Raises:
        Refusal: for a file of this machine.
    """
    if uri.startswith(("/", ".", "~")) or BenchmarkUri.from_string(uri).scheme == "file":
        raise Refusal(403, f"{uri!r} is a file of this machine, which visitors may not name: send its text as `source`")
    return uri


def sent(source: str, language: str, limits: Limits) -> Benchmark:
    """Make a benchmark of a program that a visitor sends: a text, or bitcode in base64; an "expression" is of tensors.

    Raises:
        Refusal: when it is too large, of no known language, or C that cannot be compiled here.
    """
    if language not in LANGUAGES:
        raise Refusal(422, f"the language is {language!r}; it must be one of {', '.join(LANGUAGES)}")
    try:
        data = base64.b64decode(source, validate=True) if language == "bitcode" else source.encode()
    except (binascii.Error, ValueError):
        raise Refusal(422, "bitcode must be sent in base64, and this is not: encode the file's bytes") from None
    if len(data) > limits.source_bytes:
        raise Refusal(
            413, f"the program has {len(data)} bytes, and the most is {limits.source_bytes}: send a smaller part of it"
        )
    if not data.strip():
        raise Refusal(422, "the program is empty: send its text")
    if language == "expression":
        from aiocg.loops import make_benchmark

        return make_benchmark(source)
    if language in ("ir", "bitcode"):
        name = f"{hashlib.sha256(data).hexdigest()[:16]}.{'ll' if language == 'ir' else 'bc'}"
        return Benchmark(f"benchmark://user-v0/{name}", lambda: data, sources=lambda: [BenchmarkSource(name, data)])
    if limits.boxed_sources:
        if not box_exists():
            raise Refusal(
                403,
                "C and C++ of visitors is compiled in a box only, and there is no bubblewrap here: compile it yourself "
                "with clang -O1 -Xclang -disable-llvm-passes -S -emit-llvm, and send the IR",
            )
        return boxed_benchmark(data, language, limits.seconds)
    from aiocg.llvm import benchmark_from_source

    return benchmark_from_source(data, language, timeout=limits.seconds)


def plain(value: Any) -> Any:
    """Return an observation as JSON can say it; bytes are base64.

    Raises:
        Refusal: when it is none of the kinds that can be said, such as a graph.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    raise Refusal(422, f"a {type(value).__name__} cannot be sent as JSON: use the Python API for this observation")
