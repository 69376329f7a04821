"""What was measured of samples of the datasets, kept in a file beside this module for the datasets page of the docs."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import CacheError, DatasetError, DownloadError, InstallError, ToolchainNotFound
from aiocg.datasets.index import DatasetIndex
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain
from aiocg.host.threads import in_thread
from aiocg.programs.corpus import NOT_RUNNABLE, measure
from bench.datasets_page.statistics import Distribution, Statistics, statistics_of

__all__ = [
    "LIMIT",
    "LIMITS",
    "MEASUREMENTS",
    "Failure",
    "Measurement",
    "Spread",
    "measure_samples",
    "read_measurements",
    "sample_of",
    "take_measurement",
    "write_measurements",
]

MEASUREMENTS = Path(__file__).with_name("measurements.json")
"""The file of what was measured."""

LIMIT = 600
"""Programs that are measured of a dataset, unless `LIMITS` says another number."""

LIMITS: Mapping[str, int] = {"aiocg-v0": 200, "csmith-v0": 200, "llvm-stress-v0": 200}

SEED = 0  # of the shuffle that a sample is the beginning of

_SHOWN = 3  # names of programs that fail in the same way
_RELEASE = re.compile(r"\(([^()]*)\)$")  # what a description says of the generator


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a number is spread over programs.

    Attributes:
        minimum: the least value.
        percentiles: by per cent, the least value that so many of the programs do not exceed.
        maximum: the greatest value.
    """

    minimum: float
    percentiles: dict[int, float]
    maximum: float


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which programs fail.

    Attributes:
        kind: of the status of a program in the index, or what happened when it was run.
        programs: how many fail so.
        examples: the first names of those.
    """

    kind: str
    programs: int
    examples: tuple[str, ...]


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured of a sample of a dataset.

    Attributes:
        reason: why there is nothing, "" if there is: then the other attributes say nothing.
        llvm: the version of LLVM.
        clang: the version of the clang that compiled the programs.
        generator: the release of the program that generated them, if another one than ours did.
        sampled: how many programs were looked at.
        unavailable: how many of those could not be fetched.
        good: how many were compiled if need be, loaded and verified.
        duplicates: how many of those have the same code as one before them.
        failures: those of the others.
        run: how many were run.
        same: how many of those run well and do the same after `-Oz`.
        run_failures: what those do that were run and do not.
        sizes: by name, instructions and bytes of code before and after `-Oz`, and the ratio of the instructions.
    """

    reason: str = ""
    llvm: str = ""
    clang: str = ""
    generator: str = ""
    sampled: int = 0
    unavailable: int = 0
    good: int = 0
    duplicates: int = 0
    failures: tuple[Failure, ...] = ()
    run: int = 0
    same: int = 0
    run_failures: tuple[Failure, ...] = ()
    sizes: dict[str, Spread] = {}


def sample_of(dataset: Dataset) -> Dataset:
    """Return the programs that are measured: the first seeds of a generator, some drawn by lot of another dataset."""
    limit = LIMITS.get(dataset.name, LIMIT)
    whole = dataset if dataset.size <= limit else dataset.shuffled(SEED)
    return whole[:limit]


async def measure_samples(
    datasets: Iterable[Dataset], tell: Callable[[str], None] = lambda line: None
) -> dict[str, Measurement]:
    """Measure a sample of each of several datasets.

    What their indexes hold is not measured again. So one can stop this and go on later; to measure afresh, let
    `AIOCG_SITE_DATA` name an empty folder.

    Args:
        datasets: the datasets.
        tell: called with a line for people about each.

    Raises:
        DatasetError: when an index cannot be written.
        ServiceError: when no worker can be started.
    """
    found = {}
    for dataset in datasets:
        measurement = found[dataset.name] = await take_measurement(dataset, sample_of(dataset))
        tell(f"{dataset.name}: {measurement.reason or f'{measurement.good} of {measurement.sampled} programs'}")
    return found


async def take_measurement(dataset: Dataset, sample: Dataset) -> Measurement:
    """Measure programs of a dataset, running those that can be run.

    Args:
        dataset: the dataset.
        sample: a view of it.

    Raises:
        DatasetError, ServiceError: as `measure_samples`.
    """
    reason = await in_thread(lambda: _what_is_missing(sample))
    if reason:
        return Measurement(reason=reason)
    summary = await measure(sample, run=dataset.validatable)
    with scratch_folder() as folder:
        index = DatasetIndex(Path(folder, "sample.sqlite"), dataset.name)  # that of the dataset may hold more
        names = {str(uri) for uri in sample.benchmark_uris()}
        index.record(row for row in DatasetIndex.of(dataset).rows(llvm=summary.llvm) if row.uri in names)
        return _measurement(index, sample, summary.unavailable)


def _what_is_missing(sample: Dataset) -> str:
    """Say why there are no programs; "" if there are, whether they compile or not."""
    try:
        _ = sample[0].content
    except DownloadError as error:
        return f"{error.what} cannot be fetched"
    except (InstallError, CacheError, ToolchainNotFound) as error:
        return str(error).partition("\n")[0]
    except DatasetError:
        pass
    return ""


def _measurement(index: DatasetIndex, sample: Dataset, unavailable: int) -> Measurement:
    statistics = statistics_of(index)
    failures, run_failures = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for row in index.rows("status != 'ok'"):
        failures[row.status].append(row.uri)
    for row in index.rows(f"run NOT IN ('', 'ok', '{NOT_RUNNABLE}')"):
        run_failures[row.run].append(row.uri)
    return Measurement(
        llvm=statistics.llvm,
        clang=find_toolchain().version,
        generator=_generator(sample),
        sampled=sample.size,
        unavailable=unavailable,
        good=statistics.statuses.get("ok", 0),
        duplicates=statistics.duplicates,
        failures=_failures(failures),
        run=sum(count for outcome, count in statistics.runs.items() if outcome != NOT_RUNNABLE),
        same=statistics.runs.get("ok", 0),
        run_failures=_failures(run_failures),
        sizes=_sizes(statistics),
    )


def _failures(found: Mapping[str, list[str]]) -> tuple[Failure, ...]:
    """Return the failures, the most frequent first."""
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(Failure(kind=kind, programs=len(uris), examples=tuple(uris[:_SHOWN])) for kind, uris in ordered)


def _sizes(statistics: Statistics) -> dict[str, Spread]:
    found = {
        "instructions": statistics.instructions,
        "instructions_oz": statistics.instructions_oz,
        "ratio": statistics.ratio,
        "text_size": statistics.text_size,
        "text_size_oz": statistics.text_size_oz,
    }
    return {name: _spread(distribution) for name, distribution in found.items() if distribution}


def _spread(distribution: Distribution) -> Spread:
    return Spread(
        minimum=round(distribution.minimum, 3),
        percentiles={percent: round(value, 3) for percent, value in distribution.percentiles.items()},
        maximum=round(distribution.maximum, 3),
    )


def _generator(sample: Dataset) -> str:
    first = sample[0]
    release = _RELEASE.search(first.description)
    return release[1] if release and first.uri.scheme == "generator" else ""


def read_measurements(path: Path = MEASUREMENTS) -> dict[str, Measurement]:
    """Read what was measured, by the names of the datasets.

    Raises:
        OSError, msgspec.DecodeError: when it cannot be read.
    """
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Measurement])


def write_measurements(measurements: Mapping[str, Measurement], path: Path = MEASUREMENTS) -> None:
    """Write what was measured, by the names of the datasets.

    Raises:
        OSError: when it cannot be written.
    """
    encoded = msgspec.json.encode(dict(sorted(measurements.items())))
    path.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")
