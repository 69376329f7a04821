"""Several datasets as one endless stream of benchmarks, in given proportions.

The stream consists of blocks of `BLOCK` picks. Each block has each dataset's share as closely as possible, and the
shares are exact in the long run; the order within each block is random. So the number of a pick determines its dataset,
and how many picks from that dataset came before.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from aiocg.datasets._index_views import Permutation
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.uri import BenchmarkUri

BLOCK = 64  # picks


class Mixture:
    """An endless, seeded stream of benchmarks from several datasets, in constant memory.

    Each dataset is traversed in a random order, every benchmark once, then in another order again. Of an unbounded one
    only the first 2**32 benchmarks are used.

    It is the same on every machine, and can be resumed at any pick::

        for number, benchmark in enumerate(mixture.benchmarks(start), start): ...

    Args:
        weights: how often each dataset is picked, relative to the others.
        seed: any whole number.

    Raises:
        DatasetError: when there is no dataset, one is empty, or a weight is not a positive number.
    """

    def __init__(self, weights: Mapping[Dataset, float], seed: int = 0) -> None:
        self.datasets = tuple(weights)
        self.seed = seed
        self._weights = _whole_numbers(weights)
        self._sizes = [dataset.extent for dataset in self.datasets]
        for dataset, size in zip(self.datasets, self._sizes, strict=True):
            if not size:
                raise DatasetError(f"{dataset.root} is empty: there is nothing to mix in")
        self._block = functools.lru_cache(maxsize=1)(self._picks_of_block)
        self._order = functools.lru_cache(maxsize=2 * len(self.datasets))(self._order_of_epoch)

    def pick(self, number: int) -> tuple[Dataset, int]:
        """Return the dataset of a pick, and the benchmark's number in it.

        Args:
            number: of the pick, from 0.

        Raises:
            IndexError: when it is negative.
        """
        if number < 0:
            raise IndexError(f"picks are numbered from 0, and {number} is below")
        block, place = divmod(number, BLOCK)
        which, before = self._block(block)[place]
        epoch, index = divmod(before, self._sizes[which])
        return self.datasets[which], self._order(which, epoch)[index]

    def uri_at(self, number: int) -> BenchmarkUri:
        """Return the name of a pick.

        Raises:
            IndexError: when the number is negative.
        """
        dataset, index = self.pick(number)
        return dataset.uri_at(index)

    def benchmark_uris(self, start: int = 0) -> Iterator[BenchmarkUri]:
        """Return the names from a pick on, without an end."""
        return map(self.uri_at, itertools.count(start))

    def benchmarks(self, start: int = 0) -> Iterator[Benchmark]:
        """Return the benchmarks from a pick on, without an end."""
        for number in itertools.count(start):
            dataset, index = self.pick(number)
            yield dataset.benchmark_from_parsed_uri(dataset.uri_at(index))

    def __iter__(self) -> Iterator[Benchmark]:
        return self.benchmarks()

    def __repr__(self) -> str:
        shares = (f"{weight} of {d.root}" for d, weight in zip(self.datasets, self._weights, strict=True))
        return f"<Mixture of {', '.join(shares)}>"

    def _picks_of_block(self, block: int) -> list[tuple[int, int]]:
        """Return for each pick of a block which dataset it is from, and how many picks of it came before."""
        before, after = (self._counts(number * BLOCK) for number in (block, block + 1))
        shares = ([which] * (after[which] - before[which]) for which in range(len(before)))
        cards = list(itertools.chain.from_iterable(shares))
        picks = []
        for place in Permutation(BLOCK, self.seed, f"block {block}"):
            which = cards[place]
            picks.append((which, before[which]))
            before[which] += 1
        return picks

    def _counts(self, picks: int) -> list[int]:
        """Divide the first picks among the datasets, monotonically in their number."""
        counts, left = [], sum(self._weights)
        for weight in self._weights:
            counts.append(picks * weight // left)
            picks -= counts[-1]
            left -= weight
        return counts

    def _order_of_epoch(self, which: int, epoch: int) -> Permutation:
        return Permutation(self._sizes[which], self.seed, f"epoch {epoch} of {which}, {self.datasets[which].root}")


def _whole_numbers(weights: Mapping[Dataset, float]) -> list[int]:
    """Return the same proportions as integers, so that rounding cannot differ between machines."""
    if not weights:
        raise DatasetError("there is no dataset to mix")
    for dataset, weight in weights.items():
        if not 0 < weight < math.inf:
            raise DatasetError(f"the weight of {dataset.root} must be a positive number, not {weight}")
    exact = [Fraction(str(weight)) for weight in weights.values()]
    scale = math.lcm(*(weight.denominator for weight in exact))
    return [int(weight * scale) for weight in exact]
