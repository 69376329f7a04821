"""Four nodes on hosts of their own, behind lines that delay and lose frames, and that come apart during searches.

The hosts are network namespaces, so this needs root, or what root has in a container (CAP_NET_ADMIN).
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiocg.cluster.hosts import Host, write_hosts
from aiocg.transport.keys import KeyFolder

from ..node import namespaces

LACK = namespaces.missing()
CLIENT = Path(__file__).with_name("searching_client.py")
NODES = 4

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(LACK is not None, reason=f"network namespaces: {LACK}"),
]


def eventually(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            pytest.fail(f"not so after {seconds} s: {what}")
        time.sleep(0.1)


class Searching:
    """A client on a host, and the four nodes."""

    def __init__(self, net: namespaces.Network, folder: Path) -> None:
        keys = KeyFolder(folder / "keys")
        keys.authorize("me", public := keys.create().public)
        self.environ = {**os.environ, "AIOCG_KEYS": str(keys.path), "AIOCG_LOG": "info"}
        self.hosts = [net.far_host(f"node{i}", loss=0.01, delay=0.005, seed=i) for i in range(NODES)]
        outputs = [folder / f"node{i}.out" for i in range(NODES)]
        for host, output in zip(self.hosts, outputs, strict=True):
            serve = ("-m", "aiocg.cli", "serve", "--json", "--bind", self.address(host), "--client-workers", "4")
            limits = ("--client-spawns", "1000", "--lease", "5")
            host.start(sys.executable, "-P", *serve, *limits, env=self.environ, output=output)
        for output in outputs:
            eventually(lambda output=output: "address" in output.read_text(), "a node listens")  # type: ignore[misc]
        write_hosts(folder / "hosts.toml", [Host(self.address(host), public) for host in self.hosts])
        self._stop, self._output = folder / "stop", folder / "client.out"
        self.here = net.host("client")
        command = (sys.executable, "-P", str(CLIENT), str(folder / "hosts.toml"), str(self._stop))
        self.process = self.here.start(*command, env=self.environ, output=self._output)

    @staticmethod
    def address(host: namespaces.Host) -> str:
        """Return the address of the node on a host."""
        return f"tcp://{host.address}:7000"

    def found(self) -> list[str]:
        """Return what the client has found so far."""
        assert self.process.poll() in (None, 0), self._errors()[-3000:]
        return self._output.read_text().splitlines()

    def count(self, event: str, host: namespaces.Host) -> int:
        """Return how often the client has logged an event of a node."""
        return self._errors().count(f"{event} address={self.address(host)}")

    def _errors(self) -> str:
        return self._output.with_suffix(".err").read_text()

    def finish(self) -> list[str]:
        """Let the client end, and return all that it has found."""
        self._stop.touch()
        self.process.wait(240)
        return self.found()


@pytest.fixture
def searching(tmp_path: Path) -> Iterator[Searching]:
    with namespaces.network() as net:
        yield Searching(net, tmp_path)


@pytest.mark.every_case
def test_beam_search_finds_what_it_finds_at_home_whatever_the_network_does(searching: Searching) -> None:
    home = subprocess.run(
        [sys.executable, "-P", str(CLIENT), "", ""], env=searching.environ, capture_output=True, check=True, text=True
    )
    eventually(searching.found, "a search over bad lines has come to its end")
    for apart in ([0], [1], [2, 3]):
        hosts = [searching.hosts[index] for index in apart]
        before = [searching.count("node up", host) for host in hosts]
        assert all(before)
        for host in hosts:
            host.cut()
        eventually(lambda hosts=hosts: all(searching.count("node lost", host) for host in hosts), "they are lost")  # type: ignore[misc]
        for host in hosts:
            host.mend()
        for host, count in zip(hosts, before, strict=True):
            eventually(lambda host=host, count=count: searching.count("node up", host) > count, "they are back")  # type: ignore[misc]
    searching.here.cut()
    time.sleep(7.0)  # longer than a node alone may be silent
    searching.here.mend()
    found = searching.finish()
    assert len(found) > 1 and set(found) == {home.stdout.strip()}
    assert [searching.count("node lost", host) for host in searching.hosts] == [1, 1, 1, 1]
