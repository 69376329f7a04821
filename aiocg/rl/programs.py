"""Training and test programs, with their baselines."""

import hashlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.program_file import SUFFIXES
from aiocg.env.env import Env
from aiocg.errors import AiocgError, ServiceError
from aiocg.runtime import Runtime
from aiocg.search.lanes import spread
from aiocg.transport.system import processors

__all__ = ["HELD_OUT", "STARTS", "Program", "find_programs", "hash_of", "prepare_programs"]

STARTS = {"O0": (), "OzMinsize": ("mark<minsize>", "clang<Oz>")}
"""What an episode begins with, by name: nothing, or -Oz of the program marked `minsize`, as `clang -Oz` does."""

HELD_OUT = ("programs-v0", "cbench-v1", "chstone-v0", "mibench-v1", "polybench-v1", "npb-v0", "blas-v0", "opencv-v0")
"""Datasets that nothing is trained on."""

LANES = 2 * len(processors())  # programs compiled and measured at a time

COSTS = ("IrInstructionCount", "IrInstructionCountOz", "IrInstructionCountOzMinsize")


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A program whose content is at hand.

    Attributes:
        uri: its name.
        starts: the program that an episode begins with, by the name of the start.
        unoptimised, oz, oz_minsize: its number of instructions as it came, after -Oz, and after -Oz of the program
            marked `minsize`, which is the stronger baseline.
    """

    uri: str
    starts: dict[str, Benchmark]
    unoptimised: float
    oz: float
    oz_minsize: float


class HeldOut(AiocgError):
    """A program to train on is of a dataset that is kept for tests."""


def find_programs(runtime: Runtime, sources: Sequence[str], count: int, first: int = 0) -> Iterator[Benchmark]:
    """Return the benchmarks that some words name, one of each source in turn.

    Args:
        runtime: whose datasets are meant.
        sources: names of datasets or programs, files, or folders of files.
        count: how many there are to be at most, as many of each source.
        first: the place of the first program of each dataset: its seed or, if the dataset has an end, its place when
            shuffled with the seed 0. The files of a folder are shuffled, too, but taken from the beginning.

    Raises:
        DatasetError: when there is no such dataset, program or file.
    """
    each = -(-count // max(len(sources), 1))
    streams: list[Iterator[Benchmark]] = []
    for source in sources:
        if source.partition("://")[2] in runtime.datasets or source in runtime.datasets:
            dataset = runtime.datasets[source]
            shuffled = dataset.shuffled(seed=0) if dataset.size else dataset  # else mostly programs of one origin
            last = min(first + each, dataset.size) if dataset.size else first + each
            streams.append(iter(shuffled[first:last].benchmarks()))
        elif (path := Path(source).expanduser()).is_dir():
            files = sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file())
            random.Random(0).shuffle(files)
            streams.append(map(Benchmark.from_file, files[:each]))
        else:
            streams.append(iter([Benchmark.from_file(path) if path.exists() else runtime.datasets.benchmark(source)]))
    dealt = (one for turn in itertools.zip_longest(*streams) for one in turn if one is not None)
    return itertools.islice(dealt, count)


def check_training(names: Iterable[str]) -> None:
    """Check that no name of a dataset or a program, and no path, is of what is kept for tests.

    Raises:
        HeldOut: when one is.
    """
    for name in names:
        path = Path(name).expanduser()
        parts = path.resolve().parts if path.exists() else (name.rpartition("://")[2].partition("/")[0],)
        if not set(HELD_OUT).isdisjoint(parts):
            raise HeldOut(f"{name} is kept for tests: nothing is trained on {', '.join(HELD_OUT)}")


def check_contents(runtime: Runtime, benchmarks: Iterable[Benchmark]) -> None:
    """Check that no program has the source or content of one that is kept for tests and at hand.

    Args:
        runtime: whose datasets are compared with.
        benchmarks: the programs; those of generators are of nobody else.

    Raises:
        HeldOut: when one has.
        DatasetError: when a program cannot be read.
    """
    known: dict[bytes, str] = {}
    for benchmark in benchmarks:
        if benchmark.uri.scheme == "generator":
            continue
        for name in () if known else HELD_OUT:
            if name in runtime.datasets and runtime.datasets[name].installed:
                known |= {one: str(test.uri) for test in runtime.datasets[name].benchmarks() for one in _digests(test)}
        for digest in _digests(benchmark):
            if digest in known:
                raise HeldOut(f"{benchmark.uri} is the same as {known[digest]}, which is kept for tests: leave it out")


def _digests(benchmark: Benchmark) -> Iterator[bytes]:
    return (hashlib.sha256(source.contents).digest() for source in benchmark.sources)


def hash_of(uris: Iterable[str]) -> str:
    """Return the SHA-256 of names of programs, whatever their order."""
    return hashlib.sha256("".join(f"{uri}\n" for uri in sorted(uris)).encode()).hexdigest()


async def prepare_programs(
    runtime: Runtime,
    benchmarks: Iterable[Benchmark],
    *,
    starts: Sequence[str] = ("O0",),
    largest: int | None = None,
    progress: Callable[[int, int], None] = lambda kept, left_out: None,
) -> list[Program]:
    """Compile and measure programs on all workers; those that do not load, or are too large or empty, are left out.

    Args:
        runtime: whose workers do it.
        benchmarks: the programs.
        starts: names of `STARTS` to prepare.
        largest: instructions of a program, at most.
        progress: told how many were kept and left out so far.

    Returns:
        The programs, in the order that they were given in.
    """
    waiting = iter(enumerate(benchmarks))
    found: dict[int, Program] = {}
    left_out = 0

    async def work() -> None:
        nonlocal left_out
        env = await runtime.make("llvm-v0")
        try:
            for place, benchmark in waiting:
                program = await _prepared(env, benchmark, starts, largest)
                if program is None:
                    left_out += 1
                else:
                    found[place] = program
                progress(len(found), left_out)
        finally:
            await env.close()

    await spread([work] * LANES)
    return [found[place] for place in sorted(found)]


async def _prepared(env: Env, benchmark: Benchmark, starts: Sequence[str], largest: int | None) -> Program | None:
    try:
        await env.reset(benchmark=benchmark)
        if largest is not None and await env.observe(COSTS[0]) > largest:
            return None
        costs = await env.observe(*COSTS)
        if min(costs) < 1:
            return None
        begun = {}
        for start in starts:
            begun[start] = benchmark
            if STARTS[start]:
                await env.apply(STARTS[start], observation_spaces=[])
                bitcode = await env.observe("Bitcode")
                begun[start] = Benchmark.from_file_contents(benchmark.uri, bitcode)
                await env.reset()
    except (DatasetError, ServiceError):
        return None
    return Program(str(benchmark.uri), begun, *map(float, costs))


def default_actions() -> tuple[str, ...]:
    """Return the texts of the actions that policies choose from unless others are given."""
    text = Path(__file__).with_name("actions.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))
