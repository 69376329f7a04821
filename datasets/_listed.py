"""Datasets that have a list of their names."""

import abc
from collections.abc import Iterator, Sequence

from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound
from aiocg.datasets.uri import BenchmarkUri


class ListedDataset(Dataset):
    """A dataset whose benchmarks are named by the texts of a sequence; define `names`."""

    @property
    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """The names of the programs, in order; the last parts of their URIs."""

    @property
    def size(self) -> int:
        return len(self.names)

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        return (BenchmarkUri(self.scheme, self.name, name) for name in self.names)

    def uri_at(self, index: int) -> BenchmarkUri:
        if index < 0:
            raise IndexError(f"{self.name} has no benchmark number {index}")
        return BenchmarkUri(self.scheme, self.name, self.names[index])

    def position(self, uri: BenchmarkUri) -> int:
        try:
            if uri == BenchmarkUri(self.scheme, self.name, uri.path):
                return self.names.index(uri.path)
        except ValueError:
            pass
        raise BenchmarkNotFound(str(uri), f"{uri} is not one of the names of {self.root}")
