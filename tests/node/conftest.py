"""Nodes for tests: in this process, with real workers."""

import asyncio
import contextlib
import itertools
import os
import random
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import aiocg
import aiocg.testing  # registers scripted-v0
from aiocg.fleet.restart_policy import Policy as SupervisorPolicy
from aiocg.node.leases import Policy
from aiocg.node.limits import Limits, LimitsTable
from aiocg.node.server import Node, Settings, installed_kinds
from aiocg.transport.security import ClientSecurity, KeyPair

from ..waiting import is_alive
from .line import HERE, THERE, WORKER

PORTS = 16  # for the workers of one node
PROCESSES = 8  # of tests, at most, that are to have ports of their own


@dataclass
class Site:
    """A node and what belongs to it.

    Attributes:
        node: that runs.
        keys: its pair.
        clients: pairs of those that may use it, by name.
        names: what the node is told of that, to be changed.
        ports: for its workers.
    """

    node: Node
    keys: KeyPair
    clients: dict[str, KeyPair]
    names: dict[str, str]
    ports: range
    task: "asyncio.Task[None]" = field(repr=False)

    def security(self, name: str = "alice") -> ClientSecurity:
        """Return what a client needs."""
        return ClientSecurity(self.clients[name], self.keys.public)

    def runtime(self, name: str = "alice", *, through: str = "127.0.0.1", **settings: Any) -> aiocg.Runtime:
        """Make a runtime of a client on the node, whose address may be that of a line to it."""
        port = self.node.address.rpartition(":")[2]
        settings = {"workers": 1, "policy": QUICK, **settings}
        return aiocg.Runtime(node=f"tcp://{through}:{port}", keys=self.security(name), **settings)

    def pids(self) -> list[int]:
        """Return the process ids of all workers that run."""
        return [holder.spawned.pid for holder in self.node.leases.holders.values() if holder.spawned is not None]


QUICK = SupervisorPolicy(first_delay=0.01, max_delay=0.1)
Serve = Callable[..., Any]


@pytest.fixture
def serve() -> Serve:
    """Start nodes: `async with serve(lease=1.0, workers=2) as site`; checks that they leave nothing behind."""

    @contextlib.asynccontextmanager
    async def start(
        *, lease: float = 20.0, address: str = "tcp://127.0.0.1:0", trust: bool = False, **limits: int
    ) -> AsyncIterator[Site]:
        node_keys = KeyPair.generate()
        clients = {name: KeyPair.generate() for name in ("alice", "bob")}
        names = {pair.public: name for name, pair in clients.items()}
        policy = Policy(lease, min(0.1, lease / 8), 8, installed_kinds(), processors=2)
        table = LimitsTable(Limits(**{"workers": 4, "spawns_per_minute": 1000, **limits}))
        ports = free_ports()
        node = await Node.open(
            Settings(address, node_keys, lambda: dict(names), policy, table, ports, {"untrusted": not trust})
        )
        task = asyncio.create_task(node.run())
        site = Site(node, node_keys, clients, names, ports, task)
        folder = node.folder
        try:
            yield site
        finally:
            pids = site.pids()
            node.stop()
            await task
            assert not any(map(is_alive, pids))
            assert not folder.exists()

    return start


# First ports of this process's ranges, below those that the system hands out, in an order of this run's own.
_RANGES = list(range(10_000, 20_000, PORTS))[WORKER % PROCESSES :: PROCESSES]
random.shuffle(_RANGES)
_NEXT = itertools.cycle(_RANGES)


def free_ports() -> range:
    """Return ports in a row that nobody listens at; no call soon after returns one of them again."""
    for first in itertools.islice(_NEXT, len(_RANGES)):
        with contextlib.suppress(OSError):
            for port in range(first, first + PORTS):
                for host in (THERE, HERE):
                    with socket.socket() as probe:
                        probe.bind((host, port))
            return range(first, first + PORTS)
    raise RuntimeError("no free ports")


@pytest.fixture(autouse=True)
def open_descriptors() -> Any:
    """Check that a test leaves no file descriptor open."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    after = len(os.listdir("/proc/self/fd"))
    assert after <= before + 20, "descriptors leak"  # the contexts of ZeroMQ and the event loop open some once
