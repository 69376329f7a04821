"""The LLVM environment, and functions that make benchmarks from files, text and compiler command lines."""

import functools
import os
import random
import re
import shlex
import subprocess
import urllib.parse
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import aiocg.llvm
from aiocg.compat._errors import BenchmarkInitError, translated
from aiocg.compat.datasets._benchmark import Benchmark
from aiocg.compat.datasets._published import get_llvm_datasets
from aiocg.compat.datasets._stand_ins import default_benchmark
from aiocg.compat.envs._rewards import llvm_rewards
from aiocg.compat.service import _messages as messages
from aiocg.compat.service._connection import LLVM_SERVICE_BINARY
from aiocg.compat.service._env import ClientServiceCompilerEnv
from aiocg.compat.spaces._actions import flags_of, opt_line
from aiocg.datasets.errors import BenchmarkNotFound
from aiocg.datasets.frontend import LANGUAGES
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain

DEFAULT_COPT = ["-O1", "-Xclang", "-disable-llvm-passes", "-Xclang", "-disable-llvm-optzns"]
"""Flags for code that can be optimised but has not been."""

_ATTEMPTS = 3  # to ask a compiler for its header folders, on a busy machine
_SUFFIXES = {"c": ".c", "c++": ".cc"}


class HostCompilerFailure(OSError):
    """The host's compiler does not work."""


class UnableToParseHostCompilerOutput(HostCompilerFailure):
    """The output of the host's compiler is not as expected."""


def get_system_library_flags(compiler: str | None = None) -> list[str]:
    """Return the flags that make another compiler use the header folders of the host's compiler."""
    return list(_system_library_flags(compiler or os.environ.get("CXX") or "c++"))


@functools.lru_cache(maxsize=32)
def _system_library_flags(compiler: str) -> tuple[str, ...]:
    text = _verbose_output(compiler)
    found = re.search(
        r"^#include <\.\.\.> search starts here:\n(.*?)^End of search list", text, re.DOTALL | re.MULTILINE
    )
    if found is None:
        problem = f"Failed to parse '#include <...>' search paths from '{compiler}'"
        raise UnableToParseHostCompilerOutput(f"{problem}:\n{text.strip()}" if text.strip() else problem)
    return tuple(word for folder in found[1].splitlines() for word in ("-isystem", folder.strip()))


def _verbose_output(compiler: str) -> str:
    command = [compiler, "-xc++", "-v", "-c", "-", "-o", os.devnull]
    given: dict[str, Any] = {"input": "int main(){return 0;}", "env": {**os.environ, "LC_ALL": "C"}}
    for _ in range(_ATTEMPTS):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, **given)
            return str(done.stderr)
        except subprocess.TimeoutExpired:
            continue
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", "") or error
            raise HostCompilerFailure(
                f"Failed to invoke '{compiler}'. Is there a working system compiler?\nError: {reason}"
            ) from error
    raise HostCompilerFailure(f"Compiler invocation '{compiler}' timed out after {_ATTEMPTS} attempts.")


def _headers() -> list[str]:
    """Return the flags for the host's header folders, except for those that belong to its compiler."""
    folders = get_system_library_flags()[1::2]
    libraries = [one for one in folders if not Path(one, "stddef.h").is_file() or not Path(one, "stdarg.h").is_file()]
    return [word for folder in libraries for word in ("-isystem", folder)]


class ClangInvocation:
    """A clang command that produces bitcode."""

    def __init__(self, args: Sequence[Any], system_includes: bool = True, timeout: float = 600) -> None:
        self.args, self.system_includes, self.timeout = list(args), system_includes, timeout

    def _arguments(self) -> list[str]:
        return [*(_headers() if self.system_includes else ["-nostdlibinc"]), *map(str, self.args)]

    def command(self, outpath: str | Path) -> list[str]:
        """Return the command line that writes the bitcode to a file."""
        return [*find_toolchain().command("c"), "-c", "-emit-llvm", "-o", str(outpath), *self._arguments()]

    def native(self) -> aiocg.llvm.ClangInvocation:
        """Return the invocation in aiocg's form."""
        return aiocg.llvm.ClangInvocation(self._arguments(), self.timeout)

    @classmethod
    def from_c_file(
        cls, path: str | Path, copt: Iterable[str] | None = None, system_includes: bool = True, timeout: float = 600
    ) -> "ClangInvocation":
        """Return the command that `make_benchmark` runs for a C or C++ file."""
        return cls([*DEFAULT_COPT, *(copt or ()), str(path)], system_includes=system_includes, timeout=timeout)


def make_benchmark(
    inputs: Any, copt: Iterable[str] | None = None, system_includes: bool = True, timeout: float = 600
) -> Benchmark:
    """Make a benchmark from one or more files, which are compiled and linked into one module immediately."""
    several = [inputs] if isinstance(inputs, (str, os.PathLike, ClangInvocation)) else list(inputs)
    if not several:
        raise ValueError("No inputs: name at least one file")
    parts = [_part(one, list(copt or ()), system_includes, timeout) for one in several]
    if len(parts) == 1 and isinstance(parts[0], Path) and parts[0].suffix == ".bc":
        return Benchmark.from_file(f"benchmark://file-v0{parts[0]}", parts[0])
    with translated():
        return Benchmark.from_file_contents(_new_uri(), aiocg.llvm.make_benchmark(parts, timeout=timeout).content)


def _part(one: Any, copt: list[str], system_includes: bool, timeout: float) -> Path | aiocg.llvm.ClangInvocation:
    if isinstance(one, ClangInvocation):
        return one.native()
    if not isinstance(one, (str, os.PathLike)):
        raise TypeError(f"Invalid input type: {type(one).__name__}")
    path = Path(one).absolute()
    if not path.is_file():
        raise FileNotFoundError(str(path))
    if path.suffix in LANGUAGES:
        return ClangInvocation.from_c_file(path, copt, system_includes, timeout).native()
    if path.suffix not in (".bc", ".ll"):
        raise ValueError(f"Unrecognized file type: {path.name}")
    return path


def make_benchmark_from_source(
    source: str,
    copt: Iterable[str] | None = None,
    lang: str = "c++",
    system_includes: bool = True,
    timeout: float = 600,
) -> Benchmark:
    """Make a benchmark from source text."""
    if lang not in _SUFFIXES:
        raise ValueError(f"the language must be one of {', '.join(_SUFFIXES)}, not {lang!r}")
    with scratch_folder() as scratch:
        path = Path(scratch, f"source{_SUFFIXES[lang]}")
        path.write_text(source, encoding="utf-8")
        try:
            return make_benchmark(path, copt, system_includes, timeout)
        except BenchmarkInitError as error:
            raise BenchmarkInitError(f"Failed to make benchmark with compiler error:\n{error}") from error


def merge_benchmarks(benchmarks: list[Benchmark], timeout: float = 300) -> Benchmark:
    """Link benchmarks into one."""
    with translated():
        content = aiocg.llvm.merge_benchmarks([one.native for one in benchmarks], timeout=timeout).content
    return Benchmark.from_file_contents(_new_uri(), content)


def split_benchmark_by_function(
    benchmark: Benchmark, maximum_function_count: int | None = None, timeout: float = 300
) -> list[Benchmark]:
    """Split a benchmark into one for the global variables, which comes first, and one for each function."""
    with translated():
        parts = aiocg.llvm.split_benchmark_by_function(benchmark.native, maximum_function_count, timeout=timeout)
        *functions, variables = parts
        if not functions:
            raise ValueError("No functions found: there is nothing to split")
        return [Benchmark.from_file_contents(str(part.uri), part.content) for part in (variables, *functions)]


def _new_uri() -> str:
    return f"benchmark://user-v0/{datetime.now():%Y%m%dT%H%M%S}-{random.randrange(16**8):08x}"


class BenchmarkFromCommandLine(Benchmark):
    """A benchmark made from a compiler's command line."""

    def __init__(self, native: aiocg.llvm.CommandLineBenchmark, words: Sequence[str], driver: str) -> None:
        uri = f"benchmark://clang-v0/{urllib.parse.quote_plus(shlex.join(words))}"
        super().__init__(proto=messages.Benchmark(uri=uri, program={"contents": native.content}))
        self.command_line = list(words)
        self._builder = native
        command = self.proto.dynamic_config.build_cmd
        sources = {source.path for source in native.command.sources}
        others = [word for word, before in zip(words[1:], words, strict=False) if "-o" not in (word, before)]
        kept = [word for word in others if word not in sources]
        command.argument[:] = [driver, *kept, "-xir", "$IN", "-o", str(native.output)]
        command.outfile[:] = [str(native.output)]
        command.timeout_seconds = int(native.timeout)

    def compile(self, env: Any, timeout: float = 60) -> None:
        """Build the command line's output from the current state of an environment."""
        self._builder.timeout = timeout
        with translated():
            self._builder.build(bytes(env.observation["Bitcode"]))


def benchmark_from_command_line(
    cmd: str | Sequence[str], replace_driver: bool = True, system_includes: bool = True, timeout: float = 600
) -> BenchmarkFromCommandLine:
    """Make a benchmark from all C and C++ sources of a compiler's command line; see `LlvmEnv`."""
    words = shlex.split(cmd) if isinstance(cmd, str) else [str(word) for word in cmd or ()]
    line = shlex.join(words)
    if len(words) < 2:
        raise ValueError(f"Input command line '{line}' is too short" if words else "Input command line is empty")
    if "-" in words:
        raise ValueError(f"Input command line reads from stdin, which is not supported: '{line}'")
    used = [word for word in words if word != "-S"]
    try:
        with translated():
            native = aiocg.llvm.benchmark_from_command_line(used, replace_driver=replace_driver, timeout=timeout)
            return BenchmarkFromCommandLine(native, words, str(aiocg.llvm.clang_path()) if replace_driver else words[0])
    except LookupError as error:
        if isinstance(error.__cause__, BenchmarkNotFound):
            raise FileNotFoundError(str(error)) from error
        raise


def _run_build_command(benchmark: Benchmark, env: Any) -> None:
    """Build the program of a benchmark that says how, and raise BenchmarkInitError if that fails."""
    command = benchmark.proto.dynamic_config.build_cmd
    clang = str(aiocg.llvm.clang_path())
    drivers = {
        **dict.fromkeys(("$CC", "cc", "gcc", clang), "clang"),
        **dict.fromkeys(("$CXX", "c++", "g++"), "clang++"),
    }
    first, *rest = command.argument
    driver = drivers.get(first, first)
    with scratch_folder() as scratch:
        module = env.write_bitcode(Path(scratch, "benchmark.bc"))
        words = [driver, *(str(module) if word == "$IN" else word for word in rest)]
        try:
            timeout = command.timeout_seconds or 60
            own = clang if driver in ("clang", "clang++") else None  # which goes by the name that it is called by
            done = subprocess.run(words, executable=own, cwd=scratch, capture_output=True, text=True, timeout=timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BenchmarkInitError(f"Failed to build {benchmark}: {error}") from error
        missing = [name for name in command.outfile if not Path(scratch, name).exists()]
        if done.returncode or missing:
            reason = done.stderr.strip() if done.returncode else f"there is no {missing[0]}"
            raise BenchmarkInitError(f"Failed to build {benchmark} by {shlex.join(words)}:\n{reason}")


def _repeated(name: str, least: int, what: str) -> Any:
    """Return a property of an environment that is how often something is done, kept by resets and forks."""

    def get(env: Any) -> int:
        return env._runs[name] if name in env._runs else int(env.send_param(f"llvm.get_{name}", ""))

    def put(env: Any, n: int) -> None:
        if n < least:
            raise ValueError(f"{name} must be >= {least}. Received: {n}")
        env._keep_param(f"llvm.set_{name}", str(n))
        env._runs[name] = n

    return property(get, put, doc=f"The number of {what}; settable, and kept by resets and forks.")


class LlvmEnv(ClientServiceCompilerEnv):
    """The LLVM environment: an action is one of CompilerGym's 124 flags, which runs today's equivalent pass."""

    def __init__(
        self, *args: Any, benchmark: Any = None, datasets_site_path: str | Path | None = None, **kwargs: Any
    ) -> None:
        self._runs: dict[str, int] = {}
        kwargs["benchmark"] = benchmark or default_benchmark()
        datasets = get_llvm_datasets(datasets_site_path)
        super().__init__(*args, **self._with(args, kwargs, LLVM_SERVICE_BINARY, llvm_rewards(), datasets))

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode; a benchmark that says how its program is built is built, too."""
        observation = super().reset(*args, **kwargs)
        benchmark = self._benchmark_in_use
        if isinstance(benchmark, BenchmarkFromCommandLine):
            benchmark.compile(self)
        elif benchmark is not None and benchmark.says_how_to_build:
            _run_build_command(benchmark, self)
        return observation

    @property
    def inst2vec(self) -> Any:
        """The inst2vec encoder, which fetches its vocabulary on first use."""
        from aiocg.compat.envs._llvm_programs import Inst2vecEncoder

        return Inst2vecEncoder()

    def commandline(self, textformat: bool = False) -> str:
        return opt_line(self.action_space.commandline(self.actions), textformat)

    def commandline_to_actions(self, commandline: str) -> list[int]:
        flags = flags_of(commandline)
        if flags is None:
            raise ValueError(f"Invalid commandline: `{commandline}`")
        return list(self.action_space.from_commandline(flags))

    @property
    def ir(self) -> str:
        """The program as textual IR."""
        return str(self.observation["Ir"])

    @property
    def ir_sha1(self) -> str:
        """The SHA-1 of the textual IR without the module name, 40 hexadecimal digits."""
        return str(self.observation["IrSha1"])

    def write_ir(self, path: str | Path) -> Path:
        """Write the program to a file as textual IR, and return the path."""
        target = Path(path).expanduser()
        target.write_text(self.ir, encoding="utf-8")
        return target

    def write_bitcode(self, path: str | Path) -> Path:
        """Write the program to a file as bitcode, and return the path."""
        target = Path(path).expanduser()
        target.write_bytes(bytes(self.observation["Bitcode"]))
        return target

    def render(self, mode: str = "human") -> str | None:
        if mode != "human":
            return super().render(mode)
        print(self.ir)
        return None

    def make_benchmark(
        self, inputs: Any, copt: Iterable[str] | None = None, system_includes: bool = True, timeout: float = 600
    ) -> Benchmark:
        """Make a benchmark from files; see `compiler_gym.envs.llvm.make_benchmark`."""
        return make_benchmark(inputs, copt, system_includes, timeout)

    def make_benchmark_from_command_line(
        self, cmd: str | Sequence[str], replace_driver: bool = True, system_includes: bool = True, timeout: float = 600
    ) -> BenchmarkFromCommandLine:
        """Make a benchmark from all C and C++ sources of a compiler's command line.

        Args:
            system_includes: ignored; clang finds the headers as usual.
        """
        return benchmark_from_command_line(cmd, replace_driver, system_includes, timeout)

    runtime_observation_count = _repeated("runtimes_per_observation_count", 1, "timed runs for one `Runtime`")
    runtime_warmup_runs_count = _repeated("warmup_runs_count_per_runtime_observation", 0, "untimed runs before them")

    def fork(self) -> Self:
        other = super().fork()
        other._runs = dict(self._runs)
        return other
