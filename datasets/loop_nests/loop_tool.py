"""`loop_tool-cpu-v0` and `loop_tool-cuda-v0`: sums of two vectors, as CompilerGym's loop_tool environment has them."""

import re
from collections.abc import Iterator
from typing import Literal

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound
from aiocg.datasets.loop_nests.dataset import expression_benchmark
from aiocg.datasets.uri import BenchmarkUri

KIND = "loop_tool expression"
"""The `Dataset.kind` of these datasets."""

LARGEST = 8 * 1024 * 1024 - 1  # elements

_NUMBER = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)


class LoopToolDataset(Dataset):
    """Sums of two vectors of N elements: `benchmark://loop_tool-cpu-v0/4096` is one of 4096, for the processor.

    The content is a line that names the device, and the expression.
    """

    def __init__(self, device: Literal["cpu", "cuda"]) -> None:
        where = {"cpu": "the processor", "cuda": "a GPU"}[device]
        super().__init__(
            f"benchmark://loop_tool-{device}-v0",
            f"sums of two vectors of any length, on {where}",
            license="MIT",
            references={"loop_tool": "https://github.com/facebookresearch/loop_tool"},
            sort_order=20,
            kind=KIND,
        )
        self.device = device

    @property
    def size(self) -> int:
        """How many lengths there are."""
        return LARGEST

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate them from the shortest to the longest."""
        return map(self.uri_at, range(LARGEST))

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the name of the one of `index` + 1 elements; raise IndexError when there is none."""
        if not 0 <= index < LARGEST:
            raise IndexError(f"{self.name} has no benchmark number {index}")
        return BenchmarkUri(self.scheme, self.name, str(index + 1))

    def position(self, uri: BenchmarkUri) -> int:
        """Return the number of elements less one; raise BenchmarkNotFound when it is not one of the names."""
        return self._elements(uri) - 1

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of a number of elements; raise BenchmarkNotFound when there is none."""
        elements = self._elements(uri)
        text = f"target {self.device}\nC[i:{elements}] = A[i] + B[i]\n"
        return expression_benchmark(uri, text, f"the sum of two vectors of {elements:,} elements")

    def _elements(self, uri: BenchmarkUri) -> int:
        plain = (uri.scheme, uri.dataset, uri.params, uri.fragment) == (self.scheme, self.name, (), "")
        if not plain or not _NUMBER.fullmatch(uri.path) or int(uri.path) > LARGEST:
            rest = str(uri).removeprefix(f"{self.root}/")
            raise BenchmarkNotFound(
                str(uri),
                f"{self.name} has no benchmark {rest!r}: they are named by numbers of elements, from 1 to {LARGEST}",
                [f"{self.root}/1", f"{self.root}/1024"],
            )
        return int(uri.path)
