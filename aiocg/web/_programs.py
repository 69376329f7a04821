"""Programs that visitors name or send, and values as JSON can say them."""

import base64
import binascii
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import DEFAULT_FLAGS, LENIENT, is_bitcode
from aiocg.datasets.process import TimedOut, run_bounded
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import compile_flags, find_toolchain, loader_environment
from aiocg.datasets.uri import USER, BenchmarkUri
from aiocg.web.limits import Limits, Refusal

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
INSIDE = "/visitor"
BLOCKS = 1 << 17  # of 512 bytes that clang may write to a file
SUFFIXES = {"c": ".c", "c++": ".cc"}


def box_exists() -> bool:
    """Return whether there is bubblewrap, which makes boxes."""
    return shutil.which("bwrap") is not None


def _boxed_benchmark(data: bytes, language: str, timeout: float) -> Benchmark:
    """Make a benchmark of a program in "c" or "c++", which is compiled in a box on first use."""
    name = "program" + SUFFIXES[language]
    params = (("sha256", hashlib.sha256(data).hexdigest()[:16]),)
    return Benchmark(
        BenchmarkUri("benchmark", USER, name, params),
        lambda: _compile(data, name, language, timeout),
        sources=lambda: [BenchmarkSource(name, data)],
        description=f"a program in {language}",
    )


def _compile(data: bytes, name: str, language: str, timeout: float) -> bytes:
    """Return bitcode.

    Raises:
        BenchmarkInitError: when there can be no box, or clang does not accept the program.
    """
    with scratch_folder() as folder:
        Path(folder, name).write_bytes(data)
        try:
            command = [*_box(folder), *_clang(name, language)]
            status, said = run_bounded(command, cwd=str(folder), env=dict(os.environ), timeout=timeout)
        except TimedOut:
            raise BenchmarkInitError(name, f"clang took longer than {timeout:g} s and was stopped") from None
        except OSError as error:
            raise BenchmarkInitError(name, f"bubblewrap cannot be started: {error}") from error
        if said.startswith("bwrap:"):
            raise BenchmarkInitError(name, f"C is compiled in a box only, and none can be made here: {said.strip()}")
        if status:
            reason = "clang does not accept it" if status > 0 else f"clang was killed by signal {-status}"
            raise BenchmarkInitError(name, reason, said.strip())
        content = Path(folder, "output.bc").read_bytes()
    if not is_bitcode(content):
        raise BenchmarkInitError(name, "clang wrote no bitcode")
    return content


def _clang(name: str, language: str) -> Iterator[str]:
    yield from ("/bin/sh", "-c", f'ulimit -f {BLOCKS}; exec "$@"', "sh")
    toolchain = find_toolchain()
    yield from (*toolchain.command(language), *compile_flags(toolchain.clang, language))
    yield from (*LENIENT, *DEFAULT_FLAGS, "-fno-crash-diagnostics", "-c", "-emit-llvm", "-o", "output.bc", name)


def _box(folder: str | Path) -> Iterator[str]:
    """Yield the command of a box that shows the system's programs and headers, clang, and the folder."""
    yield from ("bwrap", "--unshare-user", "--unshare-all", "--cap-drop", "ALL", "--new-session", "--clearenv")
    yield from ("--die-with-parent", "--as-pid-1")
    for path in SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # before what may be installed below /tmp
    libraries = loader_environment().get("LD_LIBRARY_PATH", "")
    clang = find_toolchain().clang
    folders = (str(clang.parent.parent), str(clang.resolve().parent.parent), *filter(None, libraries.split(":")))
    for shown in dict.fromkeys(folders):
        if not any(Path(shown).is_relative_to(path) for path in SYSTEM):
            yield from ("--ro-bind", shown, shown)
    yield from ("--bind", str(folder), INSIDE, "--chdir", INSIDE)
    yield from ("--setenv", "LC_ALL", "C", "--setenv", "SOURCE_DATE_EPOCH", "0", "--setenv", "PATH", "/usr/bin:/bin")
    if libraries:
        yield from ("--setenv", "LD_LIBRARY_PATH", libraries)
    yield "--"


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
        return _boxed_benchmark(data, language, limits.seconds)
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
