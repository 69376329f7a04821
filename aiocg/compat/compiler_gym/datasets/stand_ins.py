"""Programs of our own that run where those of cBench cannot be fetched, so that old scripts run at all.

The real programs were published at one place, which may be gone. A stand-in is of the same kind as the program that it
stands for, not the same: what is measured on it says nothing of the other. Whoever gets one is told, once for each.
"""

import functools
import os
import warnings
from collections.abc import Iterator

from aiocg.compat.compiler_gym.datasets.benchmark import Benchmark
from aiocg.compat.compiler_gym.datasets.dataset import Dataset
from aiocg.compat.compiler_gym.datasets.native import NativeDataset, in_their_words
from aiocg.compat.compiler_gym.datasets.uri import BenchmarkUri
from aiocg.compat.compiler_gym.errors import DatasetInitError, DownloadFailed
from aiocg.compat.deprecation import outside
from aiocg.datasets.benchmark import Benchmark as Native
from aiocg.datasets.dataset import Dataset as NativeSet
from aiocg.datasets.programs import ProgramsDataset
from aiocg.datasets.published.cbench import CBenchDataset as Published
from aiocg.datasets.uri import BenchmarkUri as NativeUri

__all__ = ["STAND_INS", "CBenchDataset", "StandInWarning", "default_benchmark", "stand_in"]

SWITCH = "AIOCG_COMPAT_STAND_INS"

STAND_INS = {
    "adpcm": "adpcm",  # the same coding of sound
    "bitcount": "nqueens",  # arithmetic on the bits of words
    "blowfish": "aes",  # a block cipher
    "bzip2": "bwt",  # compression by block sorting
    "crc32": "crc32",
    "dijkstra": "dijkstra",
    "ghostscript": "lisp",  # an interpreter, the largest of ours
    "gsm": "fir",  # filters for sound
    "ispell": "hashmap",  # looking up words
    "jpeg-c": "dct",  # a JPEG encoder and decoder
    "jpeg-d": "dct",
    "lame": "fft",  # transforms of sound
    "patricia": "btree",  # a search tree
    "qsort": "qsort",
    "rijndael": "aes",  # the same cipher
    "sha": "sha256",  # a digest
    "stringsearch": "strsearch",
    "stringsearch2": "regex",
    "susan": "edges",  # edges of an image
    "tiff2bw": "stencil",  # arithmetic on each point of a plane
    "tiff2rgba": "lz77",  # unpacking
    "tiffdither": "life",  # points and their neighbours
    "tiffmedian": "huffman",  # counting, and a heap
}
"""The program of `programs-v0` that stands for each program of `cbench-v1`."""

_told: set[str] = set()


class StandInWarning(UserWarning):
    """Another program runs than the one that was asked for."""


class CBenchDataset(NativeDataset):
    """`cbench-v1`: its own programs if they are there or can be fetched, and stand-ins otherwise.

    Its names are listed in any case. `AIOCG_COMPAT_STAND_INS=0` gives errors in place of stand-ins.

    Args:
        site_data_base: not used; aiocg keeps what it installs in a place of its own.
        native: the dataset of aiocg, one of the versions of cBench; `cbench-v1` if None.
    """

    def __init__(self, site_data_base: object = None, *, native: NativeSet | None = None) -> None:
        super().__init__(native or Published(), can_be_validated="Partially")

    @property
    def can_be_had(self) -> bool:
        """Whether there is a benchmark for each name."""
        return _switched_on() or super().can_be_had

    @property
    def size(self) -> int:
        """How many names there are."""
        return len(STAND_INS)

    def benchmark_uris(self) -> Iterator[str]:
        """Enumerate the names."""
        return (f"{self.name}/{name}" for name in STAND_INS)

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Return a program of cBench, or the one that stands for it.

        Raises:
            LookupError: when there is none of that name.
            DatasetInitError, DownloadFailed: when it cannot be fetched, and stand-ins are switched off.
        """
        if self.deprecated:
            Dataset.install(self)  # warns
        name = uri.path.strip("/")
        if self.native.installed or name not in STAND_INS or not _switched_on():
            if name not in STAND_INS:
                raise LookupError(f"Benchmark not found: {uri} (there are {', '.join(STAND_INS)})")
            self.install_programs()
            return super().benchmark_from_parsed_uri(uri)
        try:
            self.install_programs()
        except (DatasetInitError, DownloadFailed) as error:
            return self._stand_in(uri, name, error)
        return super().benchmark_from_parsed_uri(uri)

    def install(self) -> None:
        """Fetch the programs and their inputs; without success, warn that others run in their place.

        Raises:
            DatasetInitError, DownloadFailed: when they cannot be had, and stand-ins are switched off.
        """
        try:
            super().install()
        except (DatasetInitError, DownloadFailed) as error:
            if not _switched_on():
                raise
            warnings.warn(
                f"{self.name} is not installed; other programs run in place of its own. Why: {error}. "
                f"{SWITCH}=0 makes this an error",
                StandInWarning,
                stacklevel=outside(),
            )

    def install_programs(self) -> None:
        """Fetch the programs, but not the inputs to run them on.

        Raises:
            DatasetInitError, DownloadFailed: when they cannot be had.
        """
        if not self.native.installed:
            from aiocg.datasets.tar import TarDataset

            with self._fetching():
                assert isinstance(self.native, TarDataset)
                TarDataset.install(self.native)

    def _random_benchmark(self, random_state: object) -> Benchmark:
        names = sorted(STAND_INS)
        return self.benchmark(f"{self.name}/{names[int(random_state.integers(len(names)))]}")  # type: ignore[attr-defined]

    def _stand_in(self, uri: BenchmarkUri, name: str, error: OSError) -> Benchmark:
        target = stand_in(name)
        if name not in _told:
            _told.add(name)
            warnings.warn(
                f"{target} runs in place of {uri}. It is another program: results are not comparable. Why: {error}. "
                f"{SWITCH}=0 makes this an error",
                StandInWarning,
                stacklevel=outside(),
            )
        with in_their_words(uri):
            return Benchmark.from_native(_program(target), asked_for=str(uri))


def stand_in(name: str) -> str:
    """Return the URI of the program that stands for one of cBench.

    Raises:
        KeyError: when cBench has none of that name.
    """
    return f"benchmark://programs-v0/{STAND_INS[name]}"


@functools.cache
def _program(uri: str) -> Native:
    """Return one of our programs; it is loaded once, however often it is asked for."""
    return ProgramsDataset().benchmark(NativeUri.from_string(uri))


def default_benchmark() -> str:
    """Return the URI of the program of environments made without one: `qsort`, of cBench if it is installed."""
    return "benchmark://cbench-v1/qsort" if Published().installed else stand_in("qsort")


def _switched_on() -> bool:
    return os.environ.get(SWITCH, "1").strip().lower() not in ("0", "false", "no", "off")
