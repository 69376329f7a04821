"""`clgen-v0`: OpenCL kernels that a neural network wrote, compiled for NVIDIA's GPUs."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.download import download
from aiocg.datasets.frontend import compile_file
from aiocg.datasets.published.addresses import STORE, github_file, stored
from aiocg.datasets.published.compiled import QUIET, TIMEOUT, SourcesDataset, read_source
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["CLgenDataset"]

URLS = github_file(
    "ChrisCummins/paper-synthesizing-benchmarks", "e45b6dffe9998f612624f05a6c4878ab4bcc84ec", "data/clgen-1000.tar.bz2"
)
SHA256 = "0bbd1b737f2537305e4db09b2971a5fa848b7c3a978bff6b570f45d1a488a72c"
MANIFEST_URLS = stored("clgen-v0-manifest.bz2")
MANIFEST_SHA256 = "d2bbc1da5a24a8cb03b604d1d8e59227b33bdfcd964ebe741ca8339f1c8d65cc"
LIBRARY_URLS = (f"{STORE}libclc-v0.tar.bz2",)
LIBRARY_SHA256 = "f1c511f2ac12adf98dcc0fbfc4e09d0f755fa403c18f1fb1ffa5547e1fa1a499"
HEADER_URLS = github_file(
    "ChrisCummins/clgen", "463c0adcd8abcf2432b24df0aca594b77a69e9d3", "deeplearning/clgen/data/include/opencl.h"
)
HEADER_SHA256 = "f95b9f4c8b1d09114e491846d0d41425d24930ac167e024f45dab8071d19f3f7"

TARGET = "nvptx64-nvidia-nvcl"


class CLgenDataset(SourcesDataset):
    """The kernels of CLgen, compiled when they are asked for with the headers of libclc and not those of clang.

    Args:
        urls: where the archive of kernels is published, best first.
        sha256: its checksum, in hexadecimal.
        manifest_urls: where the list of names is published, best first; none for all files of the archive.
        manifest_sha256: its checksum, in hexadecimal.
        library_urls: where the headers of libclc are published, best first.
        library_sha256: the checksum of their archive, in hexadecimal.
        header_urls: where the header that each kernel includes is published, best first.
        header_sha256: its checksum, in hexadecimal.
        size: how many kernels there are, 0 when that is not known.
    """

    def __init__(
        self,
        *,
        urls: Sequence[str] = URLS,
        sha256: str = SHA256,
        manifest_urls: Sequence[str] = MANIFEST_URLS,
        manifest_sha256: str = MANIFEST_SHA256,
        library_urls: Sequence[str] = LIBRARY_URLS,
        library_sha256: str = LIBRARY_SHA256,
        header_urls: Sequence[str] = HEADER_URLS,
        header_sha256: str = HEADER_SHA256,
        size: int = 996,
    ) -> None:
        super().__init__(
            "benchmark://clgen-v0",
            "Synthetically generated OpenCL kernels",
            urls=urls,
            sha256=sha256,
            strip_prefix="clgen-1000/kernels",
            suffix=".cl",
            manifest_urls=manifest_urls,
            manifest_sha256=manifest_sha256,
            license="GNU General Public License v3.0",
            references={
                "Paper": "https://chriscummins.cc/pub/2017-cgo.pdf",
                "Homepage": "https://github.com/ChrisCummins/clgen",
            },
            size=size,
        )
        self._library = tuple(library_urls), library_sha256
        self._header = tuple(header_urls), header_sha256

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make the benchmark of one kernel."""

        def compile_with(more: Sequence[str]) -> bytes:
            return compile_file(fetch(), (*self.flags(), *more), timeout=TIMEOUT)

        return Benchmark(
            uri,
            lambda: compile_with(()),
            sources=lambda: [BenchmarkSource("kernel.cl", read_source(uri, fetch()))],
            recompile=compile_with,
        )

    def flags(self) -> tuple[str, ...]:
        """Return the flags with which a kernel is compiled, once the dataset is installed."""
        library, header = self._headers
        return ("-cl-no-stdinc", "-isystem", str(library), "-include", str(header), f"--target={TARGET}", *QUIET)

    @property
    def _headers(self) -> tuple[Path, Path]:
        return self.site_data_path / "libclc", self.site_data_path / "opencl.h"

    def _install(self) -> None:
        """Install the headers, too, and before the kernels: when these are there, all is."""
        from aiocg.datasets.archive import unpack  # here, because most programs install nothing

        library, header = self._headers
        library.parent.mkdir(parents=True, exist_ok=True)
        unpack(download(*self._library, description="Downloading the headers of libclc"), library)
        temporary = header.with_name(".new-opencl.h")
        shutil.copyfile(download(*self._header, description="Downloading opencl.h"), temporary)
        temporary.replace(header)
        super()._install()
