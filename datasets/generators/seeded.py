"""What generated datasets share: a program is named by a seed, and by parameters for whatever generates it.

`generator://csmith-v0/7?max-funcs=3&pointers=no` is seed 7, with a whole number and a switch.
"""

import abc
import itertools
import weakref
from collections.abc import Iterator, Mapping

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound
from aiocg.datasets.generators.parameters import Integer, Parameter, Value, read_parameters
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["SEEDS", "SeededDataset"]

SEEDS = 2**32
"""How many seeds there are; the first is 0."""


class SeededDataset(Dataset):
    """The programs that a generator makes of the seeds from 0 to `SEEDS - 1`.

    It counts as unbounded: its size is 0. But the n-th program is the one of seed n, at once, so that slices and random
    draws work. Enumerated are the programs without parameters.

    To make one, define `benchmark_of_seed`.

    Args:
        name: such as `generator://csmith-v0`.
        description: one line for people.
        parameters: what the query of a URI may say, by name. Names are words joined by hyphens.
        license: the licence of the programs.
        references: titles and addresses of where the generator comes from.
        validatable: whether its programs can be run.
        sort_order: datasets are listed by this number, then by name.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        parameters: Mapping[str, Parameter] | None = None,
        license: str = "",
        references: Mapping[str, str] | None = None,
        validatable: bool = False,
        sort_order: int = 0,
    ) -> None:
        super().__init__(
            name,
            description,
            license=license,
            references=references,
            validatable=validatable,
            sort_order=sort_order,
        )
        self.parameters = dict(parameters or {})
        self._benchmarks: weakref.WeakValueDictionary[BenchmarkUri, Benchmark] = weakref.WeakValueDictionary()

    @abc.abstractmethod
    def benchmark_of_seed(self, uri: BenchmarkUri, seed: int, values: Mapping[str, Value]) -> Benchmark:
        """Make a benchmark, which costs next to nothing before its content is asked for.

        Args:
            uri: its name.
            seed: from 0 to `SEEDS - 1`.
            values: of the parameters that were given, in the order of `parameters`.
        """

    @property
    def size(self) -> int:
        """0: there are more programs than anybody enumerates."""
        return 0

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate the programs without parameters in the order of their seeds."""
        return map(self.uri_at, itertools.islice(itertools.count(), SEEDS))

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the name of the program of a seed.

        Raises:
            IndexError: when there is no such seed.
        """
        if not 0 <= index < SEEDS:
            raise IndexError(f"{self.name} has no seed {index}: seeds are from 0 to {SEEDS - 1}")
        return BenchmarkUri(self.scheme, self.name, str(index))

    def position(self, uri: BenchmarkUri) -> int:
        """Return the seed of a program without parameters.

        Raises:
            BenchmarkNotFound: when it is none.
        """
        if uri.params:
            raise BenchmarkNotFound(str(uri), f"{uri} has parameters: {self.name} enumerates programs without")
        return self._seed(uri)

    def benchmark_from_seed(self, seed: int, **parameters: Value) -> Benchmark:
        """Make the benchmark of a seed.

        Args:
            seed: from 0 to `SEEDS - 1`.
            parameters: by name, with underscores for the hyphens: `max_funcs=3, pointers=False`.

        Raises:
            BenchmarkNotFound: when there is no such seed.
            InvalidBenchmarkUri: when there is no such parameter, or it cannot have that value.
        """
        params = ((name.replace("_", "-"), _spelling(value)) for name, value in parameters.items())
        return self.benchmark(BenchmarkUri(self.scheme, self.name, str(int(seed)), tuple(params)))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of a seed; while somebody holds it, everybody gets the same one.

        Raises:
            BenchmarkNotFound: when there is no such seed.
            InvalidBenchmarkUri: when there is no such parameter, or it cannot have that value.
        """
        if known := self._benchmarks.get(uri):
            return known
        seed, values = self._seed(uri), read_parameters(uri, self.name, self.parameters, self.uri_at(1))
        benchmark = self.benchmark_of_seed(uri, seed, values)
        return self._benchmarks.setdefault(uri, benchmark)

    def _seed(self, uri: BenchmarkUri) -> int:
        seed = Integer(0, SEEDS - 1).parse(uri.path)
        if seed is None or uri.fragment:
            rest = uri.path + (f"#{uri.fragment}" if uri.fragment else "")
            raise BenchmarkNotFound(
                str(uri),
                f"{self.name} has no program {rest!r}: its programs are named by seeds, which are whole numbers "
                f"from 0 to {SEEDS - 1}",
                self._first_names(),
            )
        return seed


def _spelling(value: Value) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
