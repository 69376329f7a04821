"""`jotaibench-v0` and `jotai-runnable-v0`: functions of AnghaBench, each with a `main` that calls it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkProgram, ProgramRun
from aiocg.datasets.published.addresses import github_file, stored
from aiocg.datasets.published.compiled import SourcesDataset, c_benchmark
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["PROGRAM", "JotaiBenchDataset", "jotai_runnable"]

_FILE = "benchmarks/jotaibench.bz2"

URLS = (
    *github_file("ChrisCummins/jotai-benchmarks", "ca26ccd27afecf38919c1e101c64e3cc17e39631", _FILE),
    *github_file("lac-dcc/jotai-benchmarks", "main", _FILE),
)
SHA256 = "b5a51af3d4e2f77a66001635ec64ed321e0ece19873c4a888040859af7556401"
MANIFEST_URLS = stored("jotaibench-v0.bz2")
MANIFEST_SHA256 = "ac4ee456e52073964d472d3e3969058b2f3052f8a4b402719013a3c603eb4b62"

PROGRAM = BenchmarkProgram("c", runs={"0": ProgramRun(("0",), timeout=30.0)})
"""How a program is run: the argument is the number of the data. Each program has several, and this one always."""


class JotaiBenchDataset(SourcesDataset):
    """The programs, compiled when they are asked for.

    Args:
        name: the dataset's name.
        description: one line for people.
        urls: where the archive is published, best first.
        sha256: its checksum, in hexadecimal.
        manifest_urls: where the list of names is published, best first; none for all files of the archive.
        manifest_sha256: its checksum, in hexadecimal.
        size: how many programs there are, 0 when that is not known.
        program: how each is built and run, if that is to be known.
    """

    def __init__(
        self,
        name: str = "benchmark://jotaibench-v0",
        description: str = "Compile-only C/C++ functions extracted from GitHub",
        *,
        urls: Sequence[str] = URLS,
        sha256: str = SHA256,
        manifest_urls: Sequence[str] = MANIFEST_URLS,
        manifest_sha256: str = MANIFEST_SHA256,
        size: int = 18761,
        program: BenchmarkProgram | None = None,
    ) -> None:
        super().__init__(
            name,
            description,
            urls=urls,
            sha256=sha256,
            strip_prefix="jotaibench/jotaibench-v0",
            suffix=".c",
            manifest_urls=manifest_urls,
            manifest_sha256=manifest_sha256,
            license="GNU General Public License v3.0 (GPLv3)",
            references={
                "Paper": "https://homepages.dcc.ufmg.br/~fernando/publications/papers/FaustinoCGO21.pdf",
                "Homepage": "http://cuda.dcc.ufmg.br/angha/",
            },
            validatable=program is not None,
            size=size,
        )
        self._program = program

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make the benchmark of one program."""
        return c_benchmark(uri, fetch, program=self._program)


def jotai_runnable() -> JotaiBenchDataset:
    """Make the dataset of the same programs that are also run, and compared when a state of theirs is validated."""
    description = "Runnable C/C++ functions extracted from GitHub"
    return JotaiBenchDataset("benchmark://jotai-runnable-v0", description, program=PROGRAM)
