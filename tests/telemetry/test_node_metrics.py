"""Metrics of a node: what its numbers say of clients that attach, use workers, and vanish."""

from prometheus_client.parser import text_string_to_metric_families

from aiocg.host.launcher import Look
from aiocg.node.leases import Leases, Policy
from aiocg.node.limits import Limits
from aiocg.telemetry import metrics
from aiocg.transport.control import CONTROL_VERSION, Attach, Spawn
from aiocg.transport.status import Counts

NAMES = {"k1": "alice", "k2": "bob"}


def _numbers(leases: Leases, refused: int = 0) -> dict[tuple[str, ...], float]:
    text = metrics.text(metrics.of_node(leases, NAMES.__getitem__, lambda: refused))
    families = list(text_string_to_metric_families(text))
    return {
        (sample.name.removeprefix("aiocg_node_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def _attached(*keys: str) -> Leases:
    leases = Leases(Policy(lease=3.0, kinds=frozenset({"scripted"})), lambda key: Limits(workers=2), "node")
    for key in keys:
        leases.received(key.encode(), key, Attach(CONTROL_VERSION, "test", "1"), 0.0)
    return leases


def test_a_node_that_nobody_has_found_has_a_number_for_those_it_did_not_let_in() -> None:
    assert _numbers(_attached(), 7) == {("refused_handshakes_total",): 7}


def test_clients_and_their_workers_are_counted_by_the_names_of_their_keys() -> None:
    leases = _attached("k1", "k2")
    for number in (1, 2, 3):  # one more than it may have
        leases.received(b"k1", "k1", Spawn(number, "scripted"), 0.5)
    leases.started(1, 5000, "x" * 40, 99)
    leases.ticked({1: Look(memory=100, counts=Counts(3, 1, 10, 2, 1.5, 800, 900)), 2: Look(memory=50)}, 1.0)
    numbers = _numbers(leases)
    assert numbers["clients", "alice"] == numbers["clients", "bob"] == 1
    assert (numbers["workers", "alice", "running"], numbers["workers", "alice", "starting"]) == (1, 1)
    assert ("workers", "bob", "running") not in numbers
    assert (numbers["worker_starts_total", "alice"], numbers["refused_workers_total", "alice"]) == (2, 1)
    assert (numbers["memory_bytes", "alice"], numbers["sessions", "alice"]) == (150, 3)
    assert (numbers["requests_total", "alice"], numbers["requests_failed_total", "alice"]) == (10, 2)
    assert numbers["compiler_seconds_total", "alice"] == 1.5
    assert (numbers["received_bytes_total", "alice"], numbers["sent_bytes_total", "alice"]) == (800, 900)


def test_what_workers_have_done_counts_on_when_they_and_their_client_are_gone() -> None:
    leases = _attached("k1")
    leases.received(b"k1", "k1", Spawn(1, "scripted"), 0.0)
    leases.started(1, 5000, "x" * 40, 99)
    leases.ticked({1: Look(counts=Counts(requests=10, compiler_seconds=1.5))}, 1.0)
    for tick in range(100):  # and it is not heard of for longer than its lease
        leases.ticked({}, 1.0 + tick * 0.05)
    assert _numbers(leases)["requests_total", "alice"] == 10
    leases.died(1, -9, Look(counts=Counts(requests=12, compiler_seconds=2.0)), "", 10.5)
    numbers = _numbers(leases)
    assert (numbers["clients", "alice"], numbers["attached_clients_total", "alice"]) == (0, 1)
    assert numbers["expired_leases_total", "alice"] == 1
    assert numbers["worker_deaths_total", "signal SIGKILL", "alice"] == 1
    assert (numbers["requests_total", "alice"], numbers["compiler_seconds_total", "alice"]) == (12, 2.0)
    assert not any(key[0] == "workers" for key in numbers)
