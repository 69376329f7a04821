"""`clgen-v0`: OpenCL kernels that a neural network wrote, compiled for NVIDIA's GPUs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.download import download
from aiocg.datasets.frontend import compile_file
from aiocg.datasets.published._c_sources import QUIET, TIMEOUT, SourcesDataset
from aiocg.datasets.published._catalogue import facts
from aiocg.datasets.replacing import replacing
from aiocg.datasets.tar import read_file
from aiocg.datasets.uri import BenchmarkUri

TARGET = "nvptx64-nvidia-nvcl"


class CLgenDataset(SourcesDataset):
    """The kernels of CLgen, compiled when they are asked for with the headers of libclc and not those of clang.

    Attributes:
        library, header: addresses and checksum of the headers of libclc, and of the one that each kernel includes.

    Args:
        changes: what is not as in the catalogue: arguments of `TarDatasetWithManifest`, and `library_urls`,
            `library_sha256`, `header_urls` and `header_sha256` for the headers of libclc and the one that each kernel
            includes.
    """

    def __init__(self, **changes: Any) -> None:
        known = {**facts("clgen-v0"), **changes}
        self.library = known.pop("library_urls"), known.pop("library_sha256")
        self.header = known.pop("header_urls"), known.pop("header_sha256")
        super().__init__("benchmark://clgen-v0", **known)

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        def compile_with(more: Sequence[str]) -> bytes:
            return compile_file(fetch(), (*self.flags(), *more), timeout=TIMEOUT)

        return Benchmark(
            uri,
            lambda: compile_with(()),
            sources=lambda: [BenchmarkSource("kernel.cl", read_file(fetch(), uri))],
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
        unpack(download(*self.library, description="Downloading the headers of libclc"), library)
        with replacing(header, 0o644) as file:
            file.write(download(*self.header, description="Downloading opencl.h").read_bytes())
        super()._install()
