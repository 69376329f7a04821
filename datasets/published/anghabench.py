"""`anghabench-v1`: a million C functions, each cut out of a project on GitHub and made to compile by itself."""

from collections.abc import Callable, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.published.addresses import github_archive, stored
from aiocg.datasets.published.compiled import SourcesDataset, c_benchmark
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["AnghaBenchDataset", "anghabench_v0"]

COMMIT = "d8034ac8562b8c978376008f4b33df01b8887b19"
SHA256 = "85d068e4ce44f2581e3355ee7a8f3ccb92568e9f5bd338bc3a918566f3aff42f"
MANIFEST_URLS = stored("anghabench-v1-linux-manifest.bz2")
MANIFEST_SHA256 = "14df85f650199498cf769715e9f0d7841d09f9fa62a95b8ecc242bdaf227f33a"


class AnghaBenchDataset(SourcesDataset):
    """The functions of AnghaBench, compiled when they are asked for.

    Args:
        name: the dataset's name.
        urls: where the archive is published, best first.
        sha256: its checksum, in hexadecimal.
        manifest_urls: where the list of names is published, best first; none for all files of the archive.
        manifest_sha256: its checksum, in hexadecimal.
        size: how many functions there are, 0 when that is not known.
        deprecated: why it should not be used any more.
        sort_order: datasets are listed by this number, then by name.
    """

    def __init__(
        self,
        name: str = "benchmark://anghabench-v1",
        *,
        urls: Sequence[str] = github_archive("brenocfg/AnghaBench", COMMIT),
        sha256: str = SHA256,
        manifest_urls: Sequence[str] = MANIFEST_URLS,
        manifest_sha256: str = MANIFEST_SHA256,
        size: int = 1041333,
        deprecated: str = "",
        sort_order: int = 0,
    ) -> None:
        super().__init__(
            name,
            "Compile-only C/C++ functions extracted from GitHub",
            urls=urls,
            sha256=sha256,
            strip_prefix=f"AnghaBench-{COMMIT}",
            suffix=".c",
            manifest_urls=manifest_urls,
            manifest_sha256=manifest_sha256,
            license="Unknown. See: https://github.com/brenocfg/AnghaBench/issues/1",
            references={
                "Paper": "https://homepages.dcc.ufmg.br/~fernando/publications/papers/FaustinoCGO21.pdf",
                "Homepage": "http://cuda.dcc.ufmg.br/angha/",
            },
            size=size,
            deprecated=deprecated,
            sort_order=sort_order,
        )

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make the benchmark of one function."""
        return c_benchmark(uri, fetch)


def anghabench_v0() -> AnghaBenchDataset:
    """Make the older list of the same functions."""
    return AnghaBenchDataset(
        "benchmark://anghabench-v0",
        manifest_urls=stored("anghabench-v0-linux-manifest.bz2"),
        manifest_sha256="a038d25d39ee9472662a9704dfff19c9e3512ff6a70f1067af85c5cb3784b477",
        size=1042976,
        deprecated="use anghabench-v1",
        sort_order=100,
    )
