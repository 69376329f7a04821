"""Metrics of a runtime or a node for Prometheus: numbers that exist anyway, read when somebody asks.

A *source* is a function that yields families of numbers. Nothing is registered anywhere for the whole process, nothing
has a clock of its own, and labels have few values: kinds, slots, causes, codes, and the names of authorised clients.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from aiocg.errors import AiocgError
from aiocg.supervision import SlotState

try:
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError:
    raise AiocgError("metrics need prometheus-client: pip install 'aiocg[telemetry]'") from None

if TYPE_CHECKING:
    from aiocg.runtime import Runtime
    from aiocg.supervisor import Supervisor

__all__ = ["MetricsServer", "Source", "of_runtime", "text"]

Source = Callable[[], Iterable[Metric]]

PATIENCE: Final = 5.0  # seconds that an answer may wait for a busy event loop


def text(*sources: Source) -> str:
    """Return the numbers of some sources in Prometheus' text format."""
    return generate_latest(_registry(*sources)).decode()


class MetricsServer:
    """Serves the numbers of some sources over HTTP, for Prometheus to fetch.

    Requests are answered in threads, so that a slow reader holds up nobody, but the sources are read on the event loop.

    Attributes:
        address: where it listens, as `HOST:PORT`.

    Args:
        address: where to listen: `HOST:PORT`, or a port on the loopback interface, 0 for any that is free. Whoever
            can connect can read the numbers.
        sources: what to serve.

    Raises:
        AiocgError: when the address is none.
        OSError: when nobody can listen there.
    """

    def __init__(self, address: str, *sources: Source) -> None:
        host, port = _parse(address)
        loop = asyncio.get_running_loop()

        async def gather() -> list[Metric]:
            return [metric for source in sources for metric in source()]

        def read() -> list[Metric]:
            return asyncio.run_coroutine_threadsafe(gather(), loop).result(PATIENCE)

        self._server, self._thread = start_http_server(port, host, _registry(read))
        self.address = f"{_bracketed(host)}:{self._server.server_port}"

    async def close(self) -> None:
        """Listen no more."""
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()
        await asyncio.to_thread(self._thread.join)


def of_runtime(runtime: "Runtime") -> Source:
    """Return a source of what a runtime knows of its workers, sessions and requests."""
    return lambda: _Family.all(_read_supervisors(runtime.supervisors()))


Sample = tuple["_Family", tuple[object, ...], float]


class _Family:
    """One metric: its name, without the ending that counters have, what it says, and its labels."""

    def __init__(self, name: str, help: str, *labels: str, counter: bool = False, unit: str = "") -> None:
        self.name, self.help, self.labels, self.unit = name, help, labels, unit
        self._make: Any = CounterMetricFamily if counter else GaugeMetricFamily

    @staticmethod
    def all(samples: Iterable[Sample]) -> list[Metric]:
        """Add up the samples that have the same labels."""
        sums: dict[_Family, Counter[tuple[str, ...]]] = {}
        for family, labels, value in samples:
            sums.setdefault(family, Counter())[tuple(map(str, labels))] += value  # type: ignore[assignment]
        return [family._metric(values) for family, values in sums.items()]

    def _metric(self, values: "Counter[tuple[str, ...]]") -> Metric:
        metric: Metric = self._make(self.name, self.help, labels=self.labels)
        for labels, value in sorted(values.items()):
            metric.add_metric(labels, value)  # type: ignore[attr-defined]
        return metric


WORKERS = _Family("aiocg_workers", "Worker slots by state.", "kind", "state")
STARTS = _Family("aiocg_worker_starts", "Worker processes started.", "kind", counter=True)
DEATHS = _Family("aiocg_worker_deaths", "Worker processes that ended, by cause.", "kind", "cause", counter=True)
MEMORY = _Family("aiocg_worker_memory_bytes", "Resident memory of each worker.", "kind", "slot")
SESSIONS = _Family("aiocg_sessions", "Sessions of environments and snapshots.", "kind")
REBUILT = _Family("aiocg_sessions_rebuilt", "Sessions rebuilt on another process.", "kind", counter=True)
LOST = _Family("aiocg_sessions_lost", "Sessions that are beyond rebuilding.", "kind", counter=True)
REQUESTS = _Family("aiocg_requests", "Requests sent to workers, repairs and repeats included.", "kind", counter=True)
RESENT = _Family("aiocg_requests_resent", "Requests sent again after their worker ended.", "kind", counter=True)
FAILED = _Family("aiocg_requests_failed", "Requests that failed, by code.", "kind", "code", counter=True)
IN_FLIGHT = _Family("aiocg_requests_in_flight", "Requests that a worker has and has not answered.", "kind")
QUEUED = _Family("aiocg_requests_queued", "Requests that wait for a worker to be started.", "kind")
QUEUED_BYTES = _Family("aiocg_queued_bytes", "Encoded requests that workers have not taken yet.", "kind")
SENT = _Family("aiocg_sent_bytes", "Encoded requests sent to workers.", "kind", counter=True)
RECEIVED = _Family("aiocg_received_bytes", "Encoded replies received from workers.", "kind", counter=True)
SUSPECTS = _Family("aiocg_quarantined", "Questions that killed their workers and are not asked again.", "kind")
COMPILER = _Family("aiocg_compiler_seconds", "Time that workers have spent in the compiler.", "kind", counter=True)


def _read_supervisors(supervisors: Iterable["Supervisor"]) -> Iterator[Sample]:
    for supervisor in supervisors:
        kind = (supervisor.kind,)
        yield from ((WORKERS, (*kind, state.value), 0) for state in SlotState)
        suspects = [one for one in supervisor.workers[0].quarantine if one.question.kind == supervisor.kind]
        yield SUSPECTS, kind, len(suspects)
        for index, (slot, worker, look) in enumerate(supervisor.looks()):
            tally, counts = worker.tally, look.counts if look is not None else None
            yield WORKERS, (*kind, slot.state.value), 1
            yield STARTS, kind, tally.starts
            yield from ((DEATHS, (*kind, cause), number) for cause, number in tally.deaths.items())
            yield MEMORY, (*kind, index), look.memory if look is not None else 0
            yield SESSIONS, kind, worker.load_now().sessions
            yield REBUILT, kind, tally.rebuilt
            yield LOST, kind, tally.lost
            yield REQUESTS, kind, worker.sent
            yield RESENT, kind, tally.resent
            yield from ((FAILED, (*kind, code), number) for code, number in tally.failures.items())
            yield IN_FLIGHT, kind, worker.waiting
            yield QUEUED, kind, worker.pending - worker.waiting
            channel = worker.channel
            yield QUEUED_BYTES, kind, channel.bytes_queued if channel is not None else 0
            yield SENT, kind, tally.bytes_sent + (channel.bytes_sent if channel is not None else 0)
            yield RECEIVED, kind, tally.bytes_received + (channel.bytes_received if channel is not None else 0)
            yield COMPILER, kind, tally.compiler_seconds + (counts.compiler_seconds if counts is not None else 0.0)


class _Source(Collector):
    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterable[Metric]:
        return self._source()


def _registry(*sources: Source) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    for source in sources:
        registry.register(_Source(source))
    return registry


def _parse(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise AiocgError(f"{address!r} is no address for metrics; expected HOST:PORT or PORT, such as 127.0.0.1:9464")
    return host.strip("[]") or "127.0.0.1", int(port)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
