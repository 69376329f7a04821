"""Goes through a dataset of very many names: `python million_names.py NAMES FOLDER`, of which the names are made there.

Prints a JSON object: the seconds of the processor for `each` name and for what is done `once`, and `memory`, the bytes
by which the process grew over each tenth of a shuffled iteration. Memory is what the process itself has allocated, not
the pages of the file with the names, which the system drops when it needs the room.
"""

import itertools
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aiocg.datasets import Benchmark, BenchmarkUri
from aiocg.datasets._manifest import Manifest
from aiocg.datasets.dataset import ListedDataset
from aiocg.datasets.registry import mix

SAMPLE = 20_000


class Names(ListedDataset):
    """Benchmarks whose names are in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__("names-v0", "very many names")
        self._names = Manifest.read(path)

    @property
    def names(self) -> Sequence[str]:
        """The names, as the file has them."""
        return self._names

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Return a benchmark, unread."""
        self.position(uri)
        return Benchmark(uri, lambda: b"")


def anonymous_bytes() -> int:
    """Return the memory that this process has allocated and uses."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def timed(function: Callable[[], Any]) -> float:
    """Return how many seconds of the processor a function takes."""
    started = time.process_time()
    function()
    return time.process_time() - started


def growth(names: Iterator[BenchmarkUri], count: int) -> list[int]:
    """Go through names, and return by how many bytes the process grew over each tenth, without the first."""
    marks = []
    for number, _ in enumerate(names, 1):
        if number % (count // 10) == 0:
            marks.append(anonymous_bytes())
    return [after - before for before, after in itertools.pairwise(marks)]


def main(count: int, folder: Path) -> dict[str, Any]:
    """Do everything once."""
    os.environ["AIOCG_CACHE"] = str(folder / "cache")
    path = folder / "names.txt"
    path.write_text("".join(f"project{number % 997}/source/file{number}_function\n" for number in range(count)))
    opening = timed(lambda: Names(path))
    dataset = Names(path)
    rng = random.Random(0)
    shuffled = dataset.shuffled(0)
    sets = dataset.split(0)
    test = sets["test"]
    places = [rng.randrange(sets["train"].size) for _ in range(SAMPLE)]
    uris = [shuffled.uri_at(place) for place in places]
    mixture = mix({dataset: 0.9, sets["test"]: 0.1})
    memory = growth(shuffled.benchmark_uris(), count)
    return {
        "each": {
            "name, in order": timed(lambda: sum(1 for _ in dataset.benchmark_uris())) / count,
            "name, shuffled": timed(lambda: sum(1 for _ in shuffled.benchmark_uris())) / count,
            "benchmark, shuffled": timed(lambda: sum(1 for _ in shuffled[:SAMPLE])) / SAMPLE,
            "name at random, train set": timed(lambda: [sets["train"].uri_at(place) for place in places]) / SAMPLE,
            "is a name in the test set?": timed(lambda: [uri in test for uri in uris]) / SAMPLE,
            "name, mixture of two": timed(lambda: [mixture.uri_at(number) for number in range(SAMPLE)]) / SAMPLE,
        },
        "once": {
            "open the names, first time": opening,
            "open the names, again": timed(lambda: Names(path)),
            "shuffle, split, and slice": timed(lambda: dataset.shuffled(1).split(2)["train"][:1000]),
        },
        "memory": memory,
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]))))
