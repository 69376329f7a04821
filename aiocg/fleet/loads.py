"""Which benchmarks a worker process has loaded, and why others could not be loaded."""

from collections import OrderedDict
from collections.abc import Iterator

from aiocg.datasets.benchmark import Benchmark
from aiocg.fleet.pending import Pending
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.recovery import PendingLoad, PendingUnload

__all__ = ["Loads"]

MAX_LOADED = 256  # benchmarks that a worker keeps loaded for resets; running sessions do not need theirs


class Loads:
    """The benchmarks of one worker slot; the quarantine learns which ones workers of this kind have loaded."""

    def __init__(self, kind: str, quarantine: Quarantine) -> None:
        self._kind = kind
        self._quarantine = quarantine
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._errors: dict[str, Exception] = {}

    def forget(self) -> None:
        """Start anew with a process that has loaded nothing."""
        self._loaded.clear()

    def need(self, benchmark: Benchmark, timeout: float, needed_by: Pending) -> Iterator[Pending]:
        """Generate the requests after which a benchmark is loaded."""
        key = benchmark.key
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return
        self._errors.pop(key, None)
        self._loaded[key] = None
        if len(self._loaded) > MAX_LOADED:
            yield PendingUnload(self._loaded.popitem(last=False)[0])
        yield PendingLoad(benchmark, timeout, needed_by, self._succeeded, self._failed)

    def error(self, benchmark: Benchmark) -> Exception | None:
        """Return why a benchmark could not be loaded, None if it was not tried or succeeded."""
        return self._errors.get(benchmark.key)

    def _succeeded(self, benchmark: Benchmark) -> None:
        self._quarantine.loaded(self._kind, benchmark.key)

    def _failed(self, benchmark: Benchmark, error: Exception) -> None:
        self._loaded.pop(benchmark.key, None)
        self._errors[benchmark.key] = error
        while len(self._errors) > MAX_LOADED:  # the resets that needed the oldest errors have long failed
            del self._errors[next(iter(self._errors))]
