"""`jotaibench-v0` and `jotai-runnable-v0`: functions of AnghaBench, each with a `main` that calls it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkProgram, ProgramRun
from aiocg.datasets.published.addresses import github_file, stored
from aiocg.datasets.published.compiled import c_benchmark
from aiocg.datasets.tar import TarDataset, TarDatasetWithManifest
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["JotaiBenchDataset", "JotaiRunnableDataset"]

SHA256 = "b5a51af3d4e2f77a66001635ec64ed321e0ece19873c4a888040859af7556401"
MANIFEST_URLS = stored("jotaibench-v0.bz2")
MANIFEST_SHA256 = "ac4ee456e52073964d472d3e3969058b2f3052f8a4b402719013a3c603eb4b62"
FOLDER = "jotaibench/jotaibench-v0"
LICENSE = "GNU General Public License v3.0 (GPLv3)"
REFERENCES = {
    "Paper": "https://homepages.dcc.ufmg.br/~fernando/publications/papers/FaustinoCGO21.pdf",
    "Homepage": "http://cuda.dcc.ufmg.br/angha/",
}
RUN = ProgramRun(("0",), timeout=30.0)  # the number of the data: each program has some, and 0 always

_FILE = "benchmarks/jotaibench.bz2"
_FORK = github_file("ChrisCummins/jotai-benchmarks", "ca26ccd27afecf38919c1e101c64e3cc17e39631", _FILE)
_ORIGINAL = (
    f"https://github.com/lac-dcc/jotai-benchmarks/blob/main/{_FILE}?raw=true",
    *github_file("lac-dcc/jotai-benchmarks", "main", _FILE),
)


class JotaiBenchDataset(TarDatasetWithManifest):
    """Those programs of the collection that CompilerGym listed, compiled when they are asked for.

    Args:
        urls: where the archive is published, best first.
        sha256: its checksum, in hexadecimal.
        manifest_urls: where the list of names is published, best first.
        manifest_sha256: its checksum, in hexadecimal.
        size: how many programs there are, 0 when that is not known.
    """

    def __init__(
        self,
        *,
        urls: Sequence[str] = (*_FORK, *_ORIGINAL),
        sha256: str = SHA256,
        manifest_urls: Sequence[str] = MANIFEST_URLS,
        manifest_sha256: str = MANIFEST_SHA256,
        size: int = 18761,
    ) -> None:
        super().__init__(
            "benchmark://jotaibench-v0",
            "Compile-only C/C++ functions extracted from GitHub",
            urls=urls,
            sha256=sha256,
            strip_prefix=FOLDER,
            suffix=".c",
            manifest_urls=manifest_urls,
            manifest_sha256=manifest_sha256,
            license=LICENSE,
            references=REFERENCES,
            size=size,
        )

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make the benchmark of one program."""
        return c_benchmark(uri, fetch)


class JotaiRunnableDataset(TarDataset):
    """All programs of the collection, which are run and compared when a state of theirs is validated.

    Args:
        urls: where the archive is published, best first.
        sha256: its checksum, in hexadecimal.
    """

    def __init__(self, *, urls: Sequence[str] = (*_ORIGINAL, *_FORK), sha256: str = SHA256) -> None:
        super().__init__(
            "benchmark://jotai-runnable-v0",
            "Runnable C/C++ functions extracted from GitHub",
            urls=urls,
            sha256=sha256,
            strip_prefix=FOLDER,
            suffix=".c",
            license=LICENSE,
            references=REFERENCES,
            validatable=True,
        )

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make the benchmark of one program."""
        return c_benchmark(uri, fetch, program=BenchmarkProgram("c", runs={"0": RUN}))
