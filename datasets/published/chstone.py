"""`chstone-v0`: twelve programs for high-level synthesis, each of several C files of which one includes the others."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.published.addresses import github_archive
from aiocg.datasets.published.compiled import c_benchmark
from aiocg.datasets.tar import TarDataset
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["NAMES", "CHStoneDataset"]

COMMIT = "e62d878ceb91e5a18007ca2e0a9602ee44ff7d59"
SHA256 = "f7acab9d3c3dc7b971e62c8454bc909d84bddb6d0a96378e41beb94231739acb"

NAMES = ("adpcm", "aes", "blowfish", "dfadd", "dfdiv", "dfmul", "dfsin", "gsm", "jpeg", "mips", "motion", "sha")
"""The names of the programs."""

_MAIN = {"blowfish": "bf.c", "motion": "mpeg2.c", "sha": "sha_driver.c", "jpeg": "main.c"}  # the others: <name>.c


class CHStoneDataset(TarDataset):
    """The programs of CHStone, compiled when they are asked for.

    Args:
        urls: where the archive is published, best first.
        sha256: its checksum, in hexadecimal.
    """

    def __init__(
        self, *, urls: Sequence[str] = github_archive("ChrisCummins/patmos_HLS", COMMIT), sha256: str = SHA256
    ) -> None:
        super().__init__(
            "benchmark://chstone-v0",
            "Benchmarks for C-based High-Level Synthesis",
            urls=urls,
            sha256=sha256,
            strip_prefix=f"patmos_HLS-{COMMIT}/benchmarks/CHStone",
            suffix=".c",
            license="Mixture of open source and public domain licenses",
            references={
                "Paper": "http://www.yxi.com/applications/iscas2008-300_1027.pdf",
                "Homepage": "http://www.ertl.jp/chstone/",
            },
            size=len(NAMES),
        )

    def file_of(self, name: str) -> str:
        """Return where the file with `main` lies."""
        return f"{name}/{_MAIN.get(name, f'{name}.c')}"

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make the benchmark of one program."""

        def others() -> Iterator[Path]:
            main = fetch()
            return (path for path in sorted(main.parent.glob("*.[ch]")) if path != main)

        return c_benchmark(uri, fetch, source_name=Path(self.file_of(uri.path)).name, further=others)

    def _read_names(self) -> Sequence[str]:
        return NAMES
