"""`llvm-stress-v0`: the random functions that LLVM's `llvm-stress` makes. They are not programs and cannot be run."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import ToolchainNotFound
from aiocg.datasets.generators.seeded import Integer, SeededDataset, Value, generate, said_version
from aiocg.datasets.toolchain import newest_on_path, on_path
from aiocg.datasets.uri import BenchmarkUri

TIMEOUT = 60.0  # seconds for making one function

_REMEDY = "install it from your system's packages (Debian and Ubuntu: llvm, or llvm-19 for that release; Fedora: llvm)"
_RELEASE = re.compile(r"LLVM version \S+")


def find_llvm_stress() -> Path:
    """Find `llvm-stress` on PATH, or the `llvm-stress-<release>` of the newest release.

    Raises:
        ToolchainNotFound: when there is none.
    """
    found = on_path("llvm-stress") or newest_on_path("llvm-stress", os.environ.get("PATH", os.defpath))
    if found is None:
        raise ToolchainNotFound("there is no llvm-stress on PATH", _REMEDY)
    return found


class LlvmStressDataset(SeededDataset):
    """The functions that `llvm-stress` makes of seeds: valid, but unlike what people write.

    It is not shipped with this package; the system's is used. The same seed is another function in another release;
    the description of a benchmark names the release. The bitcode is written by the `llvm-as` of the same release: a
    newer LLVM reads the bitcode of an older one, but not always its text.
    """

    def __init__(self) -> None:
        super().__init__(
            "generator://llvm-stress-v0",
            "random functions in LLVM IR that llvm-stress makes of seeds",
            parameters={"size": Integer(1, 100_000)},
            license="Apache-2.0 WITH LLVM-exception",
            sort_order=10,
            references={"llvm-stress": "https://llvm.org/docs/CommandGuide/llvm-stress.html"},
        )

    @property
    def installed(self) -> bool:
        """Whether the system has an `llvm-stress`."""
        try:
            find_llvm_stress()
        except ToolchainNotFound:
            return False
        return True

    def install(self) -> None:
        """Do nothing where the system has an `llvm-stress`; raise ToolchainNotFound where it has none."""
        find_llvm_stress()

    def benchmark_of_seed(self, uri: BenchmarkUri, seed: int, values: Mapping[str, Value]) -> Benchmark:
        """Make the benchmark of a seed; `llvm-stress` runs when its content is asked for."""
        options = [f"--seed={seed}", *(f"--{name}={value}" for name, value in values.items())]
        description = f"{' '.join(('llvm-stress', *options))} ({_release()})"
        return Benchmark(uri, lambda: _generate(str(uri), options), description=description)


def _generate(uri: str, options: list[str]) -> bytes:
    tool = find_llvm_stress()
    assembler = on_path(str(tool.resolve().with_name("llvm-as")))
    if assembler is None:
        raise ToolchainNotFound(f"there is no llvm-as beside {tool.resolve()}", _REMEDY)
    commands = [[str(tool), *options, "-o", "function.ll"], [str(assembler), "function.ll", "-o", "function.bc"]]
    return generate(uri, _identity(tool), commands, "function.bc", TIMEOUT)


def _identity(tool: Path) -> str:
    said = said_version(tool, _REMEDY)
    match = _RELEASE.search(said)
    return match[0] if match else said.split("\n", 1)[0]


def _release() -> str:
    try:
        return _identity(find_llvm_stress())
    except ToolchainNotFound as error:
        return error.reason
