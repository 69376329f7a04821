"""Our own programs in place of those of cBench where these cannot be fetched, so that old scripts still run.

The original programs were published at a single address, which may be gone; `crc32` is also in CompilerGym's wheel. A
stand-in is a similar program, not the same one, so results on one say nothing about the other. The user is warned once
for each program that is replaced.
"""

import contextlib
import functools
import os
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

from aiocg.compat._deprecation import outside
from aiocg.compat._errors import DatasetInitError, DownloadFailed, translated
from aiocg.compat.datasets._benchmark import Benchmark, BenchmarkUri
from aiocg.compat.datasets._dataset import Dataset
from aiocg.compat.datasets._native import NativeDataset
from aiocg.datasets.benchmark import Benchmark as Native
from aiocg.datasets.dataset import Dataset as NativeSet
from aiocg.datasets.errors import DownloadError
from aiocg.datasets.package_index import Wheel, fetch_members
from aiocg.datasets.programs import ProgramsDataset
from aiocg.datasets.published.cbench import CBenchDataset as Published
from aiocg.datasets.uri import BenchmarkUri as NativeUri

SWITCH = "AIOCG_COMPAT_STAND_INS"

STAND_INS: dict[str, str] = tomllib.loads(Path(__file__).with_name("stand_ins.toml").read_text("utf-8"))
"""The program of `programs-v0` that replaces each program of `cbench-v1`."""

WHEEL = Wheel(
    "compiler_gym-0.2.5-py3-none-manylinux2014_x86_64.whl",
    "49a335c925ccc493c2e1b801867986982f0c7dd500041775fa6b3247b1d54ccf",
    {
        "compiler_gym-0.2.5.data/purelib/compiler_gym/third_party/cbench/cbench-v1/crc32.bc": (
            "eeeed82c639e34d923d8c03491236f1f579a6c186cb7e4658c9f6c5c34dc60d5"
        )
    },
)
"""CompilerGym's wheel, which contains one program of `cbench-v1`."""

INPUTS = 20  # of each program of cBench: `cbench-v1/crc32?dataset=19` is the last

_told: set[str] = set()


class StandInWarning(UserWarning):
    """A program runs in place of the requested one."""


class CBenchDataset(NativeDataset):
    """`cbench-v1`: the original programs if they are installed or can be fetched, and stand-ins otherwise.

    The names are always listed. With `AIOCG_COMPAT_STAND_INS=0`, a missing program is an error.

    Args:
        site_data_base: ignored; `AIOCG_SITE_DATA` says where aiocg installs datasets.
    """

    def __init__(self, site_data_base: object = None, *, native: NativeSet | None = None) -> None:
        super().__init__(native or Published(), can_be_validated="Partially")

    @property
    def can_be_had(self) -> bool:
        return _switched_on() or super().can_be_had

    @property
    def size(self) -> int:
        return len(STAND_INS)

    def benchmark_uris(self) -> Iterator[str]:
        return (f"{self.name}/{name}" for name in STAND_INS)

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        if self.deprecated:
            Dataset.install(self)  # warns
        name = uri.path.strip("/")
        if name not in STAND_INS:
            raise LookupError(f"Benchmark not found: {uri} (there are {', '.join(STAND_INS)})")
        chosen = uri.params.get("dataset", ["0"])[-1]
        if not chosen.isascii() or not chosen.isdigit() or int(chosen) >= INPUTS:
            raise ValueError(f"Invalid dataset: {chosen}")
        try:
            self.install_programs()
        except (DatasetInitError, DownloadFailed) as error:
            if name == "crc32":
                with contextlib.suppress(DownloadError):
                    return self._made(uri, fetch_members(WHEEL)["crc32.bc"])
            if not _switched_on():
                raise
            return self._stand_in(uri, name, error)
        return super().benchmark_from_parsed_uri(uri)

    def install(self) -> None:
        try:
            super().install()
        except (DatasetInitError, DownloadFailed) as error:
            if not _switched_on():
                raise
            _warn(f"{self.name} is not installed; other programs run in place of its own", error)

    def install_programs(self) -> None:
        """Fetch the programs but not their inputs."""
        if not self.native.installed:
            from aiocg.datasets.tar import TarDataset

            with self._fetching():
                assert isinstance(self.native, TarDataset)
                TarDataset.install(self.native)

    def _random_benchmark(self, random_state: object) -> Benchmark:
        names = sorted(STAND_INS)
        return self.benchmark(f"{self.name}/{names[int(random_state.integers(len(names)))]}")  # type: ignore[attr-defined]

    def _made(self, uri: BenchmarkUri, file: Path) -> Benchmark:
        assert isinstance(self.native, Published)
        with translated(uri):
            return Benchmark.from_native(self.native.make_benchmark(NativeUri.from_string(str(uri)), lambda: file))

    def _stand_in(self, uri: BenchmarkUri, name: str, error: OSError) -> Benchmark:
        target = stand_in(name)
        if name not in _told:
            _told.add(name)
            _warn(f"{target} runs in place of {uri}. It is another program: results are not comparable", error)
        with translated(uri):
            return Benchmark.from_native(_program(target), asked_for=str(uri))


def stand_in(name: str) -> str:
    """Return the URI of the program that replaces one of cBench."""
    return f"benchmark://programs-v0/{STAND_INS[name]}"


@functools.cache
def _program(uri: str) -> Native:
    """Return one of our programs; it is loaded only once."""
    return ProgramsDataset().benchmark(NativeUri.from_string(uri))


def default_benchmark() -> str:
    """Return the URI of the default program: `qsort`, from cBench if that is installed."""
    return "benchmark://cbench-v1/qsort" if Published().installed else stand_in("qsort")


def _warn(what: str, why: OSError) -> None:
    warnings.warn(f"{what}. Why: {why}. {SWITCH}=0 makes this an error", StandInWarning, stacklevel=outside())


def _switched_on() -> bool:
    return os.environ.get(SWITCH, "1").strip().lower() not in ("0", "false", "no", "off")
