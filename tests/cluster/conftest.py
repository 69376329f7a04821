"""Clusters for tests: of nodes in this process, and of nodes in processes of their own."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import aiocg
import aiocg.testing
from aiocg.cluster.hosts import Host
from aiocg.transport.keys import KeyFolder
from aiocg.transport.security import ClientSecurity

from ..node.conftest import QUICK, Site, free_ports, open_descriptors, serve
from ..node.serving import Serving

__all__ = ["open_descriptors", "serve"]  # fixtures


def host_of(site: Site, through: str = "127.0.0.1", workers: int = 0) -> Host:
    """Return a node as a cluster has it, by its address or that of a line to it."""
    port = site.node.address.rpartition(":")[2]
    return Host(f"tcp://{through}:{port}", site.keys.public, workers)


def keys_for(*sites: Site) -> ClientSecurity:
    """Return the keys of a client whom all nodes let in."""
    own = sites[0].clients["alice"]
    for site in sites:
        site.names[own.public] = "alice"
    return ClientSecurity(own, sites[0].keys.public)


def runtime_on(*sites: Site, through: str = "127.0.0.1", **settings: Any) -> aiocg.Runtime:
    """Make a runtime on several nodes in this process."""
    settings = {"cluster": [host_of(site, through) for site in sites], "policy": QUICK, **settings}
    return aiocg.Runtime(keys=keys_for(*sites), **settings)


async def scripted(runtime: aiocg.Runtime, value: int = 5) -> aiocg.Env:
    """Return an environment that is at a number."""
    env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(value))
    await env.reset()
    return env


class Nodes:
    """Nodes in processes of their own, which can be killed and started again."""

    def __init__(self, place: Any, count: int, options: tuple[str, ...]) -> None:
        self.keys = KeyFolder(place.folder / "keys")
        place.environment["AIOCG_KEYS"] = str(self.keys.path)
        self.keys.authorize("me", self.keys.create().public)
        self._place, self._options = place, options
        self._addresses = [f"tcp://127.0.0.1:{free_ports()[0]}" for _ in range(count)]
        self._running = [self._start(address) for address in self._addresses]

    def _start(self, address: str) -> Serving:
        return Serving(self._place, "--bind", address, *self._options)

    @property
    def hosts(self) -> list[Host]:
        """The nodes, as a cluster has them."""
        return [Host(address, self.keys.pair().public) for address in self._addresses]

    def runtime(self, **settings: Any) -> aiocg.Runtime:
        """Make a runtime on all of them."""
        own = self.keys.pair()
        return aiocg.Runtime(cluster=self.hosts, keys=ClientSecurity(own, own.public), **{"policy": QUICK, **settings})

    def children(self, index: int) -> list[int]:
        """Return the process ids of a node's workers."""
        return self._running[index].children()

    def kill(self, index: int) -> None:
        """Kill a node, whose workers die with it."""
        self._running[index].process.kill()
        self._running[index].process.wait()

    def restart(self, index: int) -> None:
        """Start a killed node again, at its address."""
        self._running[index].end()
        self._running[index] = self._start(self._addresses[index])

    def end(self) -> None:
        """Kill all of them."""
        for serving in self._running:
            serving.end()


@pytest.fixture
def nodes(place: Any) -> Iterator[Any]:
    """Start nodes: `nodes(2, "--lease", "2")`."""
    with contextlib.ExitStack() as stack:

        def start(count: int, *options: str) -> Nodes:
            started = Nodes(place, count, options)
            stack.callback(started.end)
            return started

        yield start
