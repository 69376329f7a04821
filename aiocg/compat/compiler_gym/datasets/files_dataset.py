"""A folder of files as a dataset."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiocg.compat.compiler_gym.datasets.benchmark import Benchmark
from aiocg.compat.compiler_gym.datasets.dataset import Dataset
from aiocg.compat.compiler_gym.datasets.uri import BenchmarkUri

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FilesDataset"]


class FilesDataset(Dataset):
    """The files below a folder. The path of a benchmark is that of its file, without the suffix.

    Args:
        dataset_root: the folder.
        benchmark_file_suffix: the end of the names of files that are benchmarks; every file is if it is empty.
        memoize_uris: keep the list of names.
        dataset_args: as for `Dataset`.
    """

    def __init__(
        self,
        dataset_root: str | Path | None,
        benchmark_file_suffix: str = "",
        memoize_uris: bool = True,
        **dataset_args: Any,
    ) -> None:
        super().__init__(**dataset_args)
        self.dataset_root: Any = dataset_root
        self.benchmark_file_suffix = benchmark_file_suffix
        self.memoize_uris = memoize_uris
        self._memoized_uris: tuple[str, list[str]] | None = None

    @property
    def size(self) -> int:
        """How many files there are."""
        self.install()
        return sum(
            sum(name.endswith(self.benchmark_file_suffix) for name in names)
            for _, _, names in os.walk(self.dataset_root)
        )

    def benchmark_uris(self) -> Iterator[str]:
        """Enumerate the files folder by folder, in the order of their names."""
        if not self.memoize_uris:
            yield from self._search()
            return
        if self._memoized_uris is None or self._memoized_uris[0] != self.benchmark_file_suffix:
            self._memoized_uris = (self.benchmark_file_suffix, list(self._search()))
        yield from self._memoized_uris[1]

    def _search(self) -> Iterator[str]:
        self.install()
        suffix = self.benchmark_file_suffix
        for folder, folders, names in os.walk(self.dataset_root):
            folders.sort()
            below = os.path.relpath(folder, self.dataset_root)
            for name in sorted(names):
                if name.endswith(suffix):
                    path = os.path.normpath(os.path.join(below, name.removesuffix(suffix) if suffix else name))
                    yield f"{self.name}/{path}"

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of one file.

        Raises:
            LookupError: when there is none.
        """
        self.install()
        path = Path(os.path.normpath(f"{self.dataset_root}/{uri.path}{self.benchmark_file_suffix}"))
        if not path.is_file() or not path.is_relative_to(os.path.normpath(self.dataset_root)):
            raise LookupError(f"Benchmark not found: {uri} (file not found: {path})")
        benchmark: Benchmark = self.benchmark_class.from_file(uri, path)
        return benchmark

    def _random_benchmark(self, random_state: "np.random.Generator") -> Benchmark:
        return self.benchmark(str(random_state.choice(list(self.benchmark_uris()))))
