"""Prometheus metrics of a runtime or node, read on demand.

A *source* is a function that yields families of numbers. Nothing is registered anywhere for the whole process, nothing
has a clock of its own, and labels have few values: kinds, slots, causes, codes, and the names of authorised clients.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiocg.errors import AiocgError
from aiocg.fleet.restart_policy import SlotState

try:
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError:
    raise AiocgError("metrics need prometheus-client: pip install 'aiocg[telemetry]'") from None

if TYPE_CHECKING:
    from aiocg.fleet.supervisor import Supervisor
    from aiocg.node.leases import Leases

__all__ = ["MetricsServer", "Source", "of_node", "of_runtime", "text"]

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
        self.address = f"{f'[{host}]' if ':' in host else host}:{self._server.server_port}"

    async def close(self) -> None:
        """Listen no more."""
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()
        await asyncio.to_thread(self._thread.join)


class _Supervised(Protocol):
    """A runtime, as far as it is looked at here."""

    def supervisors(self) -> "list[Supervisor]":
        """Return what keeps the workers alive, one for each kind in use."""


def of_runtime(runtime: _Supervised) -> Source:
    """Return a source of what a runtime knows of its workers, sessions and requests."""
    return lambda: _Family.all(_read_supervisors(runtime.supervisors()))


def of_node(leases: "Leases", name_of: Callable[[str], str], refused: Callable[[], int]) -> Source:
    """Return a source of what a node knows of its clients and their workers.

    Args:
        leases: its clients.
        name_of: returns the name under which a public key was authorised.
        refused: returns how many connections were not let in.
    """
    return lambda: _Family.all([(_HANDSHAKES, (), refused()), *_read_leases(leases, name_of)])


Sample = tuple["_Family", tuple[object, ...], float]


class _Family:
    """One metric: its name, without the ending that counters have, what it says, and its labels."""

    def __init__(self, name: str, help: str, *labels: str, counter: bool = False) -> None:
        self.name, self.help, self.labels = name, help, labels
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


_WORKERS = _Family("aiocg_workers", "Worker slots by state.", "kind", "state")
_STARTS = _Family("aiocg_worker_starts", "Worker processes started.", "kind", counter=True)
_DEATHS = _Family("aiocg_worker_deaths", "Worker processes that ended, by cause.", "kind", "cause", counter=True)
_MEMORY = _Family("aiocg_worker_memory_bytes", "Resident memory of each worker.", "kind", "slot")
_SESSIONS = _Family("aiocg_sessions", "Sessions of environments and snapshots.", "kind")
_REBUILT = _Family("aiocg_sessions_rebuilt", "Sessions rebuilt on another process.", "kind", counter=True)
_LOST = _Family("aiocg_sessions_lost", "Sessions that are beyond rebuilding.", "kind", counter=True)
_REQUESTS = _Family("aiocg_requests", "Requests sent to workers, recovery and repeats included.", "kind", counter=True)
_RESENT = _Family("aiocg_requests_resent", "Requests sent again after their worker ended.", "kind", counter=True)
_FAILED = _Family("aiocg_requests_failed", "Requests that failed, by code.", "kind", "code", counter=True)
_IN_FLIGHT = _Family("aiocg_requests_in_flight", "Requests that a worker has and has not answered.", "kind")
_QUEUED = _Family("aiocg_requests_queued", "Requests that wait for a worker to be started.", "kind")
_QUEUED_BYTES = _Family("aiocg_queued_bytes", "Encoded requests that workers have not taken yet.", "kind")
_SENT = _Family("aiocg_sent_bytes", "Encoded requests sent to workers.", "kind", counter=True)
_RECEIVED = _Family("aiocg_received_bytes", "Encoded replies received from workers.", "kind", counter=True)
_SUSPECTS = _Family("aiocg_quarantined", "Questions that killed their workers and are not asked again.", "kind")
_PLACED = _Family("aiocg_cluster_workers", "Workers that run on each node of a cluster.", "kind", "node")
_HELD = _Family("aiocg_cluster_sessions", "Sessions whose worker runs on a node.", "kind", "node")
_ASKED = _Family("aiocg_cluster_requests_in_flight", "Requests that workers on a node have.", "kind", "node")
_COMPILER = _Family("aiocg_compiler_seconds", "Time that workers have spent in the compiler.", "kind", counter=True)


def _read_supervisors(supervisors: Iterable["Supervisor"]) -> Iterator[Sample]:
    for supervisor in supervisors:
        kind = (supervisor.kind,)
        yield from ((_WORKERS, (*kind, state.value), 0) for state in SlotState)
        suspects = [one for one in supervisor.workers[0].quarantine if one.question.kind == supervisor.kind]
        yield _SUSPECTS, kind, len(suspects)
        for index, (slot, worker, look) in enumerate(supervisor.looks()):
            tally, counts = worker.tally, look.counts if look is not None else None
            yield _WORKERS, (*kind, slot.state.value), 1
            yield _STARTS, kind, tally.starts
            yield from ((_DEATHS, (*kind, cause), number) for cause, number in tally.deaths.items())
            yield _MEMORY, (*kind, index), look.memory if look is not None else 0
            if look is not None and look.machine:
                yield _PLACED, (*kind, look.machine), 1
                yield _HELD, (*kind, look.machine), worker.load_now().sessions
                yield _ASKED, (*kind, look.machine), worker.waiting
            yield _SESSIONS, kind, worker.load_now().sessions
            yield _REBUILT, kind, tally.rebuilt
            yield _LOST, kind, tally.lost
            yield _REQUESTS, kind, worker.sent
            yield _RESENT, kind, tally.resent
            yield from ((_FAILED, (*kind, code), number) for code, number in tally.failures.items())
            yield _IN_FLIGHT, kind, worker.waiting
            yield _QUEUED, kind, worker.pending - worker.waiting
            channel = worker.channel
            yield _QUEUED_BYTES, kind, channel.bytes_queued if channel is not None else 0
            yield _SENT, kind, tally.bytes_sent + (channel.bytes_sent if channel is not None else 0)
            yield _RECEIVED, kind, tally.bytes_received + (channel.bytes_received if channel is not None else 0)
            yield _COMPILER, kind, tally.compiler_seconds + (counts.compiler_seconds if counts is not None else 0.0)


_HANDSHAKES = _Family("aiocg_node_refused_handshakes", "Connections whose key is not authorised.", counter=True)
_CLIENTS = _Family("aiocg_node_clients", "Processes of clients that are attached.", "client")
_ATTACHED = _Family("aiocg_node_attached_clients", "Processes of clients that have attached.", "client", counter=True)
_EXPIRED = _Family("aiocg_node_expired_leases", "Leases that ran out.", "client", counter=True)
_THEIRS = _Family("aiocg_node_workers", "Workers by state.", "client", "state")
_STARTED = _Family("aiocg_node_worker_starts", "Workers that were to be started.", "client", counter=True)
_DENIED = _Family("aiocg_node_refused_workers", "Workers that a client may not have.", "client", counter=True)
_DIED = _Family("aiocg_node_worker_deaths", "Workers that are gone, by cause.", "client", "cause", counter=True)
_IN_USE = _Family("aiocg_node_memory_bytes", "Resident memory of workers together.", "client")
_OPEN = _Family("aiocg_node_sessions", "Sessions that workers hold.", "client")
_DONE = _Family("aiocg_node_requests", "Requests that workers have carried out.", "client", counter=True)
_ERRORS = _Family("aiocg_node_requests_failed", "Of these, those that failed.", "client", counter=True)
_BUSY = _Family("aiocg_node_compiler_seconds", "Time that workers have spent in the compiler.", "client", counter=True)
_ARRIVED = _Family("aiocg_node_received_bytes", "Encoded requests that workers have received.", "client", counter=True)
_ANSWERED = _Family("aiocg_node_sent_bytes", "Encoded replies that workers have sent.", "client", counter=True)


_COUNTED = {  # attributes of what a worker counts, and of the tally of those that are gone
    **{_DONE: "requests", _ERRORS: "failures", _BUSY: "compiler_seconds"},
    **{_ARRIVED: "bytes_received", _ANSWERED: "bytes_sent"},
}
_TALLIED = {_ATTACHED: "attached", _EXPIRED: "expired", _STARTED: "starts", _DENIED: "refused", **_COUNTED}


def _read_leases(leases: "Leases", name_of: Callable[[str], str]) -> Iterator[Sample]:
    tally = leases.tally
    for family, what in _TALLIED.items():
        yield from ((family, (name_of(key),), number) for key, number in getattr(tally, what).items())
    yield from ((_DIED, (name_of(key), cause), number) for (key, cause), number in tally.deaths.items())
    yield from ((_CLIENTS, (name_of(key),), 0) for key in tally.attached)  # also those that have left
    yield from ((_CLIENTS, (name_of(lease.key),), 1) for lease in leases.leases.values())
    for holder in leases.holders.values():
        client, counts = (name_of(holder.key),), holder.look.counts
        yield _THEIRS, (*client, holder.state.value), 1
        yield _IN_USE, client, holder.look.memory
        if counts is not None:
            yield _OPEN, client, counts.sessions
            yield from ((family, client, getattr(counts, what)) for family, what in _COUNTED.items())


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
